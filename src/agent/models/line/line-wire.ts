/**
 * What a server and its line say to each other: HTTP over a local socket.
 *
 *     GET  /hello?nonce=...      the line's version, and the proof that it knows the secret; all others carry the secret
 *     GET  /stay                 open while the server lives; the line counts itself on it, one JSON line at a time
 *     POST /calls/{name}         begins a call: one JSON line (`CallHead`), then the body; attaches when the call is held
 *     GET  /calls/{name}         attaches: the provider's answer from byte 0
 *     POST /find                 which of these names are held
 *     GET  /held                 every call that is held (`HeldCall`): what a server that starts has to continue, or to end
 *     POST /words                detach, done or cancel, for these names
 *
 * Everything about calls carries the host epoch. A call is read from its first byte or not at all: a position within it would be one within an
 * event, or within a character.
 */

import { createHmac, timingSafeEqual } from "node:crypto";

/** Server and line part when it differs: new calls go to a line of their own version. */
export const LINE_VERSION = 2;

export const SECRET_HEADER = "x-line-secret";
export const EPOCH_HEADER = "x-line-epoch";
/** Of an answer: the provider's status and headers (`AnswerHead`), as base64url of JSON. */
export const HEAD_HEADER = "x-line-head";
/** A trailer: `whole` when the provider ended its answer in good order, `broken` when its connection died. */
export const END_TRAILER = "x-line-end";
/** How long a line of headers may be: providers' headers travel in one. */
export const HEADER_BYTES_MAX = 256 * 1024;

/** Not the line's statuses for anything else. */
export const NOT_HELD = 404;
export const FENCED = 409;
/** Held, but its first bytes are gone; or cancelled before it began. */
export const GONE = 410;
/** There was no answer: the body is a `NoAnswer`. */
export const NO_ANSWER = 502;

export type Word = "detach" | "done" | "cancel";

export interface CallHead {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What the server wants to know of the call when it finds it again; nothing secret. */
  readonly label: string;
  /** The stream that it is for, so that a server finds the call also before it has the stream's key. */
  readonly stream: StreamName;
}

export interface StreamName {
  readonly principal: string;
  readonly idempotencyKey: string;
}

export interface HeldCall {
  readonly name: string;
  readonly stream: StreamName;
  /** It can be read from its first byte, and its provider did not break it off. */
  readonly isGood: boolean;
}

export interface AnswerHead {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
}

export interface NoAnswer {
  /** The system's, such as ECONNREFUSED. */
  readonly code: string;
}

export interface LineCounts {
  readonly calls: number;
  readonly bytes: number;
  readonly reattached: number;
  readonly expired: number;
}

/** What a line is started with, by a file descriptor: never by arguments or the environment. */
export interface LineSettings {
  readonly socketPath: string;
  readonly secret: string;
  /** Kept of one call, and of all. */
  readonly callBytesMax: number;
  readonly bytesMax: number;
  /** How long a call is held without a reader, and how long the line stays with nothing to hold and no server. */
  readonly graceMs: number;
  readonly idleMs: number;
}

export const LINE_DEFAULTS = {
  callBytesMax: 64 * 1024 * 1024,
  bytesMax: 512 * 1024 * 1024,
  /** As long as a client of the gateway waits for an answer that broke off. */
  graceMs: 300_000,
  idleMs: 30_000,
} as const;

type Fields = Readonly<Record<string, unknown>>;

export function fieldsIn(bytes: Uint8Array): Fields {
  return fieldsOf(JSON.parse(new TextDecoder().decode(bytes)));
}

function fieldsOf(said: unknown): Fields {
  return typeof said === "object" && said !== null ? { ...said } : {};
}

export function namesIn(bytes: Uint8Array): readonly string[] {
  const { names } = fieldsIn(bytes);
  return Array.isArray(names) ? names.map(String) : [];
}

export function wordIn(bytes: Uint8Array): { readonly word: Word; readonly names: readonly string[] } {
  const { word } = fieldsIn(bytes);
  if (word !== "detach" && word !== "done" && word !== "cancel") throw new Error("no such word");
  return { word, names: namesIn(bytes) };
}

export function headIn(bytes: Uint8Array): CallHead {
  const { method, url, headers, label, stream } = fieldsIn(bytes);
  const isHead = typeof method === "string" && typeof url === "string" && typeof label === "string";
  if (!isHead || typeof headers !== "object" || headers === null) throw new Error("no head of a call");
  const texts = Object.entries(headers).map(([name, value]) => [name, String(value)] as const);
  return { method, url, label, stream: streamIn(stream), headers: Object.fromEntries(texts) };
}

function streamIn(said: unknown): StreamName {
  const { principal, idempotencyKey } = fieldsOf(said);
  return { principal: String(principal), idempotencyKey: String(idempotencyKey) };
}

export function heldIn(said: unknown): readonly HeldCall[] {
  return (Array.isArray(said) ? said : []).map((call: unknown) => {
    const { name, stream, isGood } = fieldsOf(call);
    return { name: String(name), stream: streamIn(stream), isGood: isGood === true };
  });
}

export function settingsIn(bytes: Uint8Array): LineSettings {
  const { socketPath, secret, ...bounds } = fieldsIn(bytes);
  const { callBytesMax, bytesMax, graceMs, idleMs } = bounds;
  return {
    socketPath: String(socketPath),
    secret: String(secret),
    callBytesMax: Number(callBytesMax),
    bytesMax: Number(bytesMax),
    graceMs: Number(graceMs),
    idleMs: Number(idleMs),
  };
}

/** Names and values, which `node:http` has in one list. */
export function pairsOf(rawHeaders: readonly string[]): AnswerHead["headers"] {
  return rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ""] as const] : []));
}

/** What only the line that this server knows can say. */
export function proofOf(secret: string, nonce: string): string {
  return createHmac("sha256", secret).update(`line ${nonce}`).digest("hex");
}

export function isSecret(given: unknown, secret: string): boolean {
  if (typeof given !== "string" || given.length !== secret.length) return false;
  return timingSafeEqual(Buffer.from(given), Buffer.from(secret));
}
