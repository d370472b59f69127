/**
 * The little that the reliable client must know of agent messages: which of them ask for an exec, and
 * how to report the outcomes that no tool reports (C1): denied, failed, aborted, unknown.
 *
 * Requests are read without decoding them: the bytes of the request itself are what is hashed, so an
 * exec id that comes again with other arguments is noticed whatever the difference is (C5).
 */
import { encoded, type MessageInitShape } from "./message.ts";
import { HoldfastError } from "./errors.ts";
import { checkName, invalidFrame } from "./frame-check.ts";
import {
  ExecAbortedSchema,
  ExecErrorSchema,
  ExecRejectedSchema,
  ExecThrowCode,
  ExecThrowSchema,
  ExecUnknownSchema,
} from "./gen/holdfast/v1/exec.ts";
import type { ExecClientMessageSchema, ReadResultSchema } from "./gen/holdfast/v1/exec.ts";
import { LIMITS } from "./limits.ts";
import { LENGTH_DELIMITED, VARINT, WireReader, WireWriter } from "./wire.ts";

type KnownKind =
  | "shell"
  | "write"
  | "delete"
  | "grep"
  | "read"
  | "ls"
  | "glob"
  | "mcp"
  | "shell_stream"
  | "subagent";

/** The fields of ExecServerMessage.message; a result has the same number. */
const KIND_OF_FIELD: ReadonlyMap<number, KnownKind> = new Map([
  [2, "shell"],
  [3, "write"],
  [4, "delete"],
  [5, "grep"],
  [7, "read"],
  [8, "ls"],
  [9, "glob"],
  [11, "mcp"],
  [14, "shell_stream"],
  [28, "subagent"],
]);

/** `unrecognized`: asked by a newer server. It is answered with a throw, never ignored. */
export type ExecKindName = KnownKind | "unrecognized";

/** What a reply repeats of its request; a tool journal keeps it. */
export interface ExecRef {
  readonly id: number;
  /** The identity, unique within the stream (A8). */
  readonly execId: string;
  /** The provider's, for display. May repeat across steps. */
  readonly toolCallId: string;
  readonly kind: ExecKindName;
}

export interface ExecRequest extends ExecRef {
  /** The kind, or for mcp the name under which the client declared the tool. */
  readonly tool: string;
  /** The encoded ExecServerMessage as it came, a view: for hashing, and for `fromBinary`. */
  readonly args: Uint8Array;
}

/** What an event wants of the client that carries out execs. */
type ExecOrder =
  | { readonly kind: "request"; readonly exec: ExecRequest }
  /** Stop this one. It is still answered: with what came out of it, or `aborted`. */
  | { readonly kind: "abort"; readonly execId: string };

/** Undefined when the event has nothing to do with execs. Throws `invalid_frame` when it has and cannot be read. */
export function readExecOrder(message: Uint8Array): ExecOrder | undefined {
  try {
    const found = execField(message);
    if (found === undefined) return undefined;
    if (found.field === EXEC_SERVER_MESSAGE) return { kind: "request", exec: readRequest(found.bytes) };
    const execId = abortedExecId(found.bytes);
    return execId === undefined ? undefined : { kind: "abort", execId };
  } catch (cause) {
    throw HoldfastError.from(cause, "invalid_frame", "the agent message cannot be read");
  }
}

/** Undefined when the event is no exec request. Throws `invalid_frame` when it is one that cannot be read. */
export function readExec(message: Uint8Array): ExecRequest | undefined {
  const order = readExecOrder(message);
  return order?.kind === "request" ? order.exec : undefined;
}

const EXEC_SERVER_MESSAGE = 2;
const EXEC_SERVER_CONTROL = 5;
const AGENT_SERVER_CASES: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 7]);

/** Other messages cost one tag and one skip. */
function execField(message: Uint8Array): { readonly field: number; readonly bytes: Uint8Array } | undefined {
  const reader = new WireReader(message);
  let exec: { readonly field: number; readonly bytes: Uint8Array } | undefined;
  let cases = 0;
  while (reader.pos < reader.len) {
    const tag = reader.tag();
    const field = tag >>> 3;
    if (AGENT_SERVER_CASES.has(field)) cases++;
    const isExec = field === EXEC_SERVER_MESSAGE || field === EXEC_SERVER_CONTROL;
    if (isExec && (tag & 7) === LENGTH_DELIMITED) {
      exec = { field, bytes: reader.bytes() };
    } else {
      reader.skip(tag);
    }
  }
  if (exec !== undefined && cases > 1) {
    // Parsers merge or drop in such a case; two of them might not agree on what is to be run.
    throw invalidFrame("an exec request shares its message with something else");
  }
  return exec;
}

/** Of requests, of results, and of what aborts an exec. */
const ID = 1;
const EXEC_ID = 15;
const TOOL_CALL_ID = 16;

/** Undefined for a control message of a newer server. */
function abortedExecId(control: Uint8Array): string | undefined {
  const abort = lastBytes(control, 1);
  if (abort === undefined) return undefined;
  const execId = new TextDecoder("utf-8", { fatal: true }).decode(lastBytes(abort, EXEC_ID));
  checkName(execId, LIMITS.execIdBytesMax, "exec_id", true);
  return execId;
}

function lastBytes(message: Uint8Array, wanted: number): Uint8Array | undefined {
  const reader = new WireReader(message);
  let found: Uint8Array | undefined;
  while (reader.pos < reader.len) {
    const tag = reader.tag();
    const field = tag >>> 3;
    if (field === wanted && (tag & 7) === LENGTH_DELIMITED) found = reader.bytes();
    else reader.skip(tag);
  }
  return found;
}

function readRequest(args: Uint8Array): ExecRequest {
  const reader = new WireReader(args);
  let id: number | undefined;
  let execId: string | undefined;
  let toolCallId: string | undefined;
  let kind: KnownKind | undefined;
  let tool = "";
  while (reader.pos < reader.len) {
    const tag = reader.tag();
    const field = tag >>> 3;
    const isBytes = (tag & 7) === LENGTH_DELIMITED;
    const kindHere = isBytes ? KIND_OF_FIELD.get(field) : undefined;
    if (kindHere !== undefined) {
      once(kind);
      kind = kindHere;
      const body = reader.bytes();
      tool = kind === "mcp" ? mcpName(body) : kind;
    } else if (isBytes && field === EXEC_ID) {
      once(execId);
      execId = reader.string();
    } else if (isBytes && field === TOOL_CALL_ID) {
      once(toolCallId);
      toolCallId = reader.string();
    } else if ((tag & 7) === VARINT && field === ID) {
      once(id);
      id = reader.uint32();
    } else {
      reader.skip(tag);
    }
  }
  checkName(execId ?? "", LIMITS.execIdBytesMax, "exec_id", true);
  return {
    id: id ?? 0,
    execId: execId ?? "",
    toolCallId: toolCallId ?? "",
    kind: kind ?? "unrecognized",
    tool: kind === undefined ? "unrecognized" : tool,
    args,
  };
}

/** As above: of two values parsers take the last one or merge them, and two parsers might not agree. */
function once(value: unknown): void {
  if (value !== undefined) {
    throw invalidFrame("an exec request says something twice");
  }
}

function mcpName(args: Uint8Array): string {
  const reader = new WireReader(args);
  let name = "";
  while (reader.pos < reader.len) {
    const tag = reader.tag();
    const field = tag >>> 3;
    if (field === 1 && (tag & 7) === LENGTH_DELIMITED) {
      name = reader.string();
    } else {
      reader.skip(tag);
    }
  }
  return name;
}

/** The outcomes that every kind of result shares, by their numbers. */
const OUTCOME = { error: 2, rejected: 3, unknown: 7, aborted: 8 } as const;

/** Started, and how it ended is not known (C2). `startedAtMs` 0 = not known. */
export function writeExecUnknown(exec: ExecRef, detail: string, startedAtMs = 0): Uint8Array {
  const unknown = encoded(ExecUnknownSchema, { detail, startedAtMs: BigInt(startedAtMs) });
  return writeOutcome(exec, OUTCOME.unknown, unknown);
}

/** The user or a policy said no; it did not run. */
export function writeExecRejected(exec: ExecRef, reason: string): Uint8Array {
  return writeOutcome(exec, OUTCOME.rejected, encoded(ExecRejectedSchema, { reason }));
}

export function writeExecAborted(exec: ExecRef, detail: string): Uint8Array {
  return writeOutcome(exec, OUTCOME.aborted, encoded(ExecAbortedSchema, { detail }));
}

/** It was tried and failed, and the tool itself could not say so. */
export function writeExecError(exec: ExecRef, message: string): Uint8Array {
  return writeOutcome(exec, OUTCOME.error, encoded(ExecErrorSchema, { message }));
}

type ExecThrowReason = "unknown_kind" | "invalid_args" | "args_changed" | "internal";

const THROW_CODE: Readonly<Record<ExecThrowReason, ExecThrowCode>> = Object.freeze({
  unknown_kind: ExecThrowCode.UNKNOWN_KIND,
  invalid_args: ExecThrowCode.INVALID_ARGS,
  args_changed: ExecThrowCode.ARGS_CHANGED,
  internal: ExecThrowCode.INTERNAL,
});

/** The client cannot make sense of the request; terminal, like an outcome. */
export function writeExecThrow(exec: ExecRef, reason: ExecThrowReason, error: string): Uint8Array {
  const { id, execId } = exec;
  const thrown = encoded(ExecThrowSchema, { id, execId, error, code: THROW_CODE[reason] });
  return within(EXEC_CLIENT_CONTROL, within(THROW, thrown));
}

const EXEC_CLIENT_MESSAGE = 2;
const EXEC_CLIENT_CONTROL = 5;
/** Of the control message. */
const THROW = 2;

/**
 * An AgentClientMessage around the outcome of an exec. It is put together here and not by its schema, which leads to every message that a client can send: a
 * page that only follows streams would load them all.
 */
function writeOutcome(exec: ExecRef, outcome: number, body: Uint8Array): Uint8Array {
  const kindField = KIND_OF_FIELD.entries().find(([, kind]) => kind === exec.kind)?.[0];
  if (kindField === undefined) {
    // There is no result of a kind that we do not know; a throw ends the exec all the same.
    return writeExecThrow(exec, "unknown_kind", "this client does not know this kind of exec");
  }
  const result = within(kindField, within(outcome, body));
  const writer = new WireWriter();
  if (exec.id !== 0) writer.varint((ID << 3) | VARINT).varint(exec.id);
  // Fields are written in order of their numbers.
  if (kindField < EXEC_ID) writer.raw(result);
  if (exec.execId !== "") writer.varint((EXEC_ID << 3) | LENGTH_DELIMITED).string(exec.execId);
  if (exec.toolCallId !== "") writer.varint((TOOL_CALL_ID << 3) | LENGTH_DELIMITED).string(exec.toolCallId);
  if (kindField > EXEC_ID) writer.raw(result);
  return within(EXEC_CLIENT_MESSAGE, writer.finish());
}

function within(field: number, body: Uint8Array): Uint8Array {
  return new WireWriter()
    .varint((field << 3) | LENGTH_DELIMITED)
    .bytes(body)
    .finish();
}

/** The outcomes of results that are no success. */
type FailedOutcome = Extract<
  NonNullable<MessageInitShape<typeof ReadResultSchema>["result"]>,
  { case: "error" | "rejected" | "permissionDenied" | "notFound" | "timeout" | "unknown" | "aborted" }
>;

type ResultInit = NonNullable<MessageInitShape<typeof ExecClientMessageSchema>["message"]>;

/** The result of a kind, when it is not a success. */
export function failedResult(kind: KnownKind, result: FailedOutcome): ResultInit {
  switch (kind) {
    case "shell":
      return { case: "shellResult", value: { result } };
    case "write":
      return { case: "writeResult", value: { result } };
    case "delete":
      return { case: "deleteResult", value: { result } };
    case "grep":
      return { case: "grepResult", value: { result } };
    case "read":
      return { case: "readResult", value: { result } };
    case "ls":
      return { case: "lsResult", value: { result } };
    case "glob":
      return { case: "globResult", value: { result } };
    case "mcp":
      return { case: "mcpResult", value: { result } };
    case "shell_stream":
      return { case: "shellStreamResult", value: { result } };
    case "subagent":
      return { case: "subagentResult", value: { result } };
  }
}
