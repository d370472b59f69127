/**
 * The parts of a turn for a person who follows it: what was said and done before this process began, in short, and what comes.
 *
 * Of long texts only the end is shown: the reader was there when they came. Calls that still run stay open, so that what
 * comes live continues where this ends.
 */
import type { Turn, TurnPart, TurnView, ViewPart } from "../../client/index.ts";
import { lastChars } from "../../protocol/characters.ts";
import { partsBetween } from "../../turn/parts.ts";
import { EMPTY_VIEW } from "../../turn/view.ts";

const PARTS_MAX = 8;
const TEXT_CHARS_MAX = 1_500;

export function recentParts(view: TurnView): readonly TurnPart[] {
  const shown = view.parts.slice(-PARTS_MAX).map(shortened);
  const omitted = view.parts.length - shown.length;
  const text = `… ${omitted} earlier parts of this turn …\n`;
  const note: readonly ViewPart[] =
    omitted === 0 ? [] : [{ type: "thinking", step: view.step, text, durationMs: 0 }];
  return partsBetween(EMPTY_VIEW, {
    ...view,
    parts: [...note, ...shown],
    restarts: 0,
    attempt: 0,
    todos: [],
    summary: undefined,
  });
}

/** Calls back with the parts of each event from now on; returns how to stop. */
export function watchParts(turn: Turn, onParts: (parts: readonly TurnPart[]) => void): () => void {
  // Before the first event there is only what the user said: it is shown with that event.
  let view = turn.view.eventId === 0 ? EMPTY_VIEW : turn.view;
  return turn.watch((next, heard) => {
    const parts = partsBetween(view, next, heard?.message);
    view = next;
    onParts(parts);
  });
}

function shortened(part: ViewPart): ViewPart {
  if (part.type === "user") return part;
  if (part.type !== "tool") return { ...part, text: ending(part.text) };
  return { ...part, output: ending(part.output), outputOmitted: 0 };
}

function ending(text: string): string {
  return lastChars(text, TEXT_CHARS_MAX, "… ");
}
