/**
 * The turn as stretches of time, as this tab saw them: steps of the model, waiting for its first word, tools, times without connection, and breaks at the
 * provider with how each was continued.
 */
import { shownMs, type Span, type StreamLog } from "./stream-log.ts";

const LANES = ["model", "wait", "tool", "break"] as const;
const WORDS = { model: "model", wait: "waits", tool: "tools", break: "breaks" } as const;
/** The latest ones of a long turn. */
const SPANS_MAX = 100;

export function Timeline({ log: { spans, rows } }: { readonly log: StreamLog }) {
  const shown = spans.slice(-SPANS_MAX);
  const beginMs = shown[0]?.fromMs;
  if (beginMs === undefined) return null;
  const endMs = Math.max(beginMs + 1, rows.at(-1)?.atMs ?? 0, ...shown.map(({ toMs }) => toMs ?? 0));
  const share = (ms: number): string => `${(100 * (ms - beginMs)) / (endMs - beginMs)}%`;
  const words = ({ name, fromMs, toMs = endMs }: Span): string =>
    toMs === fromMs ? name : `${name}, ${shownMs(toMs - fromMs)}`;
  return (
    <figure className="timeline">
      <figcaption className="aside">Timeline of the turn: {shown.map(words).join("; ")}</figcaption>
      {LANES.map((lane) => (
        <div key={lane} className="lane" aria-hidden="true">
          <span className="hint">{WORDS[lane]}</span>
          <div>
            {shown
              .filter(({ kind }) => kind === lane)
              .map((span, at) => (
                <i
                  key={at}
                  className={lane}
                  title={words(span)}
                  style={{
                    left: share(span.fromMs),
                    width: `max(2px, calc(${share(span.toMs ?? endMs)} - ${share(span.fromMs)}))`,
                  }}
                />
              ))}
          </div>
        </div>
      ))}
      <span className="hint">{shownMs(endMs - beginMs)}</span>
    </figure>
  );
}
