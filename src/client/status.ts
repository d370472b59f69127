/**
 * What a user interface shows of a stream, and who wants to know when it changes.
 */
import type { Durability } from "../protocol/frames.ts";
import { type Failure, type LiveState, liveState, type State } from "../core/client-state.ts";
import { stuckNow } from "../core/stall.ts";

export interface StreamStatus {
  readonly state: LiveState;
  readonly isReconnecting: boolean;
  /** What stands still, while `state` is "stalled". */
  readonly stuck: string | undefined;
  /** Why the stream stopped, if not in good order. */
  readonly failure: Failure | undefined;
  /** Found by `resumeAll` and quiet for longer than the window: left as it was, and named in `kept`. */
  readonly isSkipped: boolean;
  /** Why there is no connection, while one is tried for: the server is not there, or it refused. */
  readonly trouble: Failure | undefined;
  /** What acknowledged chunks survive; undefined before the first welcome. */
  readonly durability: Durability | undefined;
  /** Where the log ended at the first welcome; undefined before it. What follows was said since this client attached. */
  readonly headAtWelcome: number | undefined;
  /** Chunks that were said and are not acknowledged; once the stream is fenced or lost, they are dead. */
  readonly unacknowledged: number;
}

export class StatusBoard {
  readonly #listeners = new Set<(status: StreamStatus) => void>();
  #told: StreamStatus;
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
    if (isSame(status, this.#told)) return;
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
    const stuck = state === "stalled" ? stuckNow(from.stall) : undefined;
    const { failure, isSkipped, durability, headAtWelcome, outbox } = from;
    const isReconnecting = state === "reconnecting";
    const trouble = isReconnecting || state === "connecting" ? from.trouble : undefined;
    const unacknowledged = outbox.next - outbox.acked;
    return {
      state,
      isReconnecting,
      stuck,
      failure,
      isSkipped,
      trouble,
      durability,
      headAtWelcome,
      unacknowledged,
    };
  }
}

/** Whether there is nothing new to tell: the same trouble again at every try is no news. */
function isSame(one: StreamStatus, other: StreamStatus): boolean {
  return (
    one.state === other.state &&
    one.stuck === other.stuck &&
    one.trouble?.code === other.trouble?.code &&
    one.trouble?.message === other.trouble?.message
  );
}
