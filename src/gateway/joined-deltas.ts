/**
 * A long answer in few pieces: neighbouring text is joined, as it is when a log is read back.
 *
 * A joined delta carries the last one's event, so who reads it has read all of them. Inside of it nobody can begin: those places are named,
 * and who comes back to one of them is told the rest from the log, where everything still is.
 *
 * Invariant: the text is the same; no delta is joined over a border, which is where somebody reads on.
 */
import type { AnswerDelta } from "./openai/index.ts";

/** Events that cannot be gone on from: those after the first number and before the second. */
export interface Inside {
  readonly after: number;
  readonly before: number;
}

export interface JoinedDeltas {
  readonly deltas: readonly AnswerDelta[];
  readonly inside: readonly Inside[];
  /** Where each border is now. */
  readonly places: ReadonlyMap<number, number>;
}

/** What one frame for a client holds at most. */
const JOINED_CHARS_MAX = 64 * 1024;

/** `borders`: indexes of deltas that stay the beginning of one. */
export function joinDeltas(deltas: readonly AnswerDelta[], borders: ReadonlySet<number>): JoinedDeltas {
  const joined: AnswerDelta[] = [];
  const inside: Inside[] = [];
  const places = new Map<number, number>();
  for (const [at, delta] of deltas.entries()) {
    const isBorder = borders.has(at);
    if (isBorder) places.set(at, joined.length);
    const before = joined.at(-1);
    const both = isBorder || before === undefined ? undefined : joinedOf(before, delta);
    if (before === undefined || both === undefined) {
      joined.push(delta);
      continue;
    }
    joined[joined.length - 1] = both;
    const last = inside.at(-1);
    const isSameRun = last !== undefined && last.before === before.eventId;
    if (isSameRun) inside.pop();
    inside.push({ after: isSameRun ? last.after : before.eventId - 1, before: delta.eventId });
  }
  return { deltas: joined, inside, places };
}

/** Undefined when they stay two. */
function joinedOf(a: AnswerDelta, b: AnswerDelta): AnswerDelta | undefined {
  const isText =
    (a.kind === "text" && b.kind === "text") || (a.kind === "reasoning" && b.kind === "reasoning");
  if (!isText || !a.endsEvent || !b.endsEvent) return undefined;
  if (a.text.length + b.text.length > JOINED_CHARS_MAX) return undefined;
  return { ...b, text: a.text + b.text };
}

export function isInside(all: readonly Inside[], eventId: number): boolean {
  return all.some(({ after, before }) => eventId > after && eventId < before);
}
