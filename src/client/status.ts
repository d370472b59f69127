/**
 * What a user interface shows of a stream, and who wants to know when it changes.
 */
import type { Durability } from "../protocol/frames.ts";
import { type Failure, type LiveState, liveState, type State } from "../core/client-state.ts";

export interface StreamStatus {
  readonly state: LiveState;
  readonly isReconnecting: boolean;
  /** What stands still, while `state` is "stalled". */
  readonly stuck: string | undefined;
  readonly failure: Failure | undefined;
  /** What acknowledged chunks survive; undefined before the first welcome. */
  readonly durability: Durability | undefined;
  /** Chunks that were said and are not acknowledged; once the stream is fenced or lost, they are dead. */
  readonly unacknowledged: number;
}

export class StatusBoard {
  readonly #listeners = new Set<(status: StreamStatus) => void>();
  #told: StreamStatus;
  /** What the stall clocks named last. */
  stuck: string | undefined;

  readonly #onBug: (bug: unknown) => void;

  constructor(state: State, onBug: (bug: unknown) => void) {
    this.#onBug = onBug;
    this.#told = this.read(state);
  }

  watch(listener: (status: StreamStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells everybody, if there is anything new. */
  publish(state: State): void {
    const status = this.read(state);
    if (status.state === this.#told.state && status.stuck === this.#told.stuck) return;
    this.#told = status;
    for (const listener of this.#listeners) this.#tell(listener, status);
  }

  /** A listener that fails is its own affair, not the stream's. */
  #tell(listener: (status: StreamStatus) => void, status: StreamStatus): void {
    try {
      listener(status);
    } catch (bug) {
      this.#onBug(bug);
    }
  }

  read(from: State): StreamStatus {
    const state = liveState(from);
    const stuck = state === "stalled" ? this.stuck : undefined;
    const { failure, durability, outbox } = from;
    const unacknowledged = outbox.next - outbox.acked;
    return { state, isReconnecting: state === "reconnecting", stuck, failure, durability, unacknowledged };
  }
}
