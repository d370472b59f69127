/**
 * The drawer "try to break it" of `holdfast demo --page`: blows, what should happen, and what did.
 *
 * An ordinary server has neither the drawer nor the routes behind it. What did happen is read from the frames that this tab saw, not from what anybody says.
 */
import { useState } from "react";
import { BASE } from "./session.ts";
import type { StreamLog } from "./stream-log.ts";

interface Blow {
  readonly name: string;
  readonly title: string;
  readonly should: string;
}

const BLOWS: readonly Blow[] = [
  {
    name: "cut",
    title: "Cut the connection",
    should: "It is back within a second, and goes on behind the last event.",
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
      "SIGKILL. It starts again on the same disk. The call to the provider was held beside it: the text goes on.",
  },
  {
    name: "break",
    title: "Break the provider's stream",
    should:
      "The answer is asked for again from its last word, and goes on at the same character. A third break of a step begins it anew.",
  },
];

export const isDemo = (): boolean => document.documentElement.hasAttribute("data-demo");

interface Struck {
  readonly name: string;
  /** Of the log, before the blow. */
  readonly rows: number;
  readonly replayed: number;
}

export function Drawer({ log }: { readonly log: StreamLog }) {
  const [struck, setStruck] = useState<Struck>();
  const isOver = log.facts.end !== undefined;
  const strike = async (name: string): Promise<void> => {
    setStruck({ name, rows: log.omitted + log.rows.length, replayed: log.facts.replayed });
    await fetch(new URL(`demo/${name}`, BASE), { method: "POST" });
  };
  return (
    <details className="drawer">
      <summary>Try to break it</summary>
      {isOver && <p className="hint">This answer is over. Ask for something slow first.</p>}
      <ul>
        {BLOWS.map(({ name, title, should }) => (
          <li key={name}>
            <button type="button" disabled={isOver} onClick={() => void strike(name).catch(() => undefined)}>
              {title}
            </button>
            <p className="hint">{should}</p>
            {struck?.name === name && <p role="status">{didWords(log, struck)}</p>}
          </li>
        ))}
      </ul>
    </details>
  );
}

function didWords({ rows, omitted, facts }: StreamLog, before: Struck): string {
  const { missing, twice, replayed } = facts;
  const mended = before.name === "break" ? "provider" : "connection";
  const mend = rows
    .slice(Math.max(0, before.rows - omitted))
    .find((row) => row.kind === "rule" && row.mends === mended);
  if (mend?.kind !== "rule") return "Waiting for what comes of it.";
  const [what = ""] = mend.text.split(",");
  const count = `${replayed - before.replayed} events replayed, ${missing} missing, ${twice} twice`;
  return `${what.slice(0, 1).toUpperCase()}${what.slice(1)}: ${count}.`;
}
