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
import type { AcceptedMeta, Wire } from "../transport/transport.ts";
import { type AttachedTo, degradedStream } from "./degraded.ts";
import type { HostContext } from "./host-context.ts";
import type { Keeper } from "./keeper.ts";

/** A client has nothing to say between its attach and its welcome but heartbeats and an abort. */
const EARLY_FRAMES_MAX = 16;

/** An honest client attaches with its first frame. */
const ATTACH_TIMEOUT_MS = 10_000;

export type ServerConnection = ReturnType<typeof serverConnection>;

/** `onOver` is called when nothing will come of this connection any more. */
export function serverConnection(
  context: HostContext,
  keeper: Keeper,
  meta: AcceptedMeta,
  wire: Wire<ServerFrame>,
  number: number,
  onOver: () => void,
) {
  /** Where the frames go once the attach has been decided. */
  let target: AttachedTo | undefined;
  let early: ClientFrame[] | undefined;
  let isClosed = false;
  let isHosted = false;
  const cancelTimeout = context.environment.after(ATTACH_TIMEOUT_MS, () => {
    refuse(new HoldfastError("connection_lost", "no attach came"));
  });

  function take(frame: ClientFrame): void {
    if (target !== undefined) {
      target.received(frame);
    } else if (early !== undefined) {
      early.push(frame);
      if (early.length > EARLY_FRAMES_MAX) refuse(new HoldfastError("invalid_frame", "wait for the welcome"));
    } else if (frame.kind === "attach") {
      checkStreamKey(meta.streamKey);
      if (meta.conversation !== undefined) checkStreamKey(meta.conversation.key);
      cancelTimeout();
      early = [];
      void attach(frame);
    } else {
      refuse(new HoldfastError("invalid_frame", "a connection begins with an attach"));
    }
  }

  function over(): void {
    isClosed = true;
    cancelTimeout();
    onOver();
  }

  async function attach(frame: AttachFrame): Promise<void> {
    try {
      const found = await keeper.find(meta, frame);
      if (isClosed) {
        if (found.kind === "hosted") found.hosted.dropUnborn();
        return;
      }
      const name = { principal: meta.principal, idempotencyKey: meta.idempotencyKey };
      if (found.kind === "degraded") {
        target = degradedStream(context, name, wire, frame.firstChunk);
      } else {
        const stream = found.kind === "followed" ? found.followed : found.hosted;
        if (stream.isDropped) throw new HoldfastError("unavailable", "the stream has just moved; reconnect");
        target = {
          received: (next) => stream.received(number, next),
          drained: () => stream.drained(number),
          closed: () => stream.closed(number),
        };
        isHosted = true;
        const attaching = { connection: number, conversation: meta.conversation };
        if (found.kind === "followed") found.followed.attach(attaching, wire, frame);
        else {
          found.hosted.attach(attaching, wire, frame, found.resumed);
          found.hosted.dropUnborn();
        }
      }
      for (const waiting of early?.splice(0) ?? []) target.received(waiting);
    } catch (cause) {
      // What a damaged or failed store says is no verdict on the stream: the client reconnects.
      const isVerdict = cause instanceof HoldfastError && cause.code !== "stream_failed";
      refuse(isVerdict ? cause : new HoldfastError("unavailable", "the store failed", { cause }));
    }
  }

  function refuse(error: HoldfastError): void {
    if (isClosed) return;
    over();
    countRefusal(context.counters, error.code);
    wire.write([
      { kind: "error", code: error.code, message: error.message, retryAfterMs: error.retryAfterMs },
    ]);
    wire.end();
  }

  return {
    received(frame: ClientFrame): void {
      if (isClosed) return;
      try {
        // A transport with a codec has checked this already; one without has not (E8).
        checkClientFrame(frame, meta.idempotencyKey);
        take(frame);
      } catch (cause) {
        if (!(cause instanceof HoldfastError)) throw cause;
        refuse(cause);
      }
    },
    drained(): void {
      target?.drained();
    },
    closed(): void {
      if (!isClosed) over();
      target?.closed();
    },
    /** Another server takes over. A connection that has not attached yet is refused, and its client reconnects there. */
    refuseUnattached(): void {
      if (target === undefined) refuse(new HoldfastError("unavailable", "the store works again; reconnect"));
    },
    /** Tells a client to reconnect, unless its stream has done so already. */
    shutdown(): void {
      if (isHosted) return;
      refuse(new HoldfastError("unavailable", "this server is shutting down; reconnect"));
      target?.closed();
    },
  };
}

export function checkStreamKey(streamKey: Uint8Array): void {
  if (streamKey.length !== KEY_BYTES) throw invalidFrame(`a stream key has ${KEY_BYTES} bytes`);
}
