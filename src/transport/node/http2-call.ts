/** One connection of a client: a `Stream` call on an HTTP/2 session. */
import type { ClientHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import { HoldfastError } from "../../protocol/errors.ts";
import { decodeServerFrame, encodeClientFrame } from "../../protocol/frame-codec.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta, Handler, Wire } from "../transport.ts";
import { callHeaders, frameKey } from "../connect/client-call.ts";
import { STREAM_SERVICE_PATH } from "../connect/calls.ts";
import { envelopes } from "../connect/envelopes.ts";
import { contentType } from "../connect/formats.ts";
import { hearAnswer } from "./http2-answer.ts";
import type { ClientSession } from "./http2-client-session.ts";

/** How long a server may take to answer an end with its own. */
const LINGER_MS = 5_000;

interface Http2Call extends Wire<ClientFrame> {
  readonly isClosed: () => boolean;
  open(session: ClientSession, basePath: string, headers: Readonly<Record<string, string>>): void;
  /** Ends it and tells why. */
  close(reason: HoldfastError | undefined): void;
}

export function http2Call(meta: ClientMeta, handler: Handler<ServerFrame>): Http2Call {
  let stream: ClientHttp2Stream | undefined;
  /** What was written before the call was made. */
  let early: Uint8Array[] = [];
  let eventId = 0;
  let hasErrorFrame = false;
  let isEnded = false;
  let isClosed = false;
  let isWaiting = false;
  let lingering: NodeJS.Timeout | undefined;

  function close(reason: HoldfastError | undefined): void {
    if (isClosed) return;
    isClosed = true;
    clearTimeout(lingering);
    early = [];
    if (stream !== undefined && !stream.destroyed) {
      // In order: what was written still leaves. Otherwise nothing more is worth sending.
      if (reason === undefined) stream.end();
      else stream.close(constants.NGHTTP2_CANCEL);
      stream.resume();
    }
    handler.closed(reason);
  }

  return {
    isClosed: () => isClosed,
    open(session, basePath, headers) {
      const opened = session.request({
        ...headers,
        ...callHeaders(meta, eventId),
        "content-type": contentType("proto", "stream"),
        ":method": "POST",
        ":path": `${basePath}${STREAM_SERVICE_PATH}Stream`,
      });
      stream = opened;
      hearAnswer(opened, session, {
        message(message) {
          if (isClosed) return false;
          const frame = decodeServerFrame(message);
          hasErrorFrame = frame.kind === "error";
          handler.received(frame);
          return !isClosed;
        },
        // The error of the call repeats the error frame, if that was the last one.
        over: (error) => close(hasErrorFrame ? undefined : error),
      });
      opened.on("drain", () => {
        if (!isWaiting || isClosed || isEnded) return;
        isWaiting = false;
        handler.drained();
      });
      for (const bytes of early.splice(0)) opened.write(bytes);
      if (isEnded) opened.end();
    },
    write(frames) {
      if (isEnded || isClosed || frames.length === 0) return 0;
      let bytes: Uint8Array;
      try {
        bytes = envelopes(frames.map((frame) => encodeClientFrame(frame, frameKey(frame, meta))));
      } catch (cause) {
        const error = HoldfastError.from(cause, "internal", "bad frame");
        queueMicrotask(() => close(error));
        return 0;
      }
      if (stream === undefined) {
        for (const frame of frames) if (frame.kind === "attach") eventId = frame.eventId;
        early.push(bytes);
        return 0;
      }
      stream.write(bytes);
      if (!stream.writableNeedDrain) return 0;
      isWaiting = true;
      return stream.writableLength;
    },
    end() {
      if (isEnded || isClosed) return;
      isEnded = true;
      stream?.end();
      lingering = setTimeout(() => {
        close(undefined);
        stream?.close(constants.NGHTTP2_CANCEL);
      }, LINGER_MS).unref();
    },
    close,
  };
}
