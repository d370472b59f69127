/**
 * The one line that says how things are, instead of banners and dialogs.
 *
 * A screen reader hears the word when it changes, and not the numbers that run beside it.
 */
import { useEffect, useRef, useState } from "react";
import type { ConversationSnapshot } from "../react/index.ts";
import { statusOf } from "./status.ts";

interface StatusLineProps {
  readonly snapshot: ConversationSnapshot;
  readonly takeOver: () => void;
  readonly isStreamOpen: boolean;
  readonly toggleStream: () => void;
}

const TICK_MS = 1_000;

export function StatusLine({ snapshot, takeOver, isStreamOpen, toggleStream }: StatusLineProps) {
  const status = statusOf(snapshot);
  const reconnects = useReconnects(snapshot);
  const seconds = useSeconds(status.word, status.kind === "waiting");
  const { eventId, role, isBusy } = snapshot;
  const [tokensIn, tokensOut] = tokensOf(snapshot.turns);
  return (
    <footer className="status" data-kind={status.kind}>
      <span role="status" aria-live="polite" title={status.detail}>
        <span className="mark" aria-hidden="true">
          {status.mark}
        </span>
        {status.word}
        {status.detail !== "" && <span className="detail">, {status.detail}</span>}
      </span>
      {seconds > 1 && <span className="seconds">{seconds} s</span>}
      {isBusy && eventId > 0 && <span className="event">event {shownCount(eventId)}</span>}
      {reconnects > 0 && (
        <span>
          nothing lost over {reconnects} {reconnects === 1 ? "reconnect" : "reconnects"}
        </span>
      )}
      {isBusy && role === "reader" && (
        <button type="button" className="quiet" onClick={takeOver}>
          Write here
        </button>
      )}
      {tokensIn + tokensOut > 0 && (
        <span className="usage" title="Tokens of the turns of this visit">
          {shownCount(tokensIn)} in · {shownCount(tokensOut)} out
        </span>
      )}
      <button
        type="button"
        className="quiet toggle"
        aria-expanded={isStreamOpen}
        aria-controls="stream"
        onClick={toggleStream}
      >
        Stream <kbd>Alt S</kbd>
      </button>
    </footer>
  );
}

function tokensOf(turns: ConversationSnapshot["turns"]): readonly [number, number] {
  let [input, output] = [0, 0];
  for (const { usage } of turns) {
    if (usage === undefined) continue;
    input += usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens;
    output += usage.outputTokens;
  }
  return [input, output];
}

function shownCount(count: number): string {
  return count.toLocaleString("en");
}

/** How often the answer under way, or the last one, was joined again. */
function useReconnects({ id, turns, connection }: ConversationSnapshot): number {
  const turn = `${id} ${turns.at(-1)?.id ?? ""}`;
  const counted = useRef({ turn, isAway: false, count: 0 });
  const { current } = counted;
  if (current.turn !== turn) counted.current = { turn, isAway: false, count: 0 };
  const isAway = connection?.isReconnecting === true;
  const isBack = current.isAway && !isAway && connection !== undefined;
  const count = counted.current.count + (isBack && current.turn === turn ? 1 : 0);
  useEffect(() => {
    counted.current = { turn, isAway, count };
  });
  return count;
}

/** Seconds since the status has this word; 0 while the page waits for nothing. */
function useSeconds(word: string, isWaiting: boolean): number {
  const [since, setSince] = useState({ word, ms: performance.now() });
  const [now, setNow] = useState(0);
  useEffect(() => {
    setSince({ word, ms: performance.now() });
    if (!isWaiting) return undefined;
    const timer = setInterval(() => setNow(performance.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [word, isWaiting]);
  return isWaiting && since.word === word ? Math.max(0, Math.round((now - since.ms) / 1_000)) : 0;
}
