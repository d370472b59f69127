/**
 * What a server answers to a call of a client on an HTTP/2 session.
 *
 * The server's last envelope tells an orderly end from a break: a response that stops without it has broken, whatever HTTP says
 * about it (B6).
 */
import type { ClientHttp2Stream } from "node:http2";
import { HoldfastError } from "../../protocol/errors.ts";
import { SERVER_FRAME_BYTES_MAX } from "../connect/client-call.ts";
import { EnvelopeParser } from "../connect/envelopes.ts";
import { readEndOfStream, readErrorResponse } from "../connect/errors.ts";
import { formatOf } from "../connect/formats.ts";
import type { ClientSession } from "./http2-client-session.ts";

/** A refusal is a short text; a longer one is cut, and then read as it is. */
const REFUSAL_BYTES_MAX = 64 * 1024;

interface AnswerEvents {
  /** Returning false ends the hearing. What it throws that is no HoldfastError is a bug, and is thrown on. */
  message(message: Uint8Array): boolean;
  /** The answer is over: in order, or with the reason why not. May be called again, and means nothing then. */
  over(error: HoldfastError | undefined): void;
}

export function hearAnswer(stream: ClientHttp2Stream, session: ClientSession, events: AnswerEvents): void {
  const parser = new EnvelopeParser(SERVER_FRAME_BYTES_MAX);
  const refusalBody: Uint8Array[] = [];
  let refusal: { readonly status: number; readonly retryAfter: string | undefined } | undefined;
  let refusalBytes = 0;
  stream.on("response", (headers) => {
    const status = headers[":status"] ?? 0;
    if (status === 200 && formatOf(headers["content-type"], "stream") === "proto") return;
    refusal = { status, retryAfter: headers["retry-after"] };
  });
  stream.on("data", (piece: Uint8Array) => {
    if (refusal !== undefined) {
      refusalBytes += piece.length;
      if (refusalBytes <= REFUSAL_BYTES_MAX) refusalBody.push(piece);
      return;
    }
    try {
      parser.push(piece);
      for (let next = parser.next(); next !== undefined; next = parser.next()) {
        if (next.isEnd) return events.over(readEndOfStream(next.message));
        if (!events.message(next.message)) return;
      }
    } catch (cause) {
      if (!(cause instanceof HoldfastError)) throw cause;
      events.over(cause);
    }
  });
  const stopped = (): void => {
    if (refusal === undefined) return events.over(broken(session.failure));
    events.over(readErrorResponse(refusal.status, Buffer.concat(refusalBody), refusal.retryAfter));
  };
  stream.on("end", stopped);
  stream.on("error", (error) => {
    session.failure ??= error;
  });
  stream.on("close", stopped);
}

function broken(cause: Error | undefined): HoldfastError {
  // Of a connection that never came about Node says that its stream was cancelled; why, is the cause.
  const reason = cause?.cause instanceof Error ? cause.cause : cause;
  const why = reason === undefined ? "" : `: ${reason.message}`;
  return new HoldfastError("connection_lost", `the connection broke${why}`, { cause });
}
