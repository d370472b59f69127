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

export function statusBoard(state: State, onBug: (bug: unknown) => void) {
  const listeners = new Set<(status: StreamStatus) => void>();

  function read(from: State): StreamStatus {
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

  let told = read(state);
  return {
    watch(listener: (status: StreamStatus) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Tells every listener, if there is anything new. */
    publish(state: State): void {
      const status = read(state);
      if (isSame(status, told)) return;
      told = status;
      for (const listener of listeners) {
        try {
          listener(status);
        } catch (bug) {
          // A listener that fails is its own affair, not the stream's.
          onBug(bug);
        }
      }
    },
    read,
  };
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
