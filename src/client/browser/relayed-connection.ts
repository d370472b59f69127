/**
 * A connection of this tab that another tab carries.
 *
 * Keeps the transport's contract on this side: what is written counts as waiting until the leader says
 * that it is on its way, and nothing is heard after `closed`.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { decodeServerFrame, encodeClientFrame } from "../../protocol/frame-codec.ts";
import type { ClientFrame, ServerFrame } from "../../protocol/frames.ts";
import type { ClientMeta, Handler, Wire } from "../../transport/transport.ts";
import { errorOf, type ToLeader, type ToTab } from "./tab-messages.ts";

export interface RelayOptions {
  readonly tab: string;
  readonly connection: number;
  readonly meta: ClientMeta;
  readonly handler: Handler<ServerFrame>;
  readonly say: (message: ToLeader) => void;
  readonly onClosed: () => void;
}

export class RelayedConnection implements Wire<ClientFrame> {
  readonly #options: RelayOptions;
  #sentBytes = 0;
  #takenBytes = 0;
  #isEnded = false;
  #isClosed = false;

  constructor(options: RelayOptions) {
    this.#options = options;
    const { tab, connection, meta, say } = options;
    say({ kind: "open", tab, connection, meta });
  }

  write(frames: readonly ClientFrame[]): number {
    if (this.#isEnded || frames.length === 0) return this.#waitingBytes;
    const { tab, connection, meta, say } = this.#options;
    const encoded = frames.map((frame) => encodeClientFrame(frame, meta.idempotencyKey));
    for (const bytes of encoded) this.#sentBytes += bytes.length;
    say({ kind: "frames", tab, connection, frames: encoded });
    return this.#waitingBytes;
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const { tab, connection, say } = this.#options;
    say({ kind: "end", tab, connection });
  }

  heard(message: Exclude<ToTab, { kind: "here" }>): void {
    if (this.#isClosed) return;
    switch (message.kind) {
      case "frames":
        for (const bytes of message.frames) this.#received(bytes);
        return;
      case "taken":
        this.#takenBytes = message.bytes;
        if (this.#waitingBytes === 0) this.#options.handler.drained();
        return;
      case "closed":
        this.close(errorOf(message.reason));
        return;
    }
  }

  close(reason: HoldfastError | undefined): void {
    if (this.#isClosed) return;
    this.#isEnded = true;
    this.#isClosed = true;
    this.#options.onClosed();
    this.#options.handler.closed(reason);
  }

  get #waitingBytes(): number {
    return this.#sentBytes - this.#takenBytes;
  }

  #received(bytes: Uint8Array): void {
    if (this.#isClosed) return;
    let frame: ServerFrame;
    try {
      frame = decodeServerFrame(bytes);
    } catch (cause) {
      this.end();
      this.close(HoldfastError.from(cause));
      return;
    }
    this.#options.handler.received(frame);
  }
}
