/**
 * Connect's calls by `fetch`: one that is answered at once, and one whose answer is a stream.
 *
 * Whatever goes wrong becomes one HoldfastError: what the server said where it said something,
 * `connection_lost` where the network failed.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { EnvelopeParser, envelopes } from "./envelopes.ts";
import { readEndOfStream, readErrorResponse } from "./errors.ts";
import { contentType, formatOf } from "./formats.ts";

/** The part of `fetch` that is used; a test or an application may hand in its own. */
export type Fetch = (url: string, init: FetchInit) => Promise<Response>;

export interface FetchInit {
  readonly method: "POST";
  readonly headers: Record<string, string>;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly signal: AbortSignal;
}

export interface Call {
  readonly fetch: Fetch;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** An answer, or the text of a refusal, that is not longer than this. */
const ANSWER_BYTES_MAX = 64 * 1024;

/** Rejects with a HoldfastError. */
export async function unaryCall(call: Call, message: Uint8Array): Promise<Uint8Array> {
  const response = await post(call, contentType("proto", "unary"), message.slice());
  const isAnswer = response.status === 200 && formatOf(typeOf(response), "unary") === "proto";
  const body = await smallBody(response);
  if (!isAnswer) throw readErrorResponse(response.status, body, response.headers.get("retry-after"));
  return body;
}

interface StreamEvents {
  /** The server has let the call in. */
  opened(): void;
  /** Returning false ends the call. */
  message(message: Uint8Array): boolean;
}

/** One message there, many back. Resolves when the server ended it in order, or `message` returned false. */
export async function serverStreamCall(
  call: Call,
  request: Uint8Array,
  messageBytesMax: number,
  events: StreamEvents,
): Promise<void> {
  await streamingCall(call, envelopes([request]), messageBytesMax, events);
}

/** The same with a request of any number of messages, in envelopes. Rejects with a HoldfastError. */
export async function streamingCall(
  call: Call,
  body: Uint8Array<ArrayBuffer>,
  messageBytesMax: number,
  events: StreamEvents,
): Promise<void> {
  const response = await post(call, contentType("proto", "stream"), body);
  if (response.status !== 200 || formatOf(typeOf(response), "stream") !== "proto") {
    throw readErrorResponse(response.status, await smallBody(response), response.headers.get("retry-after"));
  }
  events.opened();
  const parser = new EnvelopeParser(messageBytesMax);
  const reader = readerOf(response);
  for (;;) {
    const piece = await read(reader);
    if (piece === undefined)
      throw new HoldfastError("connection_lost", "the response stopped without its end");
    parser.push(piece);
    for (let next = parser.next(); next !== undefined; next = parser.next()) {
      if (next.isEnd) return throwIf(readEndOfStream(next.message));
      if (!events.message(next.message)) return;
    }
  }
}

function throwIf(error: HoldfastError | undefined): void {
  if (error !== undefined) throw error;
}

async function post(call: Call, type: string, body: Uint8Array<ArrayBuffer>): Promise<Response> {
  try {
    const headers = { ...call.headers, "content-type": type };
    return await call.fetch(call.url, { method: "POST", headers, body, signal: call.signal });
  } catch (cause) {
    throw lost(cause);
  }
}

function lost(cause: unknown): HoldfastError {
  return new HoldfastError("connection_lost", `the connection broke: ${reasonOf(cause)}`, { cause });
}

/** `fetch` says only "fetch failed"; what failed is its cause. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "unknown";
  return cause.cause instanceof Error ? cause.cause.message : cause.message;
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

function readerOf(response: Response): Reader {
  if (response.body === null) throw new HoldfastError("connection_lost", "the response has no body");
  return response.body.getReader();
}

/** Undefined at the end. */
async function read(reader: Reader): Promise<Uint8Array | undefined> {
  try {
    const { value } = await reader.read();
    return value;
  } catch (cause) {
    throw lost(cause);
  }
}

function typeOf(response: Response): string | undefined {
  return response.headers.get("content-type") ?? undefined;
}

/** What is longer is cut: it is only a text about an error then. */
async function smallBody(response: Response): Promise<Uint8Array> {
  if (response.body === null) return new Uint8Array();
  const reader = readerOf(response);
  const body = new Uint8Array(ANSWER_BYTES_MAX);
  let filled = 0;
  for (;;) {
    const piece = await read(reader);
    if (piece === undefined) return body.subarray(0, filled);
    const part = piece.subarray(0, ANSWER_BYTES_MAX - filled);
    body.set(part, filled);
    filled += part.length;
    if (filled < ANSWER_BYTES_MAX) continue;
    reader.cancel().catch(() => undefined);
    return body;
  }
}
