/**
 * One stream as a page shows it: its events folded into a state, and how its connection is.
 *
 * It only reads, from the first event on, and may abort. Writing is the client's own.
 */
import type { StreamEvent } from "../client/event-queue.ts";
import type { StreamStatus } from "../client/status.ts";
import type { ClientStream } from "../client/stream.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { LiveConversations } from "./open.ts";

export interface StreamSnapshot<State> {
  readonly state: State;
  /** The last event in it; 0 = none. */
  readonly eventId: number;
  /** Undefined before the client is open. */
  readonly status: StreamStatus | undefined;
  readonly error: HoldfastError | undefined;
}

/** How a state becomes the next one. */
export type Fold<State> = (state: State, event: StreamEvent) => State;

export class LiveStream<State> {
  readonly #listeners = new Set<() => void>();
  #stream: ClientStream | undefined;
  #snapshot: StreamSnapshot<State>;
  #isLeft = false;
  #isTelling = false;

  constructor(initial: State) {
    this.#snapshot = { state: initial, eventId: 0, status: undefined, error: undefined };
  }

  get snapshot(): StreamSnapshot<State> {
    return this.#snapshot;
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Follows the stream until `leave`. Never rejects: what goes wrong is in the snapshot. */
  async follow(conversations: LiveConversations, idempotencyKey: string, fold: Fold<State>): Promise<void> {
    try {
      const client = await conversations.client();
      if (this.#isLeft) return;
      const stream = await client.follow(idempotencyKey);
      this.#stream = stream;
      if (this.#isLeft) stream.leave();
      stream.watch((status) => this.#change({ status }));
      for await (const event of stream.events) {
        const state = fold(this.#snapshot.state, event);
        this.#change({ state, eventId: event.eventId, status: stream.status });
      }
      this.#change({ status: stream.status });
    } catch (cause) {
      this.#change({ error: HoldfastError.from(cause) });
    }
  }

  /** Stops what the stream does, for good. */
  async abort(): Promise<void> {
    await this.#stream?.abort();
  }

  leave(): void {
    this.#isLeft = true;
    this.#stream?.leave();
  }

  #change(news: Partial<StreamSnapshot<State>>): void {
    this.#snapshot = { ...this.#snapshot, ...news };
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const listener of this.#listeners) listener();
    });
  }
}
