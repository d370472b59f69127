/**
 * A new stream that runs although the store is down (D5).
 *
 * It lives on its one connection: no acks, events without ids, over when the connection breaks. The
 * welcome says so, and nothing of it is kept, so nothing can be promised or resumed.
 */
import * as life from "../core/life.ts";
import { newStreamState, type StreamName } from "../core/stream-state.ts";
import type { ErrorCode } from "../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../protocol/frames.ts";
import { LIMITS, PROTOCOL_VERSION } from "../protocol/limits.ts";
import type { Wire } from "../transport/transport.ts";
import { ApplicationRun, type PendingEvent } from "./application-run.ts";
import { countFrame, countRefusal } from "./counters.ts";
import type { HostContext } from "./host-context.ts";
import type { LogReader } from "./stream-logs.ts";

/** There are no logs: everything there is to read comes live. */
const NO_LOGS: LogReader = { readChunks: async () => [], readEvents: async () => [] };

/** Where the frames of a connection go once its attach has been decided. */
export interface AttachedTo {
  received(frame: ClientFrame): void;
  drained(): void;
  closed(): void;
}

export function degradedStream(
  context: HostContext,
  name: StreamName,
  wire: Wire<ServerFrame>,
  firstChunk: Uint8Array | undefined,
): AttachedTo {
  let state = life.init(false, undefined);
  let isClosed = false;
  let nextSeqno = 0;
  let emitted = 0;

  function closed(): void {
    isClosed = true;
    stopTicking();
    run.lose();
  }

  function say(seqno: number, body: Uint8Array | undefined): void {
    if (seqno < nextSeqno) return;
    if (seqno > nextSeqno) {
      refuse("seqno_gap", `chunk ${seqno} came, ${nextSeqno} was expected`);
      return;
    }
    if (run.unreadBytes > LIMITS.bodyBytesMax) {
      refuse("overloaded", "the application does not read what was said");
      return;
    }
    nextSeqno++;
    run.push(body === undefined ? { kind: "close", seqno } : { kind: "chunk", seqno, body });
  }

  function live(input: life.Input, event: PendingEvent | undefined): void {
    if (isClosed) {
      event?.refused("unavailable");
      return;
    }
    const [next, effects] = life.step(state, input);
    state = next;
    for (const effect of effects) {
      switch (effect.kind) {
        case "record_abort":
          run.abort();
          context.environment.after(context.options.abortGraceMs, () =>
            live({ kind: "grace_over" }, undefined),
          );
          break;
        case "record_event":
          send(event, undefined);
          break;
        case "record_end":
          send(event, effect.reason);
          stopTicking();
          wire.end();
          break;
        case "refuse":
          event?.refused("stream_ended");
          break;
      }
    }
  }

  function send(event: PendingEvent | undefined, end: life.State["end"]): void {
    const body = event === undefined ? new Uint8Array() : new Uint8Array(event.body);
    const waitingBytes = wire.write([{ kind: "event", eventId: 0, body, end }]);
    event?.durable(++emitted);
    // Nothing is kept that could be sent later: a reader that does not read ends this stream (F2).
    if (waitingBytes > LIMITS.sendQueueBytesMax) refuse("overloaded", "this reader is too far behind");
  }

  function refuse(code: ErrorCode, message: string): void {
    countRefusal(context.counters, code);
    wire.write([{ kind: "error", code, message, retryAfterMs: undefined }]);
    wire.end();
    closed();
  }

  function welcome(): ServerFrame {
    const { clock, options } = context;
    return {
      kind: "welcome",
      message: "the store is down: this stream has no durability and cannot be resumed",
      degraded: true,
      nextSeqno: 0,
      eventHead: 0,
      eventFloor: 1,
      writerEpoch: 1,
      writerSinceEvent: 0,
      durability: "none",
      retentionLeftMs: 0,
      heartbeatIntervalMs: options.heartbeatIntervalMs,
      serverTimeMs: clock.now(),
      lastActivityMs: clock.now(),
      aborted: false,
      protocolVersion: PROTOCOL_VERSION,
      resumed: false,
      closed: false,
    };
  }

  function tickEvery(intervalMs: number): () => void {
    const { environment } = context;
    const tick = (): void => {
      wire.write([{ kind: "heartbeat", nextSeqno: 0, eventHead: 0, aborted: state.aborted }]);
      cancel = environment.after(intervalMs, tick);
    };
    let cancel = environment.after(intervalMs, tick);
    return () => cancel();
  }

  const run = new ApplicationRun(name, NO_LOGS, newStreamState(new Uint8Array(), 0, 0), {
    emit: (event) => live({ kind: "emit" }, event),
    end: (event, reason) => live({ kind: "end", reason }, event),
    readingBack: () => undefined,
    readersServed: () => Promise.resolve(),
    unreadable: () => undefined,
    onBug: context.onBug,
    // A blob would be kept where nothing else is.
    blobs: undefined,
    conversation: () => undefined,
    secretName: undefined,
    isNew: true,
  });
  const greeting = welcome();
  countFrame(context.counters, greeting);
  wire.write([greeting]);
  const stopTicking = tickEvery(context.options.heartbeatIntervalMs);
  run.start(context.application);
  if (firstChunk !== undefined) say(0, firstChunk);
  return {
    drained: () => undefined,
    received(frame) {
      switch (frame.kind) {
        case "chunk":
          say(frame.seqno, frame.body);
          return;
        case "close":
          say(frame.seqno, undefined);
          return;
        case "abort":
          live({ kind: "abort" }, undefined);
          return;
        case "heartbeat":
        case "attach":
          return;
      }
    },
    closed,
  };
}
