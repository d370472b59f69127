/**
 * Everything a client can do on this machine, as the stream sees it: which kinds, which declared tools, who must be
 * asked, and carrying it out.
 *
 * It decides nothing about when and how often: the tool journal does. A run always answers; what goes wrong is an outcome
 * of its kind, never an exception.
 */
import { fromBinary } from "@bufbuild/protobuf";
import type { Approval, ToolPolicy, ToolRun, Tools } from "../client/tools.ts";
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
import { grep, type GrepEngine } from "./grep.ts";
import { ls } from "./ls.ts";
import { markOf } from "./process-records.ts";
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

export interface ToolSetParts {
  readonly workspace: string;
  readonly approvals: Approvals;
  /** Undefined where file tools cannot be safe. */
  readonly files: { readonly shell: ShellPlace; readonly grep: GrepEngine } | undefined;
  readonly declared: readonly DeclaredTool[];
  readonly subagents: Subagents | undefined;
  readonly notices: readonly string[];
  close(): Promise<void>;
}

const REPEATABLE: ReadonlySet<ExecKindName> = new Set(["read", "ls", "glob", "grep", "subagent"]);

export class MachineTools implements ToolSet {
  readonly #parts: ToolSetParts;
  readonly #declared: ReadonlyMap<string, DeclaredTool>;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  #closed: Promise<void> | undefined;

  constructor(parts: ToolSetParts) {
    this.#parts = parts;
    this.#declared = new Map(parts.declared.map((tool) => [tool.definition.name, tool]));
  }

  get workspace(): string {
    return this.#parts.workspace;
  }

  get notices(): readonly string[] {
    return this.#parts.notices;
  }

  get definitions(): readonly ToolDefinition[] {
    return this.#parts.declared.map(({ definition }) => definition);
  }

  get kinds(): readonly ExecKind[] {
    const { files, declared, subagents } = this.#parts;
    const kinds: ExecKind[] = [];
    if (files !== undefined) {
      kinds.push(ExecKind.READ, ExecKind.LS, ExecKind.GLOB, ExecKind.GREP, ExecKind.WRITE, ExecKind.DELETE);
      if (files.shell.config.enabled) kinds.push(ExecKind.SHELL, ExecKind.SHELL_STREAM);
    }
    if (declared.length > 0) kinds.push(ExecKind.MCP);
    if (subagents !== undefined) kinds.push(ExecKind.SUBAGENT);
    return kinds;
  }

  policy(exec: ExecRequest): ToolPolicy {
    const repeatable =
      exec.kind === "mcp"
        ? this.#declared.get(exec.tool)?.definition.repeatable === true
        : REPEATABLE.has(exec.kind);
    const subject = this.#subject(exec);
    // What cannot be run at all is answered without asking anybody.
    const isOffered = subject !== undefined && this.#offers(exec);
    return { repeatable, needsApproval: isOffered && this.#parts.approvals.policy(subject) !== "allow" };
  }

  async approve(exec: ExecRequest, asked: Pick<ToolRun, "download" | "signal">): Promise<Approval> {
    const subject = this.#subject(exec);
    if (subject === undefined) return { allowed: false, untilMs: 0, reason: "the request cannot be read" };
    return this.#parts.approvals.approve(subject, asked);
  }

  async run(exec: ExecRequest, run: ToolRun): Promise<Uint8Array> {
    const running = this.#run(exec, {
      ...boundRun(run),
      signal: AbortSignal.any([run.signal, this.#closing.signal]),
    });
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  stopLeftover(exec: ExecRequest): void {
    const { files } = this.#parts;
    const message = messageOf(exec)?.message;
    if (files === undefined || message === undefined || this.#closing.signal.aborted) return;
    if (message.case === "shellArgs" || message.case === "shellStreamArgs") {
      files.shell.records.stopLeftover(markOf(exec.args));
    } else if (message.case === "writeArgs") {
      removeLeftTemporary(message.value.path, exec, files.shell);
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#running);
    await this.#parts.close();
  }

  async #run(exec: ExecRequest, run: ToolRun): Promise<Uint8Array> {
    const message = messageOf(exec);
    if (message === undefined) return writeExecThrow(exec, "invalid_args", "the request cannot be read");
    if (exec.kind === "unrecognized" || !this.#offers(exec)) {
      return writeExecThrow(exec, "unknown_kind", `this client does not offer "${exec.tool}"`);
    }
    try {
      // The workspace's descriptor may be somebody else's by now.
      throwIfAborted(this.#closing.signal);
      const { message: request } = message;
      if (request.case === "subagentArgs" && this.#parts.subagents !== undefined) {
        return await this.#parts.subagents.run(request.value, exec, run);
      }
      return writeExecResult(exec, await this.#carryOut(request, exec, run));
    } catch (cause) {
      return writeExecResult(exec, failedResult(exec.kind, failureOf(cause, pathOf(message))));
    }
  }

  async #carryOut(
    request: ExecServerMessage["message"],
    exec: ExecRequest,
    run: ToolRun,
  ): Promise<ResultMessage> {
    if (request.case === "mcpArgs") return this.#callDeclared(request.value, run);
    const { files } = this.#parts;
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
        return grep(request.value, files.grep, jail, run);
      case "shellArgs":
        return shell(request.value, exec, files.shell, run);
      case "shellStreamArgs":
        return shellStream(request.value, exec, files.shell, run);
      case "subagentArgs":
      case undefined:
        throw fault("ENOSYS", "this client does not offer this kind");
    }
  }

  async #callDeclared(args: McpArgs, run: ToolRun): Promise<ResultMessage> {
    const tool = this.#declared.get(args.name);
    if (tool === undefined) throw fault("ENOENT", `there is no tool "${args.name}" here`);
    const value = await tool.call(await argumentsOf(args, run), run);
    return { case: "mcpResult", value: { result: { case: "success", value } } };
  }

  /** A declared tool that is not there is `not_found`, not an unknown kind. */
  #offers(exec: ExecRequest): boolean {
    const { files, subagents } = this.#parts;
    switch (exec.kind) {
      case "mcp":
        return true;
      case "subagent":
        return subagents !== undefined;
      case "shell":
      case "shell_stream":
        return files?.shell.config.enabled === true;
      case "unrecognized":
        return false;
      default:
        return files !== undefined;
    }
  }

  #subject(exec: ExecRequest): PolicySubject | undefined {
    const message = messageOf(exec);
    if (message === undefined) return undefined;
    const tool = exec.kind === "mcp" ? this.#declared.get(exec.tool) : undefined;
    return { exec, message, names: namesOf(exec, tool), declared: tool?.policy };
  }
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
  const value: object = message.value ?? {};
  if ("path" in value && typeof value.path === "string") return value.path;
  return "workingDirectory" in value && typeof value.workingDirectory === "string"
    ? value.workingDirectory
    : "";
}

function boundRun(run: ToolRun): ToolRun {
  return {
    signal: run.signal,
    idempotencyKey: run.idempotencyKey,
    say: (body) => run.say(body),
    upload: (bytes) => run.upload(bytes),
    download: (blobId) => run.download(blobId),
  };
}

/** A path that leads nowhere any more has no temporary file either. */
function removeLeftTemporary(path: string, exec: ExecRequest, { jail }: ShellPlace): void {
  try {
    removeTemporary(path, markOf(exec.args), jail);
  } catch (cause) {
    if (failureOf(cause, path).case === "error") throw cause;
  }
}
