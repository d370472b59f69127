/**
 * What a user interface shows of a stream, and who wants to know when it changes.
 */
import { type Failure, type LiveState, liveState, type State } from "../core/client-state.ts";

export interface StreamStatus {
  readonly state: LiveState;
  readonly isReconnecting: boolean;
  /** What stands still, while `state` is "stalled". */
  readonly stuck: string | undefined;
  readonly failure: Failure | undefined;
}

export class StatusBoard {
  readonly #listeners = new Set<(status: StreamStatus) => void>();
  #status: StreamStatus;
  /** What the stall clocks named last. */
  stuck: string | undefined;

  readonly #onBug: (bug: unknown) => void;

  constructor(state: State, onBug: (bug: unknown) => void) {
    this.#onBug = onBug;
    this.#status = this.#read(state);
  }

  get status(): StreamStatus {
    return this.#status;
  }

  watch(listener: (status: StreamStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells everybody, if there is anything new. */
  publish(state: State): void {
    const status = this.#read(state);
    if (status.state === this.#status.state && status.stuck === this.#status.stuck) return;
    this.#status = status;
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

  #read(from: State): StreamStatus {
    const state = liveState(from);
    const stuck = state === "stalled" ? this.stuck : undefined;
    return { state, isReconnecting: state === "reconnecting", stuck, failure: from.failure };
  }
}
