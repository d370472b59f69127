/**
 * The status line in words: how the stream under way is, and what became of it.
 *
 * The status is one short sentence, the same for as long as nothing changes, because a screen reader reads it aloud. Numbers that run are beside it.
 */
import type { ConversationSnapshot } from "../react/index.ts";

interface Status {
  /** A word for the style. */
  readonly kind: "ready" | "live" | "waiting" | "stalled" | "degraded" | "ended" | "trouble";
  readonly mark: string;
  readonly word: string;
  /** Why, or on what; empty when there is nothing to say. */
  readonly detail: string;
}

export type Watched = Pick<
  ConversationSnapshot,
  "isBusy" | "connection" | "role" | "error" | "isLoading" | "turns" | "approvals" | "questions"
>;

export function statusOf({
  isBusy,
  connection,
  role,
  error,
  isLoading,
  turns,
  approvals,
  questions,
}: Watched): Status {
  if (error !== undefined) return { kind: "trouble", mark: "◍", word: "trouble", detail: error.message };
  if (isLoading) return { kind: "waiting", mark: "◌", word: "opening", detail: "" };
  if (!isBusy) return afterwards(turns.at(-1)?.end);
  const follows = role === "reader" ? "another tab writes" : "";
  const waits = approvals.length + questions.length > 0 ? "waits for you" : follows;
  switch (connection?.state) {
    case "live":
    // It has ended at the server, and this browser keeps what came last of it.
    case "ended":
      return { kind: "live", mark: "●", word: "live", detail: waits };
    case "degraded":
      return {
        kind: "degraded",
        mark: "◑",
        word: "degraded",
        detail: "the server cannot store this answer; it continues without a copy",
      };
    case "stalled":
      return { kind: "stalled", mark: "◍", word: "stalled", detail: connection.stuck ?? "" };
    case "reconnecting":
      return { kind: "waiting", mark: "◌", word: "reconnecting", detail: connection.trouble?.message ?? "" };
    case "connecting":
    case undefined:
      return { kind: "waiting", mark: "◌", word: "connecting", detail: connection?.trouble?.message ?? "" };
    case "fenced":
      return {
        kind: "trouble",
        mark: "◍",
        word: "taken over",
        detail: "another browser writes to this answer",
      };
  }
}

function afterwards(end: Watched["turns"][number]["end"]): Status {
  if (end === undefined) return { kind: "ready", mark: "●", word: "ready", detail: "" };
  const detail = end.reason === "completed" ? "" : ENDS[end.reason];
  return { kind: "ended", mark: "■", word: "ended", detail };
}

const ENDS = {
  aborted: "stopped",
  failed: "the answer failed; what came of it is kept",
  lost: "the server has lost this answer; what came of it is kept",
  left: "the turn continues at the server",
} as const;
