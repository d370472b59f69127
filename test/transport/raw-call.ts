/** Calls that no honest client makes: bytes as they are, over HTTP/2 and HTTP/1.1. */
import { once } from "node:events";
import { Agent, type IncomingMessage, request as requestHttp1 } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { EnvelopeParser } from "../../src/transport/connect/envelopes.ts";
import { readEndOfStream, readErrorResponse } from "../../src/transport/connect/errors.ts";
import { decodeServerFrame } from "../../src/protocol/frame-codec.ts";
import type { ServerFrame } from "../../src/protocol/frames.ts";

export const HEADERS = {
  authorization: "Bearer alice",
  "content-type": "application/connect+proto",
  "x-idempotency-key": "key",
  "x-idempotent-encryption-key": Buffer.alloc(32, 7).toString("base64url"),
};

export interface RawAnswer {
  readonly status: number;
  readonly frames: readonly ServerFrame[];
  /** The code of our error at the end or in the body; undefined when there is none. */
  readonly code: string | undefined;
}

/** One HTTP/2 request with these pieces as its body; `isOpen` leaves it without an end. */
export async function rawHttp2(
  url: string,
  path: string,
  pieces: readonly Uint8Array[],
  headers: Record<string, string> = HEADERS,
  isOpen = false,
): Promise<RawAnswer> {
  const session = connectHttp2(url);
  session.on("error", () => undefined);
  try {
    const stream = session.request({ ...headers, ":method": "POST", ":path": path });
    stream.on("error", () => undefined);
    for (const piece of pieces) stream.write(piece);
    if (!isOpen) stream.end();
    const body: Uint8Array[] = [];
    stream.on("data", (piece: Uint8Array) => body.push(piece));
    let status = 0;
    let type = "";
    stream.on("response", (response) => {
      status = response[":status"] ?? 0;
      type = response["content-type"] ?? "";
    });
    await once(stream, "end");
    return answerOf(status, type, Buffer.concat(body));
  } finally {
    session.destroy();
  }
}

export async function rawHttp1(
  url: string,
  path: string,
  body: Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = HEADERS,
): Promise<RawAnswer> {
  // Not by fetch: its idle connections outlive the call.
  const agent = new Agent({ keepAlive: true });
  try {
    const request = requestHttp1(url + path, { method: "POST", headers, agent });
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.on("response", resolve);
      request.on("error", reject);
    });
    request.end(body);
    const response = await answered;
    const pieces: Buffer[] = [];
    for await (const piece of response) if (Buffer.isBuffer(piece)) pieces.push(piece);
    return answerOf(response.statusCode ?? 0, response.headers["content-type"] ?? "", Buffer.concat(pieces));
  } finally {
    agent.destroy();
  }
}

function answerOf(status: number, type: string, body: Uint8Array): RawAnswer {
  if (!type.startsWith("application/connect+proto")) {
    const code = status === 200 ? undefined : readErrorResponse(status, body, undefined).code;
    return { status, frames: [], code };
  }
  const parser = new EnvelopeParser(1_000_000);
  parser.push(body);
  const frames: ServerFrame[] = [];
  for (let next = parser.next(); next !== undefined; next = parser.next()) {
    if (next.isEnd) return { status, frames, code: readEndOfStream(next.message)?.code };
    frames.push(decodeServerFrame(next.message));
  }
  return { status, frames, code: "no end" };
}
