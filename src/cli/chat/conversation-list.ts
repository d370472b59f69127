/**
 * The conversations of a workspace, as people choose from them: newest first, numbered, by the beginning of their id.
 */
import type { ConversationRecord } from "../../client/index.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { duration, table } from "../terminal.ts";
import { safeLine } from "./safe-text.ts";
import type { Style } from "./style.ts";
import { cutToWidth } from "./text-width.ts";

const ID_CHARS = 8;
const TITLE_CELLS = 60;

export function listLines(
  records: readonly ConversationRecord[],
  nowMs: number,
  style: Style,
): readonly string[] {
  if (records.length === 0) return ["There are no conversations in this workspace yet."];
  const rows = records.map((record, at) => [
    String(at + 1),
    record.conversationId.slice(0, ID_CHARS),
    `${duration(Math.max(0, nowMs - record.updatedMs))} ago`,
    record.turn === undefined ? "" : "cut off",
    titleOf(record),
  ]);
  return table(["#", "id", "last", "turn", "title"], rows, style);
}

export function titleOf({ title }: Pick<ConversationRecord, "title">): string {
  return title === "" ? "(untitled)" : cutToWidth(safeLine(title), TITLE_CELLS);
}

/** The first line of the first message. */
export function titleFrom(text: string): string {
  return cutToWidth((text.trim().split("\n")[0] ?? "").trim(), TITLE_CELLS);
}

/** By number in the list, or by id or the beginning of one. */
export function choose(records: readonly ConversationRecord[], which: string): ConversationRecord {
  const byNumber = /^\d{1,4}$/.test(which) ? records[Number(which) - 1] : undefined;
  const byId = records.filter(({ conversationId }) => which !== "" && conversationId.startsWith(which));
  const [only, second] = byId;
  if (byNumber !== undefined && only === undefined) return byNumber;
  if (only !== undefined && second === undefined) return only;
  const why = second === undefined ? "no conversation" : "more than one conversation";
  throw new HoldfastError(
    "not_found",
    `${why} of this workspace is "${safeLine(which)}"; --list or /list shows them`,
  );
}
