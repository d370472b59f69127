/**
 * A tool call as a card: what was called, what it says while it runs, how it ended, and a person's yes or no where one is needed.
 *
 * What is asked stands whole in the card, in a box that scrolls by itself, so it cannot push the buttons out of sight.
 */
import { useEffect, useLayoutEffect, useRef } from "react";
import type { PendingApproval } from "../react/index.ts";
import type { ToolView } from "../turn/view.ts";
import { lineDiff } from "./line-diff.ts";
import { plainText } from "./markdown.ts";
import { previewOf } from "./own-tools.ts";

export interface Decide {
  (approval: PendingApproval, answer: "allow" | "deny" | "always"): void;
}

interface ToolCardProps {
  readonly part: ToolView;
  readonly approval: PendingApproval | undefined;
  readonly decide: Decide;
}

const OUTCOMES: Readonly<Record<string, string>> = {
  done: "done",
  denied: "denied",
  failed: "failed",
  unknown: "outcome unknown: it may have run",
};

function outcomeWords({ state, outcome }: Pick<ToolView, "state" | "outcome">): string {
  if (state === "writing") return "being written";
  if (state === "running") return "running";
  return outcome === undefined ? "over" : (OUTCOMES[outcome] ?? outcome.replaceAll("_", " "));
}

export function ToolCard({ part, approval, decide }: ToolCardProps) {
  const words = approval === undefined ? outcomeWords(part) : "waits for you";
  const output = [...part.progress, part.output].join("\n").trim();
  const isWarning = part.state === "over" && part.outcome !== "done";
  return (
    <section
      className="tool"
      aria-label={`Tool ${part.tool}, ${words}`}
      data-state={approval === undefined ? part.state : "asking"}
    >
      <details>
        <summary>
          <code className="name">{plainText(part.tool)}</code>
          <code className="args">{plainText(part.args.replaceAll(/\s+/g, " "))}</code>
          <span className={isWarning ? "outcome warns" : "outcome"}>{words}</span>
        </summary>
        <pre tabIndex={0}>{plainText(pretty(part.args))}</pre>
      </details>
      {approval !== undefined && <Approval approval={approval} decide={decide} />}
      {part.state !== "over" && output !== "" && <LiveOutput text={output} />}
      {part.result !== undefined && part.result !== "" && (
        <pre className="result" tabIndex={0}>
          {plainText(part.result)}
        </pre>
      )}
    </section>
  );
}

/** Follows its end, in a box of one height. */
function LiveOutput({ text }: { readonly text: string }) {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <pre className="live" ref={box} tabIndex={0} aria-label="Output so far">
      {plainText(text)}
    </pre>
  );
}

function Approval({ approval, decide }: { readonly approval: PendingApproval; readonly decide: Decide }) {
  const preview = previewOf(approval.tool, approval.args);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    // The keys A and D work at once, unless the person has begun to write.
    const { activeElement } = document;
    const isWriting = activeElement instanceof HTMLTextAreaElement && activeElement.value !== "";
    if (!isWriting) box.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div className="approval" role="group" tabIndex={-1} ref={box} aria-label={`Allow ${approval.tool}?`}>
      {preview.kind === "diff" ? (
        <>
          <p>
            Changes the note <code>{plainText(preview.name)}</code>
          </p>
          <pre className="asked" tabIndex={0} aria-label="What changes">
            {lineDiff(preview.before, preview.after).map(({ kind, text }, at) => (
              <span key={at} className={CLASSES[kind]}>
                {`${MARKS[kind]} ${plainText(text)}\n`}
              </span>
            ))}
          </pre>
        </>
      ) : (
        <pre className="asked" tabIndex={0} aria-label="Arguments">
          {plainText(preview.text)}
        </pre>
      )}
      <div className="answers">
        <button type="button" className="main" onClick={() => decide(approval, "allow")}>
          Allow <kbd>A</kbd>
        </button>
        <button type="button" onClick={() => decide(approval, "deny")}>
          Deny <kbd>D</kbd>
        </button>
        <button type="button" className="quiet" onClick={() => decide(approval, "always")}>
          Always for {approval.tool}
        </button>
      </div>
    </div>
  );
}

const MARKS = { same: " ", gone: "-", new: "+" } as const;
const CLASSES = { same: "", gone: "gone-line", new: "new" } as const;

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), undefined, 2);
  } catch {
    return json;
  }
}
