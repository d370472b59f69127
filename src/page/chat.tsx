/**
 * A conversation on the screen: its turns, and how they scroll.
 *
 * New text scrolls only when the person is at the bottom. Of a long conversation the last turns are drawn, and older ones when a person scrolls up to them;
 * the text that is read stays where it is.
 */
import { type ReactNode, useCallback, useLayoutEffect, useRef, useState } from "react";
import type { PendingApproval, ShownTurn } from "../react/index.ts";
import { isAtEnd } from "./at-end.ts";
import type { Decide } from "./tool-card.tsx";
import { Turn } from "./turn.tsx";

interface ChatProps {
  readonly turns: readonly ShownTurn[];
  readonly approvals: readonly PendingApproval[];
  readonly mayEdit: boolean;
  readonly decide: Decide;
  readonly resend: (turnId: string, text: string) => void;
  /** Where nothing was said yet. */
  readonly children: ReactNode;
}

/** Turns that are drawn at first, and more each time that a person comes to the oldest. */
const TURNS_DRAWN = 30;
/** So near to the bottom counts as there. */
const NEAR_PX = 40;
const NONE: readonly PendingApproval[] = [];

export function Chat({ turns, approvals, mayEdit, decide, resend, children }: ChatProps) {
  const box = useRef<HTMLElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const place = useRef({ isAtEnd: true, top: 0 });
  const heightBefore = useRef<number>(undefined);
  const [drawn, setDrawn] = useState(TURNS_DRAWN);
  const [isFollowing, setFollowing] = useState(true);
  const older = Math.max(0, turns.length - drawn);

  const toBottom = useCallback(() => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, []);

  const scrolled = (): void => {
    const element = box.current;
    if (element === null) return;
    const { scrollTop, scrollHeight, clientHeight } = element;
    place.current = { isAtEnd: isAtEnd(element, place.current, NEAR_PX), top: scrollTop };
    setFollowing(place.current.isAtEnd);
    if (scrollTop < clientHeight && older > 0 && heightBefore.current === undefined) {
      heightBefore.current = scrollHeight;
      setDrawn(drawn + TURNS_DRAWN);
    }
  };

  useLayoutEffect(() => {
    const element = box.current;
    const before = heightBefore.current;
    if (element === null || before === undefined) return;
    heightBefore.current = undefined;
    element.scrollTop += element.scrollHeight - before;
  }, [drawn]);

  // Whatever makes the text higher, whoever stands at its end stays there.
  useLayoutEffect(() => {
    if (inner.current === null) return undefined;
    const watcher = new ResizeObserver(() => {
      if (place.current.isAtEnd) toBottom();
    });
    watcher.observe(inner.current);
    return () => watcher.disconnect();
  }, [toBottom]);

  const last = turns.length - 1;
  return (
    <main className="chat" ref={box} onScroll={scrolled} tabIndex={-1} aria-label="Conversation">
      <div className="column" ref={inner}>
        {turns.length === 0 && children}
        {older > 0 && <p className="hint">{older} earlier messages: scroll up.</p>}
        {turns.slice(older).map((turn, at) => (
          <Turn
            key={turn.id}
            turn={turn}
            approvals={at + older === last ? approvals : NONE}
            mayEdit={mayEdit}
            decide={decide}
            resend={resend}
          />
        ))}
      </div>
      {!isFollowing && (
        <button type="button" className="to-bottom" onClick={toBottom}>
          To the end
        </button>
      )}
    </main>
  );
}
