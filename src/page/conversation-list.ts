/**
 * The list of conversations. It is read again when it may have changed: here, in another tab, or while the page was hidden.
 */
import { useCallback, useEffect, useState } from "react";
import type { LiveConversations } from "../react/index.ts";

export interface ListedConversation {
  readonly id: string;
  readonly title: string;
  /** An answer is under way. */
  readonly isRunning: boolean;
}

/** `changes` is anything that differs when the list might. */
export function useConversationList(
  conversations: LiveConversations,
  changes: string,
): readonly ListedConversation[] {
  const [listed, setListed] = useState<readonly ListedConversation[]>([]);
  const read = useCallback(async () => {
    const records = await conversations.list();
    setListed(
      records
        .filter(({ parentId }) => parentId === undefined)
        .map(({ conversationId: id, title, turn }) => ({ id, title, isRunning: turn !== undefined })),
    );
  }, [conversations]);
  useEffect(() => {
    // The conversation itself shows why it cannot be read.
    read().catch(() => undefined);
  }, [read, changes]);
  useEffect(() => {
    const look = (): void => {
      if (document.visibilityState === "visible") read().catch(() => undefined);
    };
    document.addEventListener("visibilitychange", look);
    addEventListener("focus", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      removeEventListener("focus", look);
    };
  }, [read]);
  return listed;
}
