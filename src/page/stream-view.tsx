/**
 * Both logs of the stream under way, side by side: for a person who doubts.
 *
 * Chunks stand at the left, events at the right, one row for each; cuts and returns are rules across both. Only the rows that can be seen are drawn, whatever
 * their number. A view that shows the end follows it until the person scrolls up or pauses.
 */
import { isAtEnd } from "./at-end.ts";
import { type KeyboardEvent, useLayoutEffect, useRef, useState } from "react";
import { firstChars } from "../protocol/characters.ts";
import { Drawer, isDemo } from "./drawer.tsx";
import { plainText } from "./markdown.ts";
import { decoded, decodedChunk, type Row, shownMs, type StreamLog } from "./stream-log.ts";
import { type StreamLogs, useStreamLog } from "./stream-logs.ts";
import { Timeline } from "./timeline.tsx";

interface StreamViewProps {
  readonly logs: StreamLogs;
  /** Of the stream; empty while there is none. */
  readonly name: string;
  readonly close: () => void;
}

const FILTERS = {
  all: ({ kind }: Row) => kind !== "pulse",
  chunks: ({ kind }: Row) => kind === "chunk",
  events: ({ kind }: Row) => kind === "event",
  breaks: ({ kind }: Row) => kind === "rule",
  "all and heartbeats": () => true,
} as const;
type Filter = keyof typeof FILTERS;
const FILTER_NAMES = ["all", "chunks", "events", "breaks", "all and heartbeats"] as const;

export function StreamView({ logs, name, close }: StreamViewProps) {
  const log = useStreamLog(logs, name);
  const [filter, setFilter] = useState<Filter>("all");
  /** The rows as they were when the person paused. */
  const [paused, setPaused] = useState<readonly Row[]>();
  const [picked, setPicked] = useState<Row>();
  const rows = paused ?? log?.rows.filter(FILTERS[filter]) ?? [];
  return (
    <aside className="stream" id="stream" aria-label="Stream">
      <header>
        <h2>Stream</h2>
        <code title={name}>{name === "" ? "none yet" : name.slice(0, 8)}</code>
        <button type="button" className="quiet" onClick={close}>
          Close
        </button>
      </header>
      {log === undefined ? (
        <p className="hint">
          Both logs of the next answer will stand here. One of an earlier visit was not seen by this tab.
        </p>
      ) : (
        <>
          <FactList log={log} />
          <Timeline log={log} />
          <div className="tools">
            <select
              aria-label="Show"
              value={filter}
              onChange={({ target }) => {
                setFilter(FILTER_NAMES.find((one) => one === target.value) ?? "all");
                setPaused(undefined);
              }}
            >
              {FILTER_NAMES.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
            <button
              type="button"
              aria-pressed={paused !== undefined}
              onClick={() => setPaused(paused === undefined ? [...rows] : undefined)}
            >
              {paused === undefined ? "Pause" : "Go on"}
            </button>
            <span className="hint">{rows.length.toLocaleString("en")} rows</span>
          </div>
          <div className="lanes" aria-hidden="true">
            <span>chunks</span>
            <span>events</span>
          </div>
          <Rows rows={rows} picked={picked} pick={setPicked} />
          {isDemo() && <Drawer log={log} />}
          {picked !== undefined && <Entry row={picked} close={() => setPicked(undefined)} />}
        </>
      )}
    </aside>
  );
}

function FactList({ log: { facts } }: { readonly log: StreamLog }) {
  const { events, chunks, acked, bytesIn, bytesOut, reconnects, epoch, durability, lagMs } = facts;
  const all: readonly (readonly [string, string])[] = [
    ["events", events.toLocaleString("en")],
    ["chunks", `${chunks}, ${acked} acked`],
    ["epoch", epoch === undefined ? "none" : String(epoch)],
    ["durability", durability ?? "none"],
    ["ack after", lagMs === undefined ? "none" : shownMs(lagMs)],
    ["reconnects", String(reconnects)],
    ["in, out", `${shownBytes(bytesIn)}, ${shownBytes(bytesOut)}`],
  ];
  return (
    <dl className="facts">
      {all.map(([title, text]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

function shownBytes(bytes: number): string {
  return bytes < 10_000 ? `${bytes} B` : `${Math.round(bytes / 1_000).toLocaleString("en")} kB`;
}

const ROW_PX = 22;
/** Rows beyond what can be seen, so that scrolling meets no gap. */
const SPARE = 12;
const optionId = (at: number): string => `entry-${at}`;

interface RowsProps {
  readonly rows: readonly Row[];
  readonly picked: Row | undefined;
  readonly pick: (row: Row | undefined) => void;
}

function Rows({ rows, picked, pick }: RowsProps) {
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const place = useRef({ isAtEnd: true, top: 0 });
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(300);
  // The observer reports the sizes of the box and its content after the browser's layout. Asking for them at each row would lay the whole page out once more.
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || inner.current === null) return undefined;
    const watcher = new ResizeObserver(() => {
      setHeight(element.clientHeight);
      if (place.current.isAtEnd) element.scrollTop = element.scrollHeight;
    });
    watcher.observe(element);
    watcher.observe(inner.current);
    return () => watcher.disconnect();
  }, []);
  const count = Math.ceil(height / ROW_PX) + 2 * SPARE;
  // A list that has become shorter is drawn from its end, before the browser has scrolled there.
  const first = Math.max(0, Math.min(Math.floor(top / ROW_PX) - SPARE, rows.length - count));
  const drawn = rows.slice(first, first + count);
  const pickedAt = picked === undefined ? -1 : rows.indexOf(picked);
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || rows.length === 0) return;
    event.preventDefault();
    const at = picked === undefined ? rows.length - 1 : pickedAt + step;
    const next = Math.min(rows.length - 1, Math.max(0, at));
    pick(rows[next]);
    place.current.isAtEnd = false;
  };
  // The entry that is shown below takes room from the list.
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || pickedAt === -1) return;
    const rowTop = pickedAt * ROW_PX;
    if (rowTop < element.scrollTop) element.scrollTop = rowTop;
    if (rowTop + ROW_PX > element.scrollTop + height) element.scrollTop = rowTop + ROW_PX - height;
  }, [pickedAt, height]);
  return (
    <div
      className="rows"
      ref={box}
      role="listbox"
      aria-label="Entries"
      tabIndex={0}
      aria-activedescendant={pickedAt < first || pickedAt >= first + count ? undefined : optionId(pickedAt)}
      onKeyDown={move}
      onScroll={({ currentTarget }) => {
        const { scrollTop } = currentTarget;
        place.current = { isAtEnd: isAtEnd(currentTarget, place.current, ROW_PX), top: scrollTop };
        setTop(scrollTop);
      }}
    >
      <div className="all" ref={inner} style={{ height: rows.length * ROW_PX }}>
        {drawn.map((row, at) => (
          <div
            key={first + at}
            id={optionId(first + at)}
            role="option"
            aria-setsize={rows.length}
            aria-posinset={first + at + 1}
            aria-selected={row === picked}
            className={`row ${row.kind}${row.kind === "event" && row.isReplay ? " replay" : ""}${row.kind === "rule" && row.isBreak ? " cut" : ""}`}
            style={{ top: (first + at) * ROW_PX }}
            onMouseEnter={({ currentTarget }) => {
              // Decoded when it is looked at, and not for each row that is drawn.
              currentTarget.title = plainText(firstChars(entryText(row), TITLE_CHARS_MAX));
            }}
            onClick={() => {
              place.current.isAtEnd = false;
              pick(row);
            }}
          >
            <RowText row={row} />
          </div>
        ))}
      </div>
    </div>
  );
}

function RowText({ row }: { readonly row: Row }) {
  switch (row.kind) {
    case "chunk": {
      const tick = row.ackMs === undefined ? "…" : "✓";
      return (
        <span className="left">
          <b>{row.seqno}</b> {tick} {row.name}
          {row.times > 1 && " again"}
        </span>
      );
    }
    case "event": {
      const count = row.untilId - row.eventId + 1;
      return (
        <span className="right">
          <b>{count > 1 ? `${row.eventId} to ${row.untilId}` : row.eventId}</b>{" "}
          {count > 1 ? `${count} replayed` : plainText(row.name)}
        </span>
      );
    }
    case "pulse":
      return <span className={row.from === "client" ? "left" : "right"}>heartbeat</span>;
    case "rule":
      return <span className="across">{row.text}</span>;
  }
}

/** So much of an entry is shown. */
const ENTRY_CHARS_MAX = 4_000;
/** And so much where the mouse is. */
const TITLE_CHARS_MAX = 600;

function Entry({ row, close }: { readonly row: Row; readonly close: () => void }) {
  const text = entryText(row);
  return (
    <section className="entry" aria-label="Entry">
      <button type="button" className="quiet" onClick={close}>
        Close
      </button>
      <pre tabIndex={0}>{plainText(firstChars(text, ENTRY_CHARS_MAX))}</pre>
    </section>
  );
}

function entryText(row: Row): string {
  switch (row.kind) {
    case "chunk": {
      const ack = row.ackMs === undefined ? "not acknowledged" : `acknowledged after ${shownMs(row.ackMs)}`;
      const times = row.times === 1 ? "once" : `${row.times} times`;
      const body = inJson(decodedChunk(row.body)?.message);
      return `chunk ${row.seqno}, ${row.name}, ${row.bytes} bytes\n${ack}, sent ${times}\n${body}`;
    }
    case "event": {
      const body = inJson(decoded(row.body)?.message);
      return `event ${row.untilId}, ${row.name}, ${row.bytes} bytes${row.isReplay ? ", replayed" : ""}\n${body}`;
    }
    case "pulse":
      return `heartbeat of the ${row.from}`;
    case "rule":
      return row.text;
  }
}

function inJson(message: object | undefined): string {
  const told = (key: string, value: unknown): unknown => (key === "$typeName" ? undefined : shown(value));
  return message === undefined ? "" : JSON.stringify(message, told, 2);
}

function shown(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  return value instanceof Uint8Array ? `${value.length} bytes` : value;
}
