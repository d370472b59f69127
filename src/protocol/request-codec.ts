/**
 * What the server asks of its client in an event, and which chunk answers it: execs, requests for blobs (kv), queries.
 *
 * Both sides keep an account of what is unanswered, to name it when a stream stands still. The rest of an agent message stays
 * opaque to them. So a message is looked at and not decoded: its first byte says whether it is one of these, and all others
 * cost one comparison.
 *
 * Invariant: an application's own text or JSON is never taken for a request: a request has a byte that text does not contain.
 */
import { LIMITS } from "./limits.ts";
import { LENGTH_DELIMITED, VARINT, WireReader } from "./wire.ts";

export interface ServerRequest {
  readonly kind: "exec" | "kv" | "query";
  /** Unique within the stream among requests of its kind. */
  readonly id: string;
}

/** The request in an event: an encoded AgentServerMessage. Undefined when it asks for nothing. */
export function requestIn(event: Uint8Array): ServerRequest | undefined {
  const found = onlyField(event, REQUESTS);
  return found === undefined ? undefined : named(found.kind, found.fields);
}

/** The request that a chunk answers for good: an encoded AgentClientMessage. A reply of an exec that is still running is no answer. */
export function answerIn(chunk: Uint8Array): ServerRequest | undefined {
  const found = onlyField(chunk, ANSWERS);
  if (found === undefined) return undefined;
  if (found.kind !== "exec") return named(found.kind, found.fields);
  return isRunning(found.fields) ? undefined : named("exec", found.fields);
}

export function isSameRequest(one: ServerRequest, other: ServerRequest): boolean {
  return one.kind === other.kind && one.id === other.id;
}

/** As logs and people see it: `exec 1.0`, `kv 3`, `query 4`. */
export function nameOfRequest({ kind, id }: ServerRequest): string {
  return `${kind} ${id}`;
}

type Carrier = ServerRequest["kind"] | "exec_control";

/** By the tag of the message's only field. */
const REQUESTS: ReadonlyMap<number, Carrier> = new Map([
  [tagOf(2), "exec"],
  [tagOf(4), "kv"],
  [tagOf(7), "query"],
]);
const ANSWERS: ReadonlyMap<number, Carrier> = new Map([
  [tagOf(2), "exec"],
  [tagOf(3), "kv"],
  [tagOf(5), "exec_control"],
  [tagOf(6), "query"],
]);

function tagOf(field: number): number {
  return (field << 3) | LENGTH_DELIMITED;
}

const ID = 1;
const EXEC_ID = 15;
/** It goes into logs. */
const EXEC_ID_FORM = new RegExp(`^[!-~]{1,${LIMITS.execIdBytesMax}}$`);

/** A message's fields by number: the last of each, as parsers take it. */
type Fields = ReadonlyMap<number, number | Uint8Array>;

function onlyField(
  message: Uint8Array,
  carriers: ReadonlyMap<number, Carrier>,
): { readonly kind: ServerRequest["kind"]; readonly fields: Fields } | undefined {
  const kind = carriers.get(message[0] ?? 0);
  if (kind === undefined) return undefined;
  const outer = fieldsOf(message);
  const [body] = outer?.size === 1 ? outer.values() : [];
  const fields = body instanceof Uint8Array ? fieldsOf(body) : undefined;
  if (fields === undefined) return undefined;
  if (kind !== "exec_control") return { kind, fields };
  // A close or a throw: either ends its exec.
  const control = fields.get(1) ?? fields.get(2);
  const inner = control instanceof Uint8Array ? fieldsOf(control) : undefined;
  return inner === undefined ? undefined : { kind: "exec", fields: inner };
}

function named(kind: ServerRequest["kind"], fields: Fields): ServerRequest | undefined {
  const id = fields.get(kind === "exec" ? EXEC_ID : ID);
  if (typeof id === "number") return kind !== "exec" && id > 0 ? { kind, id: String(id) } : undefined;
  const text = id !== undefined && kind === "exec" ? new TextDecoder().decode(id) : "";
  return EXEC_ID_FORM.test(text) ? { kind, id: text } : undefined;
}

/** `started` and `output` of a command, `progress` of a subagent: above the numbers that every kind's outcomes share. */
const OUTCOME_MAX = 8;
const RESULTS_THAT_STREAM: readonly number[] = [14, 28];

function isRunning(reply: Fields): boolean {
  return RESULTS_THAT_STREAM.some((field) => {
    const result = reply.get(field);
    const said = result instanceof Uint8Array ? fieldsOf(result) : undefined;
    return said !== undefined && [...said.keys()].some((outcome) => outcome > OUTCOME_MAX);
  });
}

/** Undefined when these are no fields of a message. */
function fieldsOf(bytes: Uint8Array): Fields | undefined {
  const fields = new Map<number, number | Uint8Array>();
  try {
    const reader = new WireReader(bytes);
    while (reader.pos < reader.len) {
      const tag = reader.tag();
      if ((tag & 7) === LENGTH_DELIMITED) fields.set(tag >>> 3, reader.bytes());
      else if ((tag & 7) === VARINT) fields.set(tag >>> 3, reader.uint32());
      else reader.skip(tag);
    }
    return reader.pos === reader.len ? fields : undefined;
  } catch {
    // An application's own bytes: their reader will say so.
    return undefined;
  }
}
