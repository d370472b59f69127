/**
 * A conversation in a component: what it is now, and what can be done about it.
 *
 * The conversation lives outside of React: it goes on when no component shows it, and components that show the same one share it.
 */
import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { ConversationSnapshot, LiveConversation, LiveConversations } from "../live/index.ts";

export interface UsedConversation
  extends
    ConversationSnapshot,
    Pick<LiveConversation, "send" | "stop" | "decide" | "answer" | "rewind" | "takeOver"> {}

export function useConversation(conversations: LiveConversations, id: string): UsedConversation {
  const live = conversations.conversation(id);
  const [watch, read] = useMemo(
    () => [paced((listener) => live.watch(listener)), () => live.snapshot] as const,
    [live],
  );
  const snapshot = useSyncExternalStore(watch, read, read);
  useEffect(() => {
    // What goes wrong is in the snapshot.
    live.load().catch(() => undefined);
  }, [live]);
  const actions = useMemo(
    () => ({
      send: live.send.bind(live),
      stop: live.stop.bind(live),
      decide: live.decide.bind(live),
      answer: live.answer.bind(live),
      rewind: live.rewind.bind(live),
      takeOver: live.takeOver.bind(live),
    }),
    [live],
  );
  return useMemo(() => ({ ...snapshot, ...actions }), [snapshot, actions]);
}

/** Once in a frame is as often as anybody sees. */
const FRAME_MS = 16;

/** The first change is told at once, and what follows it within a frame is told together. */
function paced(watch: (listener: () => void) => () => void): (listener: () => void) => () => void {
  return (listener) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isDue = false;
    const tell = (): void => {
      isDue = timer !== undefined;
      if (isDue) return;
      timer = setTimeout(() => {
        timer = undefined;
        if (isDue) tell();
      }, FRAME_MS);
      listener();
    };
    const stop = watch(tell);
    return () => {
      clearTimeout(timer);
      stop();
    };
  };
}
