/**
 * A conversation in a component: what it is now, and what can be done about it.
 *
 * The conversation lives outside of React: it goes on when no component shows it, and components that show the same one share it.
 */
import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { ConversationSnapshot, LiveConversation, LiveConversations } from "../live/index.ts";

export interface UsedConversation
  extends ConversationSnapshot, Pick<LiveConversation, "send" | "stop" | "decide" | "answer" | "rewind"> {}

export function useConversation(conversations: LiveConversations, id: string): UsedConversation {
  const live = conversations.conversation(id);
  const [watch, read] = useMemo(
    () => [(listener: () => void) => live.watch(listener), () => live.snapshot] as const,
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
    }),
    [live],
  );
  return useMemo(() => ({ ...snapshot, ...actions }), [snapshot, actions]);
}
