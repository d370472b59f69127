/**
 * The drawer "try to break it" of `holdfast demo --page`: blows, what should happen, and what did.
 *
 * An ordinary server has neither the drawer nor the routes behind it. What did happen is read from the frames that this tab saw, not from what anybody says.
 */
import { useState } from "react";
import { BASE } from "./session.ts";
import type { Facts, StreamLog } from "./stream-log.ts";

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
      "SIGKILL. It starts again on the same disk; the step under way begins anew, and nothing is there twice.",
  },
];

export const isDemo = (): boolean => document.documentElement.hasAttribute("data-demo");

interface Struck {
  readonly name: string;
  readonly reconnects: number;
}

export function Drawer({ log }: { readonly log: StreamLog }) {
  const [struck, setStruck] = useState<Struck>();
  const { facts, rows } = log;
  const isOver = facts.end !== undefined;
  const strike = async (name: string): Promise<void> => {
    setStruck({ name, reconnects: facts.reconnects });
    await fetch(new URL(`demo/${name}`, BASE), { method: "POST" });
  };
  const back = rows.findLast((row) => row.kind === "rule" && row.text.startsWith("back after"));
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
            {struck?.name === name && (
              <p role="status">{didWords(facts, struck, back?.kind === "rule" ? back.text : "")}</p>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}

function didWords({ reconnects, events, missing, twice }: Facts, before: Struck, back: string): string {
  if (reconnects <= before.reconnects) return "Waiting for the connection to come back.";
  const [when = ""] = back.split(",");
  return `It came ${when}: ${events} events, ${missing} missing, ${twice} twice.`;
}
