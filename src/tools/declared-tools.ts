/**
 * Tools that the client declares to the model: functions of the program that uses us, and the tools of MCP servers.
 *
 * To the server both are `mcp` execs. Their names, which are unique and fit every provider, say which is which.
 */
import { hash } from "node:crypto";
import { addAbortListener } from "node:events";
import type { ToolRun } from "../client/tools.ts";
import { create, type MessageInitShape } from "../protocol/message.ts";
import { messageOf } from "../protocol/errors.ts";
import { given } from "../protocol/given.ts";
import {
  type McpArgs,
  type McpSuccessSchema,
  type ToolDefinition,
  ToolDefinitionSchema,
} from "../protocol/messages.ts";
import type { Policy } from "./config.ts";
import { fault } from "./faults.ts";
import { bytesOf, contentOf, type FunctionResult, jsonContentOf } from "./results.ts";

export type McpSuccessInit = MessageInitShape<typeof McpSuccessSchema>;

export interface DeclaredTool {
  readonly definition: ToolDefinition;
  /** What a function tool says about itself. */
  readonly policy: Policy | undefined;
  call(args: unknown, run: DeclaredRun): Promise<McpSuccessInit>;
}

/** What a declared tool is given of the stream, and what it may say before its result. */
interface DeclaredRun extends ToolRun {
  /** The same for this call however often it runs: an idempotency key for others. */
  readonly callId: string;
  /** A line for people. Of lines that come faster than they are kept, the last one is sent. */
  readonly progress: (text: string) => void;
}

export interface FunctionTool {
  readonly description: string;
  /** JSON Schema of the arguments. They are not checked against it here. */
  readonly parameters: object;
  /** Running it twice does no harm: it may be run again when a crash hides the outcome. */
  readonly repeatable?: boolean;
  readonly policy?: Policy;
  run(args: unknown, run: DeclaredRun): Promise<FunctionResult>;
}

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;

export function functionTools(functions: Readonly<Record<string, FunctionTool>>): readonly DeclaredTool[] {
  return Object.entries(functions).map(([name, tool]) => {
    if (!NAME.test(name)) {
      throw fault(
        "EINVAL",
        `the function tool "${name}" needs a name of 1 to 64 letters, digits, "_" or "-"`,
      );
    }
    const definition = create(ToolDefinitionSchema, {
      name,
      description: tool.description,
      parametersJson: JSON.stringify(tool.parameters),
      repeatable: tool.repeatable === true,
    });
    return { definition, policy: tool.policy, call: (args, run) => callFunction(tool, args, run) };
  });
}

/** A function that does not listen to the signal is left behind after this long. */
const STOP_MS = 2_000;

async function callFunction(tool: FunctionTool, args: unknown, run: DeclaredRun): Promise<McpSuccessInit> {
  const result = await orStopped(tool.run(args, run), run.signal);
  const { text, json, isError } = typeof result === "string" ? { text: result } : result;
  const textBytes = text === undefined ? undefined : Buffer.from(text);
  return {
    content: textBytes === undefined ? [] : [{ content: await contentOf(textBytes, run) }],
    isError: isError === true,
    ...given({ structuredJson: await jsonContentOf(json, run) }),
  };
}

async function orStopped<Result>(running: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const stopped = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  using _stopping = addAbortListener(signal, () => {
    timer = setTimeout(() => stopped.reject(fault("ABORT_ERR", "stopped")), STOP_MS);
  });
  try {
    return await Promise.race([running, stopped.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** JSON as the model wrote it; empty is no arguments. */
export async function argumentsOf({ argsJson }: McpArgs, run: Pick<ToolRun, "download">): Promise<unknown> {
  if (argsJson === undefined) return {};
  const text = new TextDecoder().decode(await bytesOf(argsJson, run));
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw fault("EINVAL", `the arguments are no JSON: ${messageOf(cause)}`);
  }
}

/** So much of a name stays when a hash is put behind it. */
const KEPT_CHARS = 55;
/** The first two underscores part a server with such a name from its tool, whatever the tool is called. */
const PLAIN_SERVER = /^(?!.*__)[a-zA-Z0-9_-]*[a-zA-Z0-9-]$/;
const HASHED = /_[0-9a-f]{8}$/;

/** Whether a name may be that of a tool of this server. */
export function mayBeOf(server: string, name: string): boolean {
  if (PLAIN_SERVER.test(server) && name.startsWith(`${server}__`)) return true;
  return HASHED.test(name) && name.startsWith(hashedBeginning(`${server}__`));
}

/** Without two underscores in a row, so that it never is what another server and tool are called plainly. */
function hashedBeginning(whole: string): string {
  return whole
    .replace(/[^a-zA-Z0-9_-]/g, "_")
    .replace(/_{2,}/g, "_")
    .slice(0, KEPT_CHARS);
}

/**
 * `server__tool`, or with a hash where that could be another pair's name or is no valid one.
 *
 * It depends on the two alone, so a name means the same tool at every start, whichever servers are there. `taken` are the names of functions.
 */
export function declaredName(server: string, tool: string, taken: ReadonlySet<string>): string {
  const whole = `${server}__${tool}`;
  const isPlain = PLAIN_SERVER.test(server) && NAME.test(whole);
  if (isPlain && !taken.has(whole)) return whole;
  return `${hashedBeginning(whole)}_${hash("sha256", JSON.stringify([server, tool])).slice(0, 8)}`;
}
