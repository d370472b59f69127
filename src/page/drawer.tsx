/**
 * The drawer "try to break it" of `holdfast demo --page`: blows, what should happen, and what did.
 *
 * An ordinary server has neither the drawer nor the routes behind it. What did happen is read from the frames that this tab saw.
 */
import { useState } from "react";
import { BASE } from "./session.ts";
import { type Row, type RuleRow, shownMs, type StreamLog } from "./stream-log.ts";

interface Blow {
  readonly name: string;
  readonly title: string;
  readonly should: string;
}

const BLOWS: readonly Blow[] = [
  {
    name: "cut",
    title: "Cut the connection",
    should: "The connection is back within a second, and the answer continues behind the last event.",
  },
  {
    name: "silence",
    title: "Lose everything for 10 s",
    should: "Nothing arrives. Then the connection is made anew, and what was missed is replayed.",
  },
  {
    name: "kill",
    title: "Kill the server",
    should:
      "SIGKILL. It starts again on the same disk. The line beside it held the call to the provider: the text continues.",
  },
  {
    name: "break",
    title: "Break the provider's stream",
    should:
      "The server asks the provider for the rest from the last word, and the text continues at the same character. After a third break the step begins anew.",
  },
];

export const isDemo = (): boolean => document.documentElement.hasAttribute("data-demo");

interface Struck {
  readonly name: string;
  /** Of the log, before the blow. */
  readonly rows: number;
}

export function Drawer({ log }: { readonly log: StreamLog }) {
  /** The last of each kind. */
  const [struck, setStruck] = useState<ReadonlyMap<string, Struck>>(new Map());
  const isOver = log.facts.end !== undefined;
  const strike = async (name: string): Promise<void> => {
    const before = { name, rows: log.omitted + log.rows.length };
    setStruck((all) => new Map(all).set(name, before));
    await fetch(new URL(`demo/${name}`, BASE), { method: "POST" });
  };
  return (
    <details className="drawer">
      <summary>Try to break it</summary>
      {isOver && <p className="hint">This answer is over. Ask for something slow first.</p>}
      <ul>
        {BLOWS.map(({ name, title, should }) => {
          const before = struck.get(name);
          return (
            <li key={name}>
              <button
                type="button"
                disabled={isOver}
                onClick={() => void strike(name).catch(() => undefined)}
              >
                {title}
              </button>
              <p className="hint">{should}</p>
              {before !== undefined && (
                <p className="did" role="status">
                  {didWords(log, before)}
                </p>
              )}
            </li>
          );
        })}
      </ul>
    </details>
  );
}

function didWords({ rows, omitted, facts }: StreamLog, { name, rows: before }: Struck): string {
  const from = Math.max(0, before - omitted);
  const mended = name === "break" ? "provider" : "connection";
  const at = rows.findIndex((row, place) => place >= from && isMend(row, mended));
  const mend = rows[at];
  if (mend?.kind !== "rule") return "Waiting for what comes of it.";
  const proof = `${facts.missing} missing, ${facts.twice} twice`;
  if (mended === "provider") return `${capital(mend.text)}: ${proof}.`;
  const last = rows.slice(0, at).findLast((row) => row.kind === "event");
  const next = rows.findIndex((row, place) => place > at && isMend(row, mended));
  const replayed = rows
    .slice(at, next === -1 ? undefined : next)
    .reduce((sum, row) => sum + replaysIn(row), 0);
  const silence = shownMs(mend.atMs - (last?.atMs ?? mend.atMs));
  const events = replayed === 1 ? "event" : "events";
  return `Nothing came for ${silence}. Then it was back: ${replayed} ${events} replayed, ${proof}.`;
}

function isMend(row: Row, what: RuleRow["mends"]): boolean {
  return row.kind === "rule" && row.mends === what;
}

function replaysIn(row: Row): number {
  return row.kind === "event" && row.isReplay ? row.untilId - row.eventId + 1 : 0;
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
