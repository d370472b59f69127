/**
 * `holdfast inspect`: what is in a data directory.
 *
 * Without a key it tells names, lives and sizes; with the stream's key, or the home key that it is
 * derived from, what was said. A home key that is kept on this machine is found without being named. It reads one snapshot of the database and changes nothing, so it may be used
 * while a server runs, or on a copy. Keys are never printed (E4).
 */
import { firstChars } from "../protocol/characters.ts";
import { DEFAULTS as RETENTION, retentionLeftMs } from "../core/retention.ts";
import { shellWord } from "../protocol/shell-word.ts";
import { nodeSealing } from "../sealing/node.ts";
import { openSqliteReadOnly, type TableStore } from "../store/index.ts";
import { commandsOn } from "./commands-on.ts";
import { inspectedDatabase } from "./database-path.ts";
import { failure, usageError } from "../node/failures.ts";
import { type DataFlags, type ResolvedSettings, resolveSettings } from "./settings.ts";
import { type KeyFlags, type SaidKey, saidKey, streamKeyOf } from "./stream-key.ts";
import { type Rows, type Scan, scanLogs, type ScannedStream, scanStreams } from "./stream-scan.ts";
import {
  duration,
  fileSize,
  minute,
  type Surroundings,
  table,
  type Terminal,
  terminal,
  visible,
} from "./terminal.ts";
import { timeline, type TimelineEntry } from "./timeline.ts";

export interface InspectFlags extends DataFlags, KeyFlags {
  readonly stream?: string;
  readonly principal?: string;
}

/** Longer texts are cut on the screen; --json has them whole. */
const TEXT_CHARS_MAX = 200;

/** As wide as a time. */
const UNKNOWN_TIME = "--:--:--.---";

export async function inspect(flags: InspectFlags, surroundings: Surroundings): Promise<void> {
  const settings = resolveSettings(flags, surroundings);
  const path = inspectedDatabase(flags, settings);
  const said = saidKey(flags, surroundings);
  const database = await openSqliteReadOnly(path, surroundings);
  try {
    const scan = await scanStreams(database.log);
    if (flags.stream === undefined) showList(scan, flags, settings, surroundings);
    else await showStream(database, pick(scan, flags.stream, flags.principal), said, flags, surroundings);
    if (scan.damage !== undefined) {
      throw failure(`a server would not start on this directory: ${scan.damage}; restore it from a backup`);
    }
  } finally {
    await database.close();
  }
}

function pick({ streams }: Scan, idempotencyKey: string, principal: string | undefined): ScannedStream {
  const found = streams.filter(
    ({ name }) =>
      name.idempotencyKey === idempotencyKey && (principal === undefined || name.principal === principal),
  );
  const [stream, another] = found;
  if (stream === undefined)
    throw failure(`there is no stream "${visible(idempotencyKey)}" in this directory`);
  if (another === undefined) return stream;
  const principals = found.map(({ name }) => visible(name.principal)).join(", ");
  throw usageError(`several principals have a stream of this name; choose with --principal: ${principals}`);
}

function lifeOf({ view }: ScannedStream): string {
  if (view.kind === "gone") return "gone";
  return view.state.end ?? (view.state.aborted ? "aborting" : "open");
}

type StreamSummary = ReturnType<typeof summaryOf>;

/** One stream as data; also what the table shows. */
function summaryOf(stream: ScannedStream, retentionMs: number, nowMs: number) {
  const { name, view, bytes } = stream;
  const base = {
    principal: name.principal,
    idempotencyKey: name.idempotencyKey,
    life: lifeOf(stream),
    bytes,
  };
  if (view.kind === "gone") {
    return {
      ...base,
      chunks: 0,
      events: 0,
      writerEpoch: 0,
      hostEpoch: 0,
      activityMs: view.goneMs,
      retentionLeftMs: 0,
    };
  }
  const { state } = view;
  return {
    ...base,
    chunks: state.nextSeqno,
    events: state.eventHead,
    writerEpoch: state.writerEpoch,
    hostEpoch: state.hostEpoch,
    activityMs: state.activityMs,
    retentionLeftMs: retentionLeftMs({ ...RETENTION, retentionMs }, state.activityMs, nowMs),
  };
}

function jsonOf({ activityMs, ...summary }: StreamSummary): object {
  return { ...summary, lastActivity: new Date(activityMs).toISOString() };
}

function showList(
  scan: Scan,
  flags: InspectFlags,
  settings: ResolvedSettings,
  surroundings: Surroundings,
): void {
  const term = terminal(surroundings);
  const summaries = scan.streams
    .filter(({ name }) => flags.principal === undefined || name.principal === flags.principal)
    .map((stream) => summaryOf(stream, settings.retentionMs, surroundings.now()))
    .toSorted((a, b) => b.activityMs - a.activityMs);
  if (flags.json === true) return term.print(JSON.stringify(summaries.map(jsonOf)));
  if (summaries.length === 0) return term.note(`There are no streams in ${settings.dataDir}.`);
  const head = [
    "PRINCIPAL",
    "STREAM",
    "LIFE",
    "CHUNKS",
    "EVENTS",
    "WRITER",
    "HOST",
    "SIZE",
    "LAST ACTIVITY",
    "STAYS",
  ];
  const nowMs = surroundings.now();
  for (const line of table(
    head,
    summaries.map((summary) => rowOf(summary, nowMs)),
    term,
  ))
    term.print(line);
  term.note("");
  const [newest] = summaries;
  const stream = shellWord(newest?.idempotencyKey ?? "");
  term.note(`What was said: ${commandsOn(settings.dataDir, surroundings)(`inspect --stream ${stream}`)}`);
}

function rowOf(summary: StreamSummary, nowMs: number): readonly string[] {
  const { principal, idempotencyKey, life, chunks, events, writerEpoch, hostEpoch, bytes, activityMs } =
    summary;
  const isGone = life === "gone";
  return [
    visible(principal),
    visible(idempotencyKey),
    life,
    ...(isGone ? ["", "", "", ""] : [chunks, events, writerEpoch, hostEpoch].map(String)),
    isGone ? "" : fileSize(bytes),
    `${duration(Math.max(0, nowMs - activityMs))} ago`,
    isGone ? "" : duration(summary.retentionLeftMs),
  ];
}

async function showStream(
  { log, tables }: { readonly log: Rows; readonly tables: Pick<TableStore, "get"> },
  stream: ScannedStream,
  said: SaidKey,
  flags: InspectFlags,
  surroundings: Surroundings,
): Promise<void> {
  const { retentionMs } = resolveSettings(flags, surroundings);
  const summary = summaryOf(stream, retentionMs, surroundings.now());
  const term = terminal(surroundings);
  const { view, name } = stream;
  const keyCheck = view.kind === "gone" ? view.keyCheck : view.state.keyCheck;
  const sealed = { idempotencyKey: name.idempotencyKey, keyCheck };
  const key = await streamKeyOf(sealed, said, surroundings, tables);
  const entries = key.kind === "found" ? await read(log, stream, key.streamKey) : undefined;
  if (flags.json === true)
    return term.print(JSON.stringify({ ...jsonOf(summary), timeline: entries?.map(jsonOfEntry) ?? null }));
  showSummary(summary, term);
  if (key.kind === "none") noteSealed(key.troubles, term);
  if (entries === undefined) return;
  term.print("");
  for (const line of timelineLines(entries, term)) term.print(line);
}

function noteSealed(troubles: readonly string[], { note }: Terminal): void {
  note(
    "Its content is sealed, and no home key on this machine opens it. Run this in the client's workspace to try the system's keyring; " +
      "or give --home-key-file, --stream-key or HOLDFAST_HOME_KEY.",
  );
  for (const trouble of troubles) note(`Not tried: ${visible(trouble)}`);
}

async function read(
  log: Rows,
  stream: ScannedStream,
  streamKey: Uint8Array,
): Promise<readonly TimelineEntry[]> {
  const { view, name, number } = stream;
  if (view.kind === "gone") return [];
  return timeline(await scanLogs(log, number), name, nodeSealing().sealer(streamKey));
}

function showSummary(summary: StreamSummary, { print, bold, dim }: Terminal): void {
  const line = (title: string, text: string): void => print(`  ${dim(title.padEnd(15))}${text}`);
  print(`Stream ${bold(visible(summary.idempotencyKey))}`);
  line("principal", visible(summary.principal));
  line("life", summary.life);
  line("last activity", minute(summary.activityMs));
  if (summary.life === "gone") return;
  line("chunks", String(summary.chunks));
  line("events", String(summary.events));
  line("epochs", `writer ${summary.writerEpoch}, host ${summary.hostEpoch}`);
  line("size", fileSize(summary.bytes));
  line("stays", duration(summary.retentionLeftMs));
}

function timelineLines(entries: readonly TimelineEntry[], { dim }: Terminal): readonly string[] {
  const numbers = entries.map(({ log, first, last }) => {
    const range = first === last ? `${first}` : `${first}-${last}`;
    return `${log === "chunks" ? "> chunk" : "< event"} ${range}`;
  });
  const widest = Math.max(0, ...numbers.map(({ length }) => length));
  const kinds = Math.max(0, ...entries.map(({ kind }) => kind.length));
  return entries.map(({ timeMs, kind, text }, at) => {
    const time = dim(timeMs === undefined ? UNKNOWN_TIME : new Date(timeMs).toISOString().slice(11, 23));
    return `${time}  ${(numbers[at] ?? "").padEnd(widest)}  ${kind.padEnd(kinds)}  ${cut(visible(text))}`.trimEnd();
  });
}

function cut(text: string): string {
  return firstChars(text, TEXT_CHARS_MAX, ` ... (${text.length} characters)`);
}

function jsonOfEntry({ timeMs, ...entry }: TimelineEntry): object {
  return { time: timeMs === undefined ? null : new Date(timeMs).toISOString(), ...entry };
}
