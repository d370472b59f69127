/**
 * The database's thread: takes whatever waits, commits it together, answers.
 *
 * Everything that waits in the port when a turn begins belongs to the turn. Its writes are one
 * transaction, then its reads are served: so with no load a commit starts at once, under load commits
 * batch by themselves, and the event loop of the process never waits for a sync.
 */
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { assert } from "../../protocol/assert.ts";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
import type { Ended, Opening, ReadCalls, Request, ThreadStart, WireFailure, WriteCalls } from "./calls.ts";
import { isThreadStart } from "./calls.ts";
import { Engine } from "./engine.ts";
import { housekeepingOf } from "./housekeeping.ts";
import { SharedEngine } from "./shared-engine.ts";

/** Bounds a transaction: what waits beyond it goes into the next one. */
const GROUP_BYTES_MAX = 8 * 1024 * 1024;

/** Of a process alone, or of one among several. */
type AnyEngine = Pick<Engine, "beginWriting" | "write" | "read" | "close">;
type WriteRequest = Request<keyof WriteCalls>;
type ReadRequest = Request<keyof ReadCalls>;

interface Sent {
  readonly id: number;
  readonly kind: "answer" | "failure";
  readonly value?: unknown;
  readonly failure?: WireFailure;
}

const READ_KINDS: Readonly<Record<keyof ReadCalls, true>> = {
  scan: true,
  logBytes: true,
  read: true,
  readRows: true,
  readBody: true,
  getRow: true,
  listRows: true,
  findBlob: true,
  readPart: true,
  storedBytes: true,
  listBlobs: true,
  listSpaces: true,
  checkPages: true,
  copyTo: true,
  vacuum: true,
};

function isRead(request: Request): request is ReadRequest {
  return Object.hasOwn(READ_KINDS, request.kind);
}

function isWrite(request: Request): request is WriteRequest {
  return !isRead(request) && request.kind !== "beginWriting" && request.kind !== "close";
}

/** Serves what waits, beginning with what `first` brings. Processes that share a database leave its housekeeping to SQLite. */
function turnsOf(
  port: MessagePort,
  engine: AnyEngine,
  housekeeping: ReturnType<typeof housekeepingOf> | undefined,
): (first: readonly Request[]) => void {
  const send = (replies: readonly Sent[], transfer: readonly ArrayBuffer[] = []): void =>
    port.postMessage(replies, transfer);

  function waiting(): readonly Request[] {
    const requests: Request[] = [];
    for (;;) {
      const next: { readonly message: readonly Request[] } | undefined = receiveMessageOnPort(port);
      if (next === undefined) return requests;
      requests.push(...next.message);
    }
  }

  function write(requests: readonly WriteRequest[]): void {
    for (let rest = requests; rest.length > 0;) {
      const group = rest.slice(0, groupLength(rest));
      rest = rest.slice(group.length);
      try {
        const served = engine.write(group);
        send(served.map(({ request, value }) => ({ id: request.id, kind: "answer", value })));
      } catch (error) {
        send(group.map(({ id }) => ({ id, kind: "failure", failure: failureOf(error) })));
      }
      housekeeping?.afterCommit();
    }
  }

  function answer(id: number, work: () => unknown): void {
    try {
      const value = work();
      send([{ id, kind: "answer", value }], buffersOf(value));
    } catch (error) {
      send([{ id, kind: "failure", failure: failureOf(error) }]);
    }
  }

  async function close(id: number): Promise<void> {
    await housekeeping?.close();
    answer(id, () => engine.close());
  }

  /** Between two reads whatever came meanwhile is committed: the replay of a long log holds up no commit. */
  return (first) => {
    const reads: ReadRequest[] = [];
    const closing: Request[] = [];
    let came: readonly Request[] = [...first, ...waiting()];
    for (;;) {
      for (const { id } of came.filter(({ kind }) => kind === "beginWriting")) {
        answer(id, () => engine.beginWriting());
      }
      write(came.filter(isWrite));
      reads.push(...came.filter(isRead));
      closing.push(...came.filter(({ kind }) => kind === "close"));
      const read = reads.shift();
      if (read === undefined) break;
      answer(read.id, () => engine.read(read));
      came = waiting();
    }
    for (const { id } of closing) void close(id);
  };
}

/** At least one request, and no more than the bound beyond it. */
function groupLength(requests: readonly WriteRequest[]): number {
  let bytes = 0;
  const end = requests.findIndex((request, at) => {
    bytes += bytesOf(request);
    return at > 0 && bytes > GROUP_BYTES_MAX;
  });
  return end === -1 ? requests.length : end;
}

function bytesOf({ ask }: WriteRequest): number {
  if ("record" in ask) return ask.record.byteLength + (ask.body?.byteLength ?? 0);
  if ("bytes" in ask) return ask.bytes.byteLength;
  if (!("writes" in ask)) return 0;
  return ask.writes.reduce((sum, write) => sum + (write.kind === "put" ? write.value.byteLength : 0), 0);
}

/** What SQLite gave us is ours alone, so its memory may pass on to the event loop's side. */
function buffersOf(value: unknown): readonly ArrayBuffer[] {
  if (value instanceof Uint8Array) return value.buffer instanceof ArrayBuffer ? [value.buffer] : [];
  if (typeof value !== "object" || value === null) return [];
  if ("record" in value) return buffersOf(value.record);
  if ("rows" in value && Array.isArray(value.rows))
    return value.rows.flatMap((row: unknown) => buffersOf(row));
  return [];
}

function failureOf(error: unknown): WireFailure {
  const message = messageOf(error);
  const code = error instanceof HoldfastError ? error.code : undefined;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : undefined;
  return { code, message, cause };
}

function openedTurns(port: MessagePort, start: ThreadStart): (first: readonly Request[]) => void {
  const { path, lockPath, mode } = start;
  if (mode === "share") return turnsOf(port, new SharedEngine(path, lockPath), undefined);
  const engine = new Engine(start, (failure) => {
    const ended: Ended = { kind: "ended", failure: failureOf(failure) };
    port.postMessage(ended);
  });
  return turnsOf(port, engine, housekeepingOf(engine, path));
}

function start(port: MessagePort, given: ThreadStart): void {
  let opening: Opening = { kind: "open" };
  try {
    port.on("message", openedTurns(port, given));
  } catch (error) {
    opening = { kind: "refused", failure: failureOf(error) };
  }
  port.postMessage(opening);
}

assert(parentPort !== null, "the database runs in a thread of its own");
const given: unknown = workerData;
assert(isThreadStart(given), "the thread gets what it is to open");
start(parentPort, given);
