/**
 * What a server and its line say to each other over a local socket, on a connection for each question.
 *
 * The server says what it asks (`Asked`, as JSON, with the secret) in a frame (`line-frames.ts`), and the body of a request in another one. The line
 * answers in JSON; a question that it refuses is answered by the end of the connection.
 *
 *     hello     the line's version, and the proof that it knows the secret; the only question without the secret
 *     stay      open while the server lives; the line counts itself on it, one JSON line at a time
 *     attach    the provider's answer from byte 0, in frames: the `AnswerHead`, the bytes as they came, an empty one when it is whole; or a
 *               `NoAnswer`. A call that is not held begins, when the question has its head
 *     find      which of these names are held
 *     held      every call that is held (`HeldCall`): what a server that starts has to continue, or to end
 *     words     detach, done or cancel, for these names
 *
 * Everything about calls carries the host epoch. A call is read from its first byte or not at all: a position within it would be one within an
 * event, or within a character.
 */

import { fieldsOf, parsedJson } from "../../../protocol/fields.ts";
import { createHmac, timingSafeEqual } from "node:crypto";

/** Server and line part when it differs: new calls go to a line of their own version. */
export const LINE_VERSION = 3;

export type Asked =
  | { readonly ask: "hello"; readonly nonce: string }
  | { readonly ask: "stay" | "held" }
  | { readonly ask: "find"; readonly epoch: number; readonly names: readonly string[] }
  | { readonly ask: "words"; readonly epoch: number; readonly names: readonly string[]; readonly word: Word }
  | {
      readonly ask: "attach";
      readonly epoch: number;
      readonly name: string;
      readonly call?: CallHead | undefined;
    };

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
  readonly headers: Readonly<Record<string, string>>;
}

/** In the place of a head. */
export interface NoAnswer {
  /** The system's reason, such as ECONNREFUSED. */
  readonly failure: string;
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

export type Fields = Readonly<Record<string, unknown>>;

/** None in what is no JSON. */
export function fieldsIn(json: string): Fields {
  return fieldsOf(parsedJson(json));
}

export function namesIn({ names }: Fields): readonly string[] {
  return Array.isArray(names) ? names.map(String) : [];
}

export function wordIn({ word }: Fields): Word {
  if (word !== "detach" && word !== "done" && word !== "cancel") throw new Error("no such word");
  return word;
}

export function callIn({ call }: Fields): CallHead {
  const { method, url, headers, label, stream } = fieldsOf(call);
  const isHead = typeof method === "string" && typeof url === "string" && typeof label === "string";
  if (!isHead) throw new Error("no head of a call");
  return { method, url, label, stream: streamIn(stream), headers: textsIn(headers) };
}

/** Undefined in a `NoAnswer`. */
export function answerIn({ status, headers }: Fields): AnswerHead | undefined {
  return typeof status === "number" ? { status, headers: textsIn(headers) } : undefined;
}

function textsIn(said: unknown): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(fieldsOf(said)).map(([name, value]) => [name, String(value)]));
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

export function settingsIn(json: string): LineSettings {
  const { socketPath, secret, callBytesMax, bytesMax, graceMs, idleMs } = fieldsIn(json);
  return {
    socketPath: String(socketPath),
    secret: String(secret),
    callBytesMax: Number(callBytesMax),
    bytesMax: Number(bytesMax),
    graceMs: Number(graceMs),
    idleMs: Number(idleMs),
  };
}

/** A call is that of the highest host epoch that has read it: an earlier host can neither read nor end it (D1). */
export function isFenced(hostEpoch: number, call: { readonly epoch: number }): boolean {
  return hostEpoch < call.epoch;
}

/** What only the line that this server knows can say. */
export function proofOf(secret: string, nonce: string): string {
  return createHmac("sha256", secret).update(`line ${nonce}`).digest("hex");
}

export function isSecret(given: unknown, secret: string): boolean {
  if (typeof given !== "string" || given.length !== secret.length) return false;
  return timingSafeEqual(Buffer.from(given), Buffer.from(secret));
}
