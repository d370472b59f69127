/**
 * A connection that was asked for before it is known who will carry it: keeps what is written until
 * then, and is the real one from then on.
 */
import type { HoldfastError } from "../../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta, Connect, Handler, Wire } from "../../transport/transport.ts";

export class PendingConnection implements Wire<ClientFrame> {
  readonly #meta: ClientMeta;
  readonly #handler: Handler<ServerFrame>;
  readonly #written: ClientFrame[] = [];
  #waitingBytes = 0;
  #isEnded = false;
  #wire: Wire<ClientFrame> | undefined;

  constructor(meta: ClientMeta, handler: Handler<ServerFrame>) {
    this.#meta = meta;
    this.#handler = handler;
  }

  write(frames: readonly ClientFrame[]): number {
    if (this.#wire !== undefined) return this.#wire.write(frames);
    if (this.#isEnded) return this.#waitingBytes;
    this.#written.push(...frames);
    for (const frame of frames) this.#waitingBytes += bytesOf(frame);
    return this.#waitingBytes;
  }

  end(): void {
    this.#isEnded = true;
    this.#wire?.end();
  }

  bind(connect: Connect): void {
    const wire = connect(this.#meta, this.#handler);
    this.#wire = wire;
    const wait = this.#written.length > 0 ? wire.write(this.#written) : 0;
    if (wait === 0 && this.#waitingBytes > 0) this.#handler.drained();
    if (this.#isEnded) wire.end();
  }

  close(reason: HoldfastError): void {
    this.#handler.closed(reason);
  }
}

/** At least 1: what waits is never nothing. */
function bytesOf(frame: ClientFrame): number {
  switch (frame.kind) {
    case "chunk":
      return 1 + frame.body.length;
    case "attach":
      return 1 + (frame.firstChunk?.length ?? 0);
    default:
      return 1;
  }
}
