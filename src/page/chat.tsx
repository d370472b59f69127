/**
 * A conversation on the screen: its turns, and how they scroll.
 *
 * New text scrolls only when the person is at the bottom. Elsewhere, what the person reads stays where it is, whatever changes above it. Of a long
 * conversation the turns near what is seen are drawn. The last one is too, and those that a person has touched: what they opened there or write there is kept.
 */
import { type ReactNode, type SyntheticEvent, useCallback, useLayoutEffect, useRef, useState } from "react";
import type { PendingApproval, ShownTurn } from "../react/index.ts";
import { isAtEnd } from "./at-end.ts";
import type { Decide } from "./tool-card.tsx";
import { Turn } from "./turn.tsx";
import { GUESS_PX, type TurnWindow, windowOf } from "./turn-window.ts";

interface ChatProps {
  readonly turns: readonly ShownTurn[];
  readonly approvals: readonly PendingApproval[];
  readonly mayEdit: boolean;
  readonly decide: Decide;
  readonly resend: (turnId: string, text: string) => void;
  /** Where nothing was said yet. */
  readonly children: ReactNode;
}

/** So near to the bottom counts as there. */
const NEAR_PX = 40;
/** Turns that a person has touched, the latest ones. */
const TOUCHED_MAX = 20;
const NONE: readonly PendingApproval[] = [];

export function Chat({ turns, approvals, mayEdit, decide, resend, children }: ChatProps) {
  const [touched, setTouched] = useState<readonly string[]>([]);
  const { box, inner, heights, drawn, isFollowing, scrolled, toBottom } = useWindow(turns);
  const touch = ({ target }: SyntheticEvent): void => {
    const article = target instanceof Element ? target.closest<HTMLElement>("article") : null;
    const id = article?.dataset["turn"];
    if (id === undefined || touched.at(-1) === id) return;
    setTouched([...touched.filter((one) => one !== id), id].slice(-TOUCHED_MAX));
  };

  const last = turns.length - 1;
  const rows: ReactNode[] = [];
  let [gapPx, gapTurns] = [0, 0];
  for (const [at, turn] of turns.entries()) {
    const { id } = turn;
    const isDrawn = (at >= drawn.first && at < drawn.end) || at === last || touched.includes(id);
    if (!isDrawn) {
      gapPx += heights.get(id) ?? GUESS_PX;
      gapTurns++;
      continue;
    }
    if (gapTurns > 0) rows.push(<Gap key={`before ${id}`} px={gapPx} turns={gapTurns} />);
    [gapPx, gapTurns] = [0, 0];
    rows.push(
      <Turn
        key={id}
        turn={turn}
        place={at + 1}
        of={turns.length}
        approvals={at === last ? approvals : NONE}
        mayEdit={mayEdit}
        decide={decide}
        resend={resend}
      />,
    );
  }
  return (
    <main className="chat" ref={box} onScroll={scrolled} tabIndex={0} aria-label="Conversation">
      <div className="column" ref={inner} onClickCapture={touch} onFocusCapture={touch}>
        {turns.length === 0 ? children : rows}
      </div>
      {!isFollowing && (
        <button type="button" className="to-bottom" onClick={toBottom}>
          To the end
        </button>
      )}
    </main>
  );
}

function Gap({ px, turns }: { readonly px: number; readonly turns: number }) {
  return (
    <div className="gap" style={{ height: px }}>
      <p className="aside">{turns} more: scroll here to read them.</p>
    </div>
  );
}

/** What is at the top of what is seen, and where it stands in the column. */
interface Anchor {
  readonly part: Element;
  readonly top: number;
}

/** Which turns are drawn, and where the person is among them. */
function useWindow(turns: readonly ShownTurn[]) {
  const box = useRef<HTMLElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>()).current;
  const place = useRef({ isAtEnd: true, top: 0 });
  const anchor = useRef<Anchor>(undefined);
  const [drawn, setDrawn] = useState<TurnWindow>({ first: 0, end: 0 });
  const [isFollowing, setFollowing] = useState(true);
  const shown = useRef({ turns, drawn });
  shown.current = { turns, drawn };

  /** Where the person is now, and what is to be drawn for it. */
  const look = useCallback(() => {
    const element = box.current;
    if (element === null || inner.current === null) return;
    const { scrollTop: top, clientHeight: height } = element;
    const all = shown.current.turns.map(({ id }) => heights.get(id) ?? GUESS_PX);
    const next = windowOf(all, { top, height, isAtEnd: place.current.isAtEnd });
    const { first, end } = shown.current.drawn;
    if (next.first !== first || next.end !== end) setDrawn(next);
    anchor.current = place.current.isAtEnd ? undefined : anchorIn(element, inner.current);
  }, [heights]);

  /** After the browser has laid out: asking before would have it lay out once more. */
  const settle = useCallback(() => {
    const element = box.current;
    if (element === null || inner.current === null) return;
    for (const turn of turnsIn(inner.current))
      heights.set(turn.dataset["turn"] ?? "", turn.getBoundingClientRect().height);
    if (place.current.isAtEnd) element.scrollTop = element.scrollHeight;
    else if (anchor.current?.part.isConnected === true) {
      const { part, top } = anchor.current;
      element.scrollTop += topIn(inner.current, part) - top;
    }
    look();
  }, [heights, look]);

  useLayoutEffect(settle, [settle, drawn, turns.length]);
  useLayoutEffect(() => {
    if (box.current === null || inner.current === null) return undefined;
    const watcher = new ResizeObserver(settle);
    watcher.observe(box.current);
    watcher.observe(inner.current);
    return () => watcher.disconnect();
  }, [settle]);

  const scrolled = (): void => {
    if (box.current === null) return;
    place.current = { isAtEnd: isAtEnd(box.current, place.current, NEAR_PX), top: box.current.scrollTop };
    setFollowing(place.current.isAtEnd);
    look();
  };
  const toBottom = (): void => {
    place.current = { isAtEnd: true, top: 0 };
    settle();
  };
  return { box, inner, heights, drawn, isFollowing, scrolled, toBottom };
}

function turnsIn(column: HTMLElement): readonly HTMLElement[] {
  return [...column.querySelectorAll<HTMLElement>(":scope > article")];
}

function topIn(column: HTMLElement, part: Element): number {
  return part.getBoundingClientRect().top - column.getBoundingClientRect().top;
}

/** Undefined where nothing that is drawn can be seen. */
function anchorIn(box: HTMLElement, column: HTMLElement): Anchor | undefined {
  const seen = box.getBoundingClientRect();
  const turn = turnsIn(column).find((one) => one.getBoundingClientRect().bottom > seen.top);
  if (turn === undefined || turn.getBoundingClientRect().top >= seen.bottom) return undefined;
  const parts = [turn, ...turn.querySelectorAll(".answer > *, .markdown > *")];
  const part = parts.findLast((one) => one.getBoundingClientRect().top <= seen.top) ?? turn;
  return { part, top: topIn(column, part) };
}
