/**
 * What makes a frame valid, apart from how it is written: a table says what each field of each kind holds.
 *
 * The same check runs before a frame is encoded and after one is decoded, so what we send is what we
 * would accept, and the machines behind it never see a number that is not one (E8). Tabs of a browser hand each other plain
 * values: they check whole messages by tables of the same rules.
 */
import { HoldfastError, REMEDY_OF } from "./errors.ts";
import { DURABILITIES, ENDS, MODES, ROLES } from "./frame-names.ts";
import type { AttachFrame, ClientFrame, ServerFrame } from "./frames.ts";
import { LIMITS } from "./limits.ts";

const CANONICAL_DECIMAL = /^(?:0|[1-9][0-9]{0,15})$/;
/** Names travel in HTTP headers and logs, so they are visible ASCII; bytes and characters are then the same. */
const VISIBLE_ASCII = /^[\x21-\x7e]*$/;

export function invalidFrame(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError("invalid_frame", message, { cause });
}

/** Reads an event id. One spelling per number, so that ids may be compared as text anywhere. */
export function parseEventId(text: string, what: string): number {
  const value = CANONICAL_DECIMAL.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) {
    // The text may be as long as the sender likes; the message is not.
    throw invalidFrame(`${what} is not a canonical decimal number: ${JSON.stringify(text.slice(0, 32))}`);
  }
  return value;
}

/** `required` is for names without which the frame means nothing. */
export function checkName(text: string, bytesMax: number, what: string, required: boolean): void {
  const objection = nameObjection(text, bytesMax, what, required);
  if (objection !== undefined) throw invalidFrame(objection);
}

/** Why a text cannot be a name; undefined when it can. */
export function nameObjection(
  text: string,
  bytesMax: number,
  what: string,
  required: boolean,
): string | undefined {
  if (required && text === "") return `${what} is empty`;
  if (text.length > bytesMax) {
    return `${what} has ${text.length} characters, at most ${bytesMax} are allowed`;
  }
  return VISIBLE_ASCII.test(text) ? undefined : `${what} holds something other than visible ASCII`;
}

export function checkSize(byteCount: number, bytesMax: number, what: string): void {
  if (byteCount > bytesMax) {
    throw new HoldfastError("too_large", `${what} has ${byteCount} bytes, at most ${bytesMax} are allowed`);
  }
}

/** Throws unless a field of that name may hold the value. */
export type Rule = (value: unknown, what: string) => void;

/** The rules of a message's fields. */
export type Fields<Of> = { readonly [Name in Exclude<keyof Of, "kind">]-?: Rule };

/** The fields of messages of each kind. */
type Kinds<Of extends { readonly kind: string }> = {
  readonly [Kind in Of["kind"]]: Fields<Extract<Of, { readonly kind: Kind }>>;
};

/** The value may be a secret: the message has it only if it is a number. */
function not(words: string, value: unknown, what: string): HoldfastError {
  return invalidFrame(`${what} is not ${words}: ${typeof value === "number" ? value : typeof value}`);
}

function rule(words: string, isRight: (value: unknown) => boolean): Rule {
  return (value, what) => {
    if (!isRight(value)) throw not(words, value, what);
  };
}

function upTo(max: number, words: string): Rule {
  return rule(words, (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= max);
}

export const uint32 = upTo(0xffff_ffff, "an unsigned 32-bit integer");
export const count = upTo(Number.MAX_SAFE_INTEGER, "a safe non-negative integer");
export const text = rule("a text", (value) => typeof value === "string");
const flag = rule("true or false", (value) => typeof value === "boolean");

/** One of the names of a table. */
function nameIn(table: object): Rule {
  return rule("a known name", (value) => typeof value === "string" && Object.hasOwn(table, value));
}

export function bytes(max = Number.POSITIVE_INFINITY): Rule {
  return (value, what) => {
    if (!(value instanceof Uint8Array)) throw not("bytes", value, what);
    checkSize(value.length, max, what);
  };
}

export function maybe(present: Rule): Rule {
  return (value, what) => {
    if (value !== undefined) present(value, what);
  };
}

export function list(item: Rule, max = Number.POSITIVE_INFINITY): Rule {
  return (values, what) => {
    if (!Array.isArray(values)) throw not("a list", values, what);
    if (values.length > max)
      throw invalidFrame(`${what} has ${values.length} items, at most ${max} are allowed`);
    for (const value of values) item(value, what);
  };
}

/** Errors name a field as the contract does. */
export function holding(fields: Readonly<Record<string, Rule>>): Rule {
  const rules = Object.entries(fields).map(
    ([name, check]) => [name, check, name.replace(/[A-Z]/g, "_$&").toLowerCase()] as const,
  );
  return (value, what) => {
    if (!isObject(value)) throw not("an object", value, what);
    for (const [name, check, told] of rules) check(value[name], told);
  };
}

/** A message with the fields of its kind. */
export function anyOf<Of extends { readonly kind: string }>(kinds: Kinds<Of>): Rule {
  const rules = new Map<unknown, Rule>(
    Object.entries<Fields<never>>(kinds).map(([kind, fields]) => [kind, holding(fields)]),
  );
  return (value, what) => {
    const ofKind = isObject(value) ? rules.get(value["kind"]) : undefined;
    if (ofKind === undefined) throw not("of a known kind", value, what);
    ofKind(value, what);
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

const execId: Rule = (value, what) =>
  checkName(typeof value === "string" ? value : "", LIMITS.execIdBytesMax, what, true);

const position = { seqno: uint32, writerEpoch: uint32 };

const clientFrame = anyOf<ClientFrame>({
  attach: {
    protocolVersion: uint32,
    mode: nameIn(MODES),
    role: nameIn(ROLES),
    eventId: count,
    journalId: text,
    fresh: flag,
    abort: flag,
    firstChunk: maybe(bytes(LIMITS.chunkBytesMax)),
    peek: maybe(flag),
    writerEpoch: maybe(uint32),
  },
  chunk: { ...position, body: bytes(LIMITS.chunkBytesMax) },
  close: position,
  abort: {},
  heartbeat: { runningExecIds: list(execId, LIMITS.runningExecsMax) },
});

const serverFrame = anyOf<ServerFrame>({
  welcome: {
    message: text,
    degraded: flag,
    nextSeqno: uint32,
    eventHead: count,
    eventFloor: count,
    writerEpoch: uint32,
    writerSinceEvent: count,
    durability: nameIn(DURABILITIES),
    retentionLeftMs: count,
    heartbeatIntervalMs: uint32,
    serverTimeMs: count,
    lastActivityMs: count,
    aborted: flag,
    protocolVersion: uint32,
    resumed: flag,
    closed: flag,
  },
  event: { eventId: count, body: bytes(LIMITS.eventBytesMax), end: maybe(nameIn(ENDS)) },
  ack: { seqno: uint32 },
  heartbeat: { nextSeqno: uint32, eventHead: count, aborted: flag },
  error: { code: nameIn(REMEDY_OF), message: text, retryAfterMs: maybe(uint32) },
  durability_lost: { head: count },
});

export function checkClientFrame(frame: ClientFrame, idempotencyKey: string): void {
  // An abort names the stream it means, so that a late one never hits a later turn (D3).
  const named = frame.kind === "attach" || frame.kind === "abort";
  checkName(idempotencyKey, LIMITS.idempotencyKeyBytesMax, "idempotency_key", named);
  clientFrame(frame, "a frame");
  if (frame.kind === "attach") checkAttach(frame);
}

/** What no field says alone. */
function checkAttach(frame: AttachFrame): void {
  checkName(frame.journalId, LIMITS.journalIdBytesMax, "journal_id", frame.role === "writer");
  if (frame.fresh && (frame.mode !== "open" || frame.role !== "writer" || frame.eventId !== 0)) {
    throw invalidFrame("only a writer that opens a stream and has no event may say that it is fresh");
  }
  if (frame.peek === true && frame.role !== "reader") throw invalidFrame("only a reader may peek");
  if (frame.writerEpoch !== undefined && frame.role !== "writer") {
    throw invalidFrame("only a writer has a writer_epoch");
  }
  // A5: only for a fresh idempotency key may a chunk leave before the journal has it.
  if (frame.firstChunk !== undefined && !frame.fresh) {
    throw invalidFrame("first_chunk is only allowed on a fresh attach");
  }
}

export function checkServerFrame(frame: ServerFrame): void {
  serverFrame(frame, "a frame");
}
