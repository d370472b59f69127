/**
 * A conversation in a component: what it is now, and what can be done about it.
 *
 * The conversation lives outside of React: it continues when no component shows it, and components that show the same one share it.
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

// Every browser has them; the types of this folder are those of all places where it is compiled.
declare function requestAnimationFrame(act: () => void): number;
declare function cancelAnimationFrame(frame: number): void;

/** A hidden page, which the browser does not draw, renders so often. */
const HIDDEN_MS = 100;

/** Calls back when the browser draws next; returns how to call it off. */
function onNextFrame(act: () => void): () => void {
  const stop = (): void => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
  const run = (): void => {
    stop();
    act();
  };
  const frame = requestAnimationFrame(run);
  const timer = setTimeout(run, HIDDEN_MS);
  return stop;
}

/** Calls the listener at once for the first change, and once a frame for those that follow: more calls would show nothing more, and a busy page would fall behind. */
function paced(watch: (listener: () => void) => () => void): (listener: () => void) => () => void {
  return (listener) => {
    let callOff: (() => void) | undefined;
    let isDue = false;
    const tell = (): void => {
      isDue = callOff !== undefined;
      if (isDue) return;
      callOff = onNextFrame(() => {
        callOff = undefined;
        if (isDue) tell();
      });
      listener();
    };
    const stop = watch(tell);
    return () => {
      callOff?.();
      stop();
    };
  };
}
