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
import type { HostContext } from "./hosted.ts";
import type { LogReader } from "./stream-logs.ts";

/** There are no logs: everything there is to read comes live. */
const NO_LOGS: LogReader = { readChunks: async () => [], readEvents: async () => [] };

export class DegradedStream {
  readonly #context: HostContext;
  readonly #wire: Wire<ServerFrame>;
  readonly #run: ApplicationRun;
  readonly #stopTicking: () => void;
  #life = life.init(false, undefined);
  #isClosed = false;
  #nextSeqno = 0;
  #emitted = 0;

  constructor(
    context: HostContext,
    name: StreamName,
    wire: Wire<ServerFrame>,
    firstChunk: Uint8Array | undefined,
  ) {
    this.#context = context;
    this.#wire = wire;
    this.#run = new ApplicationRun(name, NO_LOGS, newStreamState(new Uint8Array(), 0, 0), {
      emit: (event) => this.#live({ kind: "emit" }, event),
      end: (event, reason) => this.#live({ kind: "end", reason }, event),
      unreadable: () => undefined,
      onBug: context.onBug,
      // A blob would be kept where nothing else is.
      blobs: undefined,
    });
    const welcome = this.#welcome();
    countFrame(context.counters, welcome);
    wire.write([welcome]);
    this.#stopTicking = this.#tickEvery(context.options.heartbeatIntervalMs);
    this.#run.start(context.application);
    if (firstChunk !== undefined) this.#say(0, firstChunk);
  }

  received(frame: ClientFrame): void {
    switch (frame.kind) {
      case "chunk":
        this.#say(frame.seqno, frame.body);
        return;
      case "close":
        this.#say(frame.seqno, undefined);
        return;
      case "abort":
        this.#live({ kind: "abort" }, undefined);
        return;
      case "heartbeat":
      case "attach":
        return;
    }
  }

  closed(): void {
    this.#isClosed = true;
    this.#stopTicking();
    this.#run.lose();
  }

  #say(seqno: number, body: Uint8Array | undefined): void {
    if (seqno < this.#nextSeqno) return;
    if (seqno > this.#nextSeqno) {
      this.#refuse("seqno_gap", `chunk ${seqno} came, ${this.#nextSeqno} was expected`);
      return;
    }
    if (this.#run.unreadBytes > LIMITS.bodyBytesMax) {
      this.#refuse("overloaded", "the application does not read what was said");
      return;
    }
    this.#nextSeqno++;
    this.#run.push(body === undefined ? { kind: "close", seqno } : { kind: "chunk", seqno, body });
  }

  #live(input: life.Input, event: PendingEvent | undefined): void {
    if (this.#isClosed) {
      event?.refused("unavailable");
      return;
    }
    const [next, effects] = life.step(this.#life, input);
    this.#life = next;
    for (const effect of effects) {
      switch (effect.kind) {
        case "record_abort":
          this.#run.abort();
          this.#context.environment.after(this.#context.options.abortGraceMs, () =>
            this.#live({ kind: "grace_over" }, undefined),
          );
          break;
        case "record_event":
          this.#send(event, undefined);
          break;
        case "record_end":
          this.#send(event, effect.reason);
          this.#stopTicking();
          this.#wire.end();
          break;
        case "refuse":
          event?.refused("stream_ended");
          break;
      }
    }
  }

  #send(event: PendingEvent | undefined, end: life.State["end"]): void {
    const body = event === undefined ? new Uint8Array() : new Uint8Array(event.body);
    const waitingBytes = this.#wire.write([{ kind: "event", eventId: 0, body, covers: 1, end }]);
    event?.durable(++this.#emitted);
    // Nothing is kept that could be sent later: a reader that does not read ends this stream (F2).
    if (waitingBytes > LIMITS.sendQueueBytesMax) this.#refuse("overloaded", "this reader is too far behind");
  }

  #refuse(code: ErrorCode, message: string): void {
    countRefusal(this.#context.counters, code);
    this.#wire.write([{ kind: "error", code, message, retryAfterMs: undefined }]);
    this.#wire.end();
    this.closed();
  }

  #welcome(): ServerFrame {
    const { clock, options } = this.#context;
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

  #tickEvery(intervalMs: number): () => void {
    const { environment } = this.#context;
    const tick = (): void => {
      this.#wire.write([{ kind: "heartbeat", nextSeqno: 0, eventHead: 0, aborted: this.#life.aborted }]);
      cancel = environment.after(intervalMs, tick);
    };
    let cancel = environment.after(intervalMs, tick);
    return () => cancel();
  }
}
