/**
 * Both logs of one stream as one list.
 *
 * The logs have no clock in common; the commits have: what stands in one was durable at one moment.
 * Within a commit chunks come first, since the server hears before it answers. The store writes old parts of
 * a stream once more, without their commits: there a chunk stands as early as it can, and the result of an exec after the
 * request.
 *
 * Neighbouring pieces of text become one entry, or a page of an answer would fill many.
 */
import type { StreamName } from "../core/stream-state.ts";
import { readExec } from "../protocol/exec-codec.ts";
import type { SyncSealer } from "../sealing/index.ts";
import { type LogEntry, nameText, unpackEntries } from "../server/entries.ts";
import { describeChunk, describeEvent, execAnswered, type MessageText } from "./message-text.ts";
import type { ScannedBatch, ScannedLogs } from "./stream-scan.ts";

export interface TimelineEntry extends MessageText {
  readonly log: "chunks" | "events";
  /** Seqnos or event ids, both included. */
  readonly first: number;
  readonly last: number;
  /** When the first of them became durable, by the server's clock; undefined when it is no longer known. */
  readonly timeMs: number | undefined;
}

/** One entry of a log, opened. */
export interface Item extends LogEntry {
  readonly number: number;
  readonly commit: ScannedBatch["commit"];
}

export function timeline(logs: ScannedLogs, name: StreamName, sealer: SyncSealer): readonly TimelineEntry[] {
  const { chunks, events } = openLogs(logs, name, sealer);
  const askedAt = new Map(events.map((event) => [execAsked(event), event.number]));
  const entries: TimelineEntry[] = [];
  let [atChunk, atEvent] = [0, 0];
  for (;;) {
    const chunk = chunks[atChunk];
    const event = events[atEvent];
    if (chunk === undefined && event === undefined) return entries;
    if (chunk !== undefined && (event === undefined || isBefore(chunk, event, askedAt))) {
      add(entries, entryOf("chunks", chunk));
      atChunk++;
    } else if (event !== undefined) {
      add(entries, entryOf("events", event));
      atEvent++;
    }
  }
}

/** Each log by itself, entry by entry. */
export function openLogs(
  logs: ScannedLogs,
  name: StreamName,
  sealer: SyncSealer,
): { readonly chunks: readonly Item[]; readonly events: readonly Item[] } {
  return {
    chunks: logs.chunks.flatMap((batch) => open("chunks", batch, name, sealer)),
    events: logs.events.flatMap((batch) => open("events", batch, name, sealer)),
  };
}

function open(
  direction: TimelineEntry["log"],
  { batch, commit }: ScannedBatch,
  name: StreamName,
  sealer: SyncSealer,
): readonly Item[] {
  const { first, count, sealed } = batch;
  const plain = sealer.open({ stream: nameText(name), direction, first, count, kind: "batch" }, sealed);
  return unpackEntries(plain, count).map(({ mark, body }, at) => ({
    number: first + at,
    commit,
    mark,
    body,
  }));
}

function isBefore(chunk: Item, event: Item, askedAt: ReadonlyMap<string | undefined, number>): boolean {
  if (chunk.commit !== undefined && event.commit !== undefined) return chunk.commit.row <= event.commit.row;
  // What was moved is older than what was not.
  if (chunk.commit !== undefined) return false;
  if (event.commit !== undefined) return true;
  const execId = execAnswered(chunk.body);
  const asked = execId === undefined ? undefined : askedAt.get(execId);
  return asked === undefined || asked < event.number;
}

function execAsked({ body }: Item): string | undefined {
  try {
    return readExec(body)?.execId;
  } catch {
    return undefined;
  }
}

function entryOf(log: TimelineEntry["log"], item: Item): TimelineEntry {
  const { number, commit } = item;
  return { log, first: number, last: number, timeMs: commit?.timeMs, ...textOf(log, item) };
}

function textOf(log: TimelineEntry["log"], { mark, body }: LogEntry): MessageText {
  if (mark === "close") return { kind: "close", text: "the client has said everything" };
  const message = log === "chunks" ? describeChunk(body) : describeEvent(body);
  if (mark === "plain") return message;
  const said = [message.kind, message.text].filter((part) => part !== "" && part !== "empty").join(" ");
  return { kind: "end", text: said === "" ? mark : `${mark} (${said})` };
}

function add(entries: TimelineEntry[], entry: TimelineEntry): void {
  const before = entries.at(-1);
  const isMore = entry.kind === "text" || entry.kind === "thinking";
  if (isMore && before?.kind === entry.kind && before.log === entry.log && before.last + 1 === entry.first) {
    entries[entries.length - 1] = { ...before, last: entry.last, text: before.text + entry.text };
  } else {
    entries.push(entry);
  }
}
