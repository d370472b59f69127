/**
 * The server's half of a connection as it goes out: frames are encoded here, and end as a Connect response
 * or within a listener's.
 *
 * All frames of one write leave as one piece of bytes. An error frame is sent twice: as a frame, which our
 * clients read, and as the error of the call, which every Connect client understands.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { encodeServerFrame } from "../../protocol/frame-codec.ts";
import type { ServerFrame } from "../../protocol/frames.ts";
import { StreamResponseSchema } from "../../protocol/gen/holdfast/v1/stream.ts";
import type { Wire } from "../transport.ts";
import { endEnvelope, envelopes, envelopesInto } from "../connect/envelopes.ts";
import { endOfStreamJson } from "../connect/errors.ts";
import { contentType, type Format } from "../connect/formats.ts";
import { toWireFormat } from "./wire-format.ts";
import type { Exchange } from "./exchange.ts";

/** Where encoded frames go. */
export interface Outlet {
  /** Returns how many bytes wait unsent. */
  write(messages: readonly Uint8Array[]): number;
  /** After everything that was written. */
  end(error: HoldfastError | undefined): void;
}

export class ServerWire implements Wire<ServerFrame> {
  readonly #outlet: Outlet;
  readonly #seen: (frame: ServerFrame) => void;
  #error: HoldfastError | undefined;
  #isEnded = false;
  /** Something was left waiting, so `drained` is owed. */
  isWaiting = false;

  constructor(outlet: Outlet, seen: (frame: ServerFrame) => void = () => undefined) {
    this.#outlet = outlet;
    this.#seen = seen;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  write(frames: readonly ServerFrame[]): number {
    if (this.#isEnded || frames.length === 0) return 0;
    const messages: Uint8Array[] = [];
    for (const frame of frames) {
      messages.push(encodeServerFrame(frame));
      if (frame.kind === "error") this.#error = errorOf(frame);
      this.#seen(frame);
    }
    const waitingBytes = this.#outlet.write(messages);
    if (waitingBytes > 0) this.isWaiting = true;
    return waitingBytes;
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#outlet.end(this.#error);
  }

  /** Says why, and ends. */
  refuse(error: HoldfastError): void {
    this.write([
      { kind: "error", code: error.code, message: error.message, retryAfterMs: error.retryAfterMs },
    ]);
    this.end();
  }

  /** The client cannot be reached any more. */
  lose(): void {
    this.#isEnded = true;
  }
}

export function errorOf(frame: Extract<ServerFrame, { kind: "error" }>): HoldfastError {
  return new HoldfastError(frame.code, frame.message, { retryAfterMs: frame.retryAfterMs });
}

/** A streaming response of its own. Its head leaves at once: the client knows that it was let in. */
export function responseOutlet(exchange: Exchange, format: Format): Outlet {
  exchange.respond(200, streamHead(format));
  return {
    write(messages) {
      if (format === "proto") return exchange.write(envelopesInto(fromPool, messages));
      const translated = messages.map((message) => toWireFormat(format, StreamResponseSchema, message));
      return exchange.write(envelopes(translated));
    },
    end: (error) =>
      exchange.end(endEnvelope(Buffer.from(`${endOfStreamJson(error)}${format === "json" ? "\n" : ""}`))),
  };
}

const fromPool = (byteCount: number): Buffer => Buffer.allocUnsafe(byteCount);

/** Proxies that collect a response before they pass it on would make a stream of it in one piece. */
export function streamHead(format: Format): Readonly<Record<string, string>> {
  return {
    "content-type": contentType(format, "stream"),
    "cache-control": "no-store",
    "x-accel-buffering": "no",
  };
}
