/**
 * A stream in a component: its events folded into a state.
 */
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { type Fold, type LiveConversations, LiveStream, type StreamSnapshot } from "../live/index.ts";

export interface UsedStream<State> extends StreamSnapshot<State> {
  /** Stops what the stream does, for good. */
  abort(): Promise<void>;
}

/** `fold` and `initial` are those of the first call for a stream. */
export function useStream<State>(
  conversations: LiveConversations,
  idempotencyKey: string,
  fold: Fold<State>,
  initial: State,
): UsedStream<State> {
  // Another fold is not another stream.
  const made = useMemo(() => {
    let live = new LiveStream(initial);
    const listeners = new Set<() => void>();
    return {
      watch: (listener: () => void) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
      read: () => live.snapshot,
      abort: () => live.abort(),
      follow: () => {
        live = new LiveStream(initial);
        live.watch(() => {
          for (const listener of listeners) listener();
        });
        void live.follow(conversations, idempotencyKey, fold);
        return () => live.leave();
      },
    };
  }, [conversations, idempotencyKey]);
  const snapshot = useSyncExternalStore(made.watch, made.read, made.read);
  useEffect(() => made.follow(), [made]);
  return useMemo(() => ({ ...snapshot, abort: made.abort }), [snapshot, made]);
}
