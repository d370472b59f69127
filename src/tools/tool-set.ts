/**
 * Everything a client can do on this machine, as the stream sees it: which kinds, which declared tools, who must be
 * asked, and carrying it out.
 *
 * It decides nothing about when and how often: the tool journal does. A run always answers; what goes wrong is an outcome
 * of its kind, never an exception.
 */
import { fromBinary } from "../protocol/message.ts";
import type { ToolRun, Tools } from "../client/tools.ts";
import { fieldsOf } from "../protocol/fields.ts";
import { failedResult, type ExecKindName, type ExecRequest, writeExecThrow } from "../protocol/exec-codec.ts";
import {
  ExecKind,
  type ExecServerMessage,
  ExecServerMessageSchema,
  type McpArgs,
  type SubagentArgs,
  type ToolDefinition,
} from "../protocol/messages.ts";
import type { Approvals, PolicySubject } from "./approvals.ts";
import { argumentsOf, type DeclaredTool } from "./declared-tools.ts";
import { deleteFile } from "./delete.ts";
import { failureOf, fault, throwIfAborted } from "./faults.ts";
import { glob } from "./glob.ts";
import { grep } from "./grep.ts";
import { ls } from "./ls.ts";
import { markOf } from "./process-records.ts";
import { progressLines } from "./progress-lines.ts";
import { read } from "./read.ts";
import { type ResultMessage, writeExecResult } from "./results.ts";
import { shell, type ShellPlace, shellStream } from "./shell.ts";
import { removeTemporary, write } from "./write.ts";

/** Runs a child turn; given by the client, which knows streams. */
export interface Subagents {
  /** Resolves with the encoded terminal reply. */
  run(args: SubagentArgs, exec: ExecRequest, run: ToolRun): Promise<Uint8Array>;
}

export interface ToolSet extends Tools {
  /** For RunRequest.exec_kinds. */
  readonly kinds: readonly ExecKind[];
  /** For RunRequest.tools. */
  readonly definitions: readonly ToolDefinition[];
  /** What the user should know: no sandbox, a server that did not start. */
  readonly notices: readonly string[];
  /** Its real path. */
  readonly workspace: string;
  /** Stops what runs and lets everything go. */
  close(): Promise<void>;
}

interface ToolSetParts extends Pick<ToolSet, "workspace" | "notices" | "close"> {
  readonly approvals: Approvals;
  /** Undefined where file tools cannot be safe. */
  readonly files: { readonly shell: ShellPlace; readonly ripgrep: string | undefined } | undefined;
  readonly declared: readonly DeclaredTool[];
  readonly subagents: Subagents | undefined;
}

const REPEATABLE: ReadonlySet<ExecKindName> = new Set(["read", "ls", "glob", "grep", "subagent"]);

/** In this order they are offered. */
const FILE_KINDS = new Map<ExecKindName, ExecKind>([
  ["read", ExecKind.READ],
  ["ls", ExecKind.LS],
  ["glob", ExecKind.GLOB],
  ["grep", ExecKind.GREP],
  ["write", ExecKind.WRITE],
  ["delete", ExecKind.DELETE],
]);
const SHELL_KINDS = new Map<ExecKindName, ExecKind>([
  ["shell", ExecKind.SHELL],
  ["shell_stream", ExecKind.SHELL_STREAM],
]);

export function toolSet(parts: ToolSetParts): ToolSet {
  const { workspace, notices, approvals, files, subagents } = parts;
  const definitions = parts.declared.map(({ definition }) => definition);
  const declared = new Map(parts.declared.map((tool) => [tool.definition.name, tool]));
  const offered = new Map([
    ...(files === undefined ? [] : FILE_KINDS),
    ...(files?.shell.config.enabled === true ? SHELL_KINDS : []),
    ...(declared.size > 0 ? ([["mcp", ExecKind.MCP]] as const) : []),
    ...(subagents === undefined ? [] : ([["subagent", ExecKind.SUBAGENT]] as const)),
  ]);
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  let closed: Promise<void> | undefined;

  /** A declared tool that is not there is `not_found`, not an unknown kind. */
  const offers = ({ kind }: ExecRequest): boolean => kind === "mcp" || offered.has(kind);

  const subjectOf = (exec: ExecRequest): PolicySubject | undefined => {
    const message = messageOf(exec);
    if (message === undefined) return undefined;
    const tool = exec.kind === "mcp" ? declared.get(exec.tool) : undefined;
    return { exec, message, names: namesOf(exec, tool), declared: tool?.policy };
  };

  const callDeclared = async (args: McpArgs, exec: ExecRequest, run: ToolRun): Promise<ResultMessage> => {
    const tool = declared.get(args.name);
    if (tool === undefined) throw fault("ENOENT", `there is no tool "${args.name}" here`);
    const lines = progressLines(exec, run);
    const callId = `${run.idempotencyKey}:${exec.execId}`;
    const given = { ...run, callId, progress: (text: string) => lines.say(text) };
    try {
      const value = await tool.call(await argumentsOf(args, run), given);
      return { case: "mcpResult", value: { result: { case: "success", value } } };
    } finally {
      await lines.finish();
    }
  };

  const carryOut = async (
    { message: request }: ExecServerMessage,
    exec: ExecRequest,
    run: ToolRun,
  ): Promise<ResultMessage> => {
    if (request.case === "mcpArgs") return callDeclared(request.value, exec, run);
    if (files === undefined) throw fault("ENOSYS", "file tools do not work on this system");
    const { jail } = files.shell;
    switch (request.case) {
      case "readArgs":
        return read(request.value, jail, run);
      case "writeArgs":
        return write(request.value, markOf(exec.args), jail, run);
      case "deleteArgs":
        return deleteFile(request.value, jail, run);
      case "lsArgs":
        return ls(request.value, jail, run);
      case "globArgs":
        return glob(request.value, jail, run);
      case "grepArgs":
        return grep(request.value, files.ripgrep, jail, run);
      case "shellArgs":
        return shell(request.value, exec, files.shell, run);
      case "shellStreamArgs":
        return shellStream(request.value, exec, files.shell, run);
      case "subagentArgs":
      case undefined:
        throw fault("ENOSYS", "this client does not offer this kind");
    }
  };

  const answer = async (exec: ExecRequest, run: ToolRun): Promise<Uint8Array> => {
    const message = messageOf(exec);
    if (message === undefined) return writeExecThrow(exec, "invalid_args", "the request cannot be read");
    if (exec.kind === "unrecognized" || !offers(exec)) {
      return writeExecThrow(exec, "unknown_kind", `this client does not offer "${exec.tool}"`);
    }
    try {
      // The workspace's descriptor may name another file by now.
      throwIfAborted(closing.signal);
      const { message: request } = message;
      if (request.case === "subagentArgs" && subagents !== undefined) {
        return await subagents.run(request.value, exec, run);
      }
      return writeExecResult(exec, await carryOut(message, exec, run));
    } catch (cause) {
      return writeExecResult(exec, failedResult(exec.kind, failureOf(cause, pathOf(message))));
    }
  };

  return {
    workspace,
    notices,
    definitions,
    kinds: [...offered.values()],
    policy: (exec) => {
      const repeatable =
        exec.kind === "mcp"
          ? declared.get(exec.tool)?.definition.repeatable === true
          : REPEATABLE.has(exec.kind);
      const subject = subjectOf(exec);
      // What cannot be run at all is answered without asking the user.
      const isOffered = subject !== undefined && offers(exec);
      return { repeatable, needsApproval: isOffered && approvals.policy(subject) !== "allow" };
    },
    approve: async (exec, asked) => {
      const subject = subjectOf(exec);
      if (subject === undefined) return { allowed: false, untilMs: 0, reason: "the request cannot be read" };
      return approvals.approve(subject, asked);
    },
    run: async (exec, run) => {
      const answering = answer(exec, { ...run, signal: AbortSignal.any([run.signal, closing.signal]) });
      running.add(answering);
      try {
        return await answering;
      } finally {
        running.delete(answering);
      }
    },
    stopLeftover: (exec) => {
      const message = messageOf(exec)?.message;
      if (files === undefined || message === undefined || closing.signal.aborted) return;
      if (message.case === "shellArgs" || message.case === "shellStreamArgs") {
        files.shell.records.stopLeftover(markOf(exec.args));
      } else if (message.case === "writeArgs") {
        removeLeftTemporary(message.value.path, exec, files.shell);
      }
    },
    close: () =>
      (closed ??= (async () => {
        closing.abort();
        await Promise.allSettled(running);
        await parts.close();
      })()),
  };
}

function namesOf(exec: ExecRequest, tool: DeclaredTool | undefined): readonly string[] {
  if (exec.kind === "shell_stream") return ["shell"];
  if (exec.kind !== "mcp") return [exec.kind];
  const server = tool?.definition.server ?? "";
  return server === "" ? [exec.tool, "function"] : [exec.tool, server, "mcp"];
}

/** Undefined when the bytes are no request. */
function messageOf(exec: ExecRequest): ExecServerMessage | undefined {
  try {
    return fromBinary(ExecServerMessageSchema, exec.args);
  } catch {
    return undefined;
  }
}

function pathOf({ message }: ExecServerMessage): string {
  const { path, workingDirectory } = fieldsOf(message.value);
  return [path, workingDirectory].find((value) => typeof value === "string") ?? "";
}

/** A path that leads nowhere any more has no temporary file either. */
function removeLeftTemporary(path: string, exec: ExecRequest, { jail }: ShellPlace): void {
  try {
    removeTemporary(path, markOf(exec.args), jail);
  } catch (cause) {
    if (failureOf(cause, path).case === "error") throw cause;
  }
}
