/**
 * One connection as the server meets it: from its first frame to the stream that it attaches to.
 *
 * Whatever it says before its attach has been decided waits in a short queue. A connection that says
 * nothing, or something malformed, is refused before anything else happens.
 */
import { countRefusal } from "./counters.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { checkClientFrame, invalidFrame } from "../protocol/frame-check.ts";
import type { AttachFrame, ClientFrame, ServerFrame } from "../protocol/frames.ts";
import { KEY_BYTES } from "../sealing/index.ts";
import type { AcceptedMeta, Handler, Wire } from "../transport/transport.ts";
import { type AttachedTo, degradedStream } from "./degraded.ts";
import type { HostContext } from "./hosted.ts";
import type { Keeper } from "./keeper.ts";

/** A client has nothing to say between its attach and its welcome but heartbeats and an abort. */
const EARLY_FRAMES_MAX = 16;

/** An honest client attaches with its first frame. */
const ATTACH_TIMEOUT_MS = 10_000;

export class ServerConnection implements Handler<ClientFrame> {
  readonly #context: HostContext;
  readonly #keeper: Keeper;
  readonly #meta: AcceptedMeta;
  readonly #wire: Wire<ServerFrame>;
  readonly #number: number;
  /** Where the frames go once the attach has been decided. */
  #target: AttachedTo | undefined;
  #early: ClientFrame[] | undefined;
  #isClosed = false;
  #isHosted = false;
  readonly #cancelTimeout: () => void;
  /** Called when nothing will come of this connection any more. */
  onOver: () => void = () => undefined;

  constructor(
    context: HostContext,
    keeper: Keeper,
    meta: AcceptedMeta,
    wire: Wire<ServerFrame>,
    number: number,
  ) {
    this.#context = context;
    this.#keeper = keeper;
    this.#meta = meta;
    this.#wire = wire;
    this.#number = number;
    this.#cancelTimeout = context.environment.after(ATTACH_TIMEOUT_MS, () => {
      this.refuse(new HoldfastError("connection_lost", "no attach came"));
    });
  }

  received(frame: ClientFrame): void {
    if (this.#isClosed) return;
    try {
      // A transport with a codec has checked this already; one without has not (E8).
      checkClientFrame(frame, this.#meta.idempotencyKey);
      this.#take(frame);
    } catch (cause) {
      if (!(cause instanceof HoldfastError)) throw cause;
      this.refuse(cause);
    }
  }

  #take(frame: ClientFrame): void {
    if (this.#target !== undefined) {
      this.#target.received(frame);
    } else if (this.#early !== undefined) {
      this.#early.push(frame);
      if (this.#early.length > EARLY_FRAMES_MAX)
        this.refuse(new HoldfastError("invalid_frame", "wait for the welcome"));
    } else if (frame.kind === "attach") {
      checkStreamKey(this.#meta.streamKey);
      this.#cancelTimeout();
      this.#early = [];
      void this.#attach(frame);
    } else {
      this.refuse(new HoldfastError("invalid_frame", "a connection begins with an attach"));
    }
  }

  drained(): void {
    this.#target?.drained();
  }

  closed(): void {
    if (!this.#isClosed) this.#over();
    this.#target?.closed();
  }

  /** Another server takes over from here: who has not attached yet is sent there. */
  refuseUnattached(): void {
    if (this.#target === undefined)
      this.refuse(new HoldfastError("unavailable", "the store works again; reconnect"));
  }

  /** Tells a client to come back, unless its stream has told it already. */
  shutdown(): void {
    if (this.#isHosted) return;
    this.refuse(new HoldfastError("unavailable", "this server is shutting down; reconnect"));
    this.#target?.closed();
  }

  #over(): void {
    this.#isClosed = true;
    this.#cancelTimeout();
    this.onOver();
  }

  async #attach(frame: AttachFrame): Promise<void> {
    try {
      const found = await this.#keeper.find(this.#meta, frame);
      if (this.#isClosed) {
        if (found.kind === "hosted") found.hosted.dropUnborn();
        return;
      }
      const name = { principal: this.#meta.principal, idempotencyKey: this.#meta.idempotencyKey };
      if (found.kind === "degraded") {
        this.#target = degradedStream(this.#context, name, this.#wire, frame.firstChunk);
      } else {
        const { hosted, resumed } = found;
        if (hosted.isDropped) throw new HoldfastError("unavailable", "the stream has just moved; reconnect");
        this.#target = {
          received: (next) => hosted.received(this.#number, next),
          drained: () => hosted.drained(this.#number),
          closed: () => hosted.closed(this.#number),
        };
        this.#isHosted = true;
        hosted.attach(this.#number, this.#wire, frame, resumed);
        hosted.dropUnborn();
      }
      for (const early of this.#early?.splice(0) ?? []) this.#target.received(early);
    } catch (cause) {
      // What a damaged or failed store says is no verdict on the stream: the client comes back.
      const isVerdict = cause instanceof HoldfastError && cause.code !== "stream_failed";
      this.refuse(isVerdict ? cause : new HoldfastError("unavailable", "the store failed", { cause }));
    }
  }

  refuse(error: HoldfastError): void {
    if (this.#isClosed) return;
    this.#over();
    countRefusal(this.#context.counters, error.code);
    this.#wire.write([
      { kind: "error", code: error.code, message: error.message, retryAfterMs: error.retryAfterMs },
    ]);
    this.#wire.end();
  }
}

export function checkStreamKey(streamKey: Uint8Array): void {
  if (streamKey.length !== KEY_BYTES) throw invalidFrame(`a stream key has ${KEY_BYTES} bytes`);
}
