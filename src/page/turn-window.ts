/**
 * Which turns of a long conversation are drawn: those near what a person sees. The others are gaps of the height that they had when they were drawn last, or
 * of a guess, so the scroll bar is that of the whole conversation.
 *
 * Invariant: a turn that can be seen is drawn.
 */

/** Of the box that scrolls. */
export interface Seen {
  readonly top: number;
  readonly height: number;
  /** Whatever grows, the end is seen. */
  readonly isAtEnd: boolean;
}

/** From `first` up to but not including `end`, which may be behind the last turn. */
export interface TurnWindow {
  readonly first: number;
  readonly end: number;
}

/** Of a turn that was never drawn. */
export const GUESS_PX = 200;
/** Turns are drawn by so many, so that the window changes seldom. A conversation of no more has no gaps. */
const TOGETHER = 8;

/** What is seen, and one screen more on either side. */
export function windowOf(heights: readonly number[], { top, height, isAtEnd }: Seen): TurnWindow {
  const total = heights.reduce((sum, px) => sum + px, 0);
  const seenTop = isAtEnd ? total - height : top;
  let [first, end, below] = [0, 0, 0];
  for (const px of heights) {
    if (below >= seenTop + 2 * height) break;
    below += px;
    end++;
    if (below < seenTop - height) first++;
  }
  return { first: first - (first % TOGETHER), end: Math.ceil(end / TOGETHER) * TOGETHER };
}
