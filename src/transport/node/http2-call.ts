/**
 * One connection of a client: a `Stream` call on an HTTP/2 session.
 *
 * The server's last envelope tells an orderly end from a break: a response that stops without it has broken, whatever HTTP says
 * about it (B6).
 */
import type { ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { constants } from "node:http2";
import { HoldfastError } from "../../protocol/errors.ts";
import { decodeServerFrame, encodeClientFrame } from "../../protocol/frame-codec.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta, Handler, Wire } from "../transport.ts";
import { callHeaders, frameKey, SERVER_FRAME_BYTES_MAX } from "../connect/client-call.ts";
import { STREAM_SERVICE_PATH } from "../connect/calls.ts";
import { EnvelopeParser, envelopes } from "../connect/envelopes.ts";
import { readEndOfStream, readErrorResponse } from "../connect/errors.ts";
import { contentType, formatOf } from "../connect/formats.ts";
import type { ClientSession } from "./http2-client-session.ts";

/** A refusal is a short text; a longer one is cut, and then read as it is. */
const REFUSAL_BYTES_MAX = 64 * 1024;

/** How long a server may take to answer an end with its own. */
const LINGER_MS = 5_000;

export class Http2Call implements Wire<ClientFrame> {
  readonly #meta: ClientMeta;
  readonly #handler: Handler<ServerFrame>;
  readonly #parser = new EnvelopeParser(SERVER_FRAME_BYTES_MAX);
  #session: ClientSession | undefined;
  #stream: ClientHttp2Stream | undefined;
  /** What was written before the call was made. */
  #early: Uint8Array[] = [];
  #eventId = 0;
  #refusal: { status: number; retryAfter: string | undefined; body: Uint8Array[]; bytes: number } | undefined;
  #hasErrorFrame = false;
  #isEnded = false;
  #isClosed = false;
  #isWaiting = false;
  #lingering: NodeJS.Timeout | undefined;

  constructor(meta: ClientMeta, handler: Handler<ServerFrame>) {
    this.#meta = meta;
    this.#handler = handler;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  open(session: ClientSession, basePath: string, headers: Readonly<Record<string, string>>): void {
    this.#session = session;
    const stream = session.request({
      ...headers,
      ...callHeaders(this.#meta, this.#eventId),
      "content-type": contentType("proto", "stream"),
      ":method": "POST",
      ":path": `${basePath}${STREAM_SERVICE_PATH}Stream`,
    });
    this.#stream = stream;
    stream.on("response", (response) => this.#responded(response));
    stream.on("data", (piece: Uint8Array) => this.#received(piece));
    stream.on("end", () => this.#over());
    stream.on("drain", () => this.#drained());
    stream.on("error", (error) => {
      if (this.#session !== undefined) this.#session.failure ??= error;
    });
    stream.on("close", () => this.#over());
    for (const bytes of this.#early.splice(0)) stream.write(bytes);
    if (this.#isEnded) stream.end();
  }

  write(frames: readonly ClientFrame[]): number {
    if (this.#isEnded || this.#isClosed || frames.length === 0) return 0;
    let bytes: Uint8Array;
    try {
      bytes = envelopes(frames.map((frame) => encodeClientFrame(frame, frameKey(frame, this.#meta))));
    } catch (cause) {
      const error = HoldfastError.from(cause, "internal", "bad frame");
      queueMicrotask(() => this.lose(error));
      return 0;
    }
    const stream = this.#stream;
    if (stream === undefined) {
      for (const frame of frames) if (frame.kind === "attach") this.#eventId = frame.eventId;
      this.#early.push(bytes);
      return 0;
    }
    stream.write(bytes);
    if (!stream.writableNeedDrain) return 0;
    this.#isWaiting = true;
    return stream.writableLength;
  }

  end(): void {
    if (this.#isEnded || this.#isClosed) return;
    this.#isEnded = true;
    this.#stream?.end();
    this.#lingering = setTimeout(() => {
      this.#close(undefined);
      this.#stream?.close(constants.NGHTTP2_CANCEL);
    }, LINGER_MS).unref();
  }

  /** Ends it at once and tells why. */
  lose(reason: HoldfastError): void {
    this.#close(reason);
  }

  #responded(headers: IncomingHttpHeaders): void {
    const status = headers[":status"] ?? 0;
    if (Number(status) === 200 && formatOf(headers["content-type"], "stream") === "proto") return;
    this.#refusal = { status: Number(status), retryAfter: headers["retry-after"], body: [], bytes: 0 };
  }

  #received(piece: Uint8Array): void {
    if (this.#isClosed) return;
    if (this.#refusal !== undefined) {
      this.#refusal.bytes += piece.length;
      if (this.#refusal.bytes <= REFUSAL_BYTES_MAX) this.#refusal.body.push(piece);
      return;
    }
    try {
      this.#parser.push(piece);
      for (let next = this.#parser.next(); next !== undefined; next = this.#parser.next()) {
        if (next.isEnd) return this.#endedBy(readEndOfStream(next.message));
        this.#take(decodeServerFrame(next.message));
        if (this.#isClosed) return;
      }
    } catch (cause) {
      if (!(cause instanceof HoldfastError)) throw cause;
      this.#close(cause);
    }
  }

  #take(frame: ServerFrame): void {
    this.#hasErrorFrame = frame.kind === "error";
    this.#handler.received(frame);
  }

  /** The error of the call repeats the error frame, if there was one. */
  #endedBy(error: HoldfastError | undefined): void {
    this.#close(this.#hasErrorFrame ? undefined : error);
  }

  #drained(): void {
    if (!this.#isWaiting || this.#isClosed || this.#isEnded) return;
    this.#isWaiting = false;
    this.#handler.drained();
  }

  /** The response has stopped, and its last envelope never came. */
  #over(): void {
    if (this.#isClosed) return;
    const refusal = this.#refusal;
    if (refusal !== undefined) {
      return this.#close(readErrorResponse(refusal.status, Buffer.concat(refusal.body), refusal.retryAfter));
    }
    const cause = this.#session?.failure;
    const why = cause === undefined ? "" : `: ${cause.message}`;
    this.#close(new HoldfastError("connection_lost", `the connection broke${why}`, { cause }));
  }

  #close(reason: HoldfastError | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#lingering);
    this.#early = [];
    this.#hangUp(reason);
    this.#handler.closed(reason);
  }

  /** In order: what was written still leaves. Otherwise nothing more is worth sending. */
  #hangUp(reason: HoldfastError | undefined): void {
    const stream = this.#stream;
    if (stream === undefined || stream.destroyed) return;
    if (reason === undefined) stream.end();
    else stream.close(constants.NGHTTP2_CANCEL);
    stream.resume();
  }
}
