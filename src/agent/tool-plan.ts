/**
 * Which tools a turn offers to the model, and what a call of one asks for.
 *
 * Built-in tools come with what the client says it can carry out; declared ones are the client's own and return
 * to it as `mcp` execs. A call that makes no sense is no error of ours: the model hears why, and tries again.
 */
import { isJsonObject } from "../protocol/chat-message.ts";
import { checkJson } from "../protocol/json-check.ts";
import type { RunRequest } from "../protocol/messages.ts";
import type { CallPlan, Plans } from "../turn/call-plan.ts";
import { ASK_USER, BUILT_IN_TOOLS } from "./builtin-tools.ts";
import type { ModelTool } from "./model.ts";
import { TurnFailure } from "./turn-failure.ts";

export interface Offer extends Plans {
  readonly tools: readonly ModelTool[];
}

/** They stand in one event, with room for what is beside them (E8). Texts of files and prompts do not. */
const ARGS_CHARS_MAX = 64_000;

/** Throws a TurnFailure when a declared tool cannot be offered. */
export function offerOf(request: RunRequest): Offer {
  const kinds = new Set(request.execKinds);
  const isServed = ({ needs }: Pick<(typeof BUILT_IN_TOOLS)[number], "needs">): boolean =>
    kinds.size > 0 && needs.every((group) => group.some((kind) => kinds.has(kind)));
  const builtIns = BUILT_IN_TOOLS.filter(
    (tool) => isServed(tool) || (request.answersQuestions && tool.name === ASK_USER),
  );
  const declared = new Map(request.tools.map((definition) => [definition.name, definition]));
  const tools: ModelTool[] = [
    // A declared tool of the same name is what the client wants.
    ...builtIns
      .filter(({ name }) => !declared.has(name))
      .map(({ name, description, parameters }) => ({ name, description, parameters, strict: false })),
    ...request.tools.map((definition) => ({
      name: definition.name,
      description: definition.description,
      parameters: parametersOf(definition.name, definition.parametersJson),
      strict: definition.strict,
    })),
  ];
  return {
    tools,
    // With them comes the server's own prompt, which is about files and commands.
    hasBuiltIns: builtIns.some(isServed),
    plan: (name, args) => {
      const definition = declared.get(name);
      if (definition !== undefined) {
        // A call counts when its arguments parse (G3): what a client could not read does not reach it.
        const read = parseArgs(args);
        if (typeof read === "string") return invalid(read);
        return { kind: "declared", name, server: definition.server, args: args === "" ? "{}" : args };
      }
      const builtIn = builtIns.find((candidate) => candidate.name === name);
      if (builtIn === undefined)
        return invalid(
          `There is no tool "${name}". There are: ${tools.map((tool) => tool.name).join(", ")}.`,
        );
      const parsed = parseArgs(args);
      if (typeof parsed === "string") return invalid(parsed);
      const action = builtIn.plan(parsed.value, kinds);
      if (typeof action === "object" && action.kind === "exec" && args.length > ARGS_CHARS_MAX)
        return invalid(
          `The arguments have more than ${ARGS_CHARS_MAX} characters: write it to a file first.`,
        );
      return typeof action === "string" ? invalid(`The arguments are wrong:\n${action}`) : action;
    },
  };
}

function invalid(why: string): CallPlan {
  return { kind: "invalid", why };
}

const encoder = new TextEncoder();

function parseArgs(args: string): { readonly value: unknown } | string {
  if (args.trim() === "") return { value: {} };
  try {
    checkJson(encoder.encode(args));
    return { value: JSON.parse(args) };
  } catch (error) {
    return `The arguments are not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function parametersOf(name: string, json: string): ModelTool["parameters"] {
  const parsed = parseArgs(json);
  if (typeof parsed === "string" || !isJsonObject(parsed.value)) {
    throw new TurnFailure(
      "invalid_request",
      `the parameters of the tool "${name}" are no JSON Schema object`,
    );
  }
  return parsed.value;
}
