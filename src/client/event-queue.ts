/**
 * Events between the connection and the application: in order, bounded.
 *
 * The bound is not kept by dropping: above it the stream lets go of its connection and comes back
 * when the application has caught up; the events wait in the server's log meanwhile (F2).
 */
import type { EndReason } from "../protocol/frames.ts";

export interface StreamEvent {
  /** 0 on a degraded stream. */
  readonly eventId: number;
  readonly body: Uint8Array;
  /** How many events of the log this one stands for. */
  readonly covers: number;
  /** Set on the last event. */
  readonly end: EndReason | undefined;
}

export class EventQueue implements AsyncIterableIterator<StreamEvent> {
  readonly #onDrained: () => void;
  #events: StreamEvent[] = [];
  #bytes = 0;
  #isOver = false;
  #failure: Error | undefined;
  #waiting: (() => void)[] = [];

  /** `onDrained` is called when the application has taken everything. */
  constructor(onDrained: () => void) {
    this.#onDrained = onDrained;
  }

  get bytes(): number {
    return this.#bytes;
  }

  push(event: StreamEvent): void {
    this.#events.push(event);
    this.#bytes += sizeOf(event);
    this.#wake();
  }

  /** What is queued is still read; then the iteration ends, or throws the failure. */
  finish(failure: Error | undefined): void {
    this.#isOver = true;
    this.#failure = failure;
    this.#wake();
  }

  async next(): Promise<IteratorResult<StreamEvent, undefined>> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) {
        this.#bytes -= sizeOf(event);
        if (this.#events.length === 0) this.#onDrained();
        return { done: false, value: event };
      }
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isOver) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  /** Whoever waits looks again: several may read, and each event goes to one of them. */
  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Empty events take room too. */
function sizeOf(event: StreamEvent): number {
  return EVENT_BYTES + event.body.length;
}

const EVENT_BYTES = 64;
