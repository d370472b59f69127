/**
 * A store whose write-ahead log stays as it grows: the database's engine in this thread, without the housekeeping that
 * would move the log in an idle moment. A copy of its files is what a killed process leaves.
 */
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import {
  type CommitLog,
  DATABASE_FILE,
  openLogStreamStore,
  type StreamStore,
  type TableWrite,
} from "../../src/store/index.ts";
import type { Ask, WriteCalls } from "../../src/store/sqlite/calls.ts";
import { lockPathOf } from "../../src/store/sqlite/database.ts";
import { Engine } from "../../src/store/sqlite/engine.ts";
import { created, grown, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { newFolder } from "./sqlite-fixtures.ts";

export class UnmovedStore {
  readonly folder = newFolder();
  readonly path = join(this.folder, DATABASE_FILE);
  readonly engine = engineAt(this.folder, "own");

  write<K extends keyof WriteCalls>(kind: K, ask: Ask<K>): unknown {
    return this.engine.write([{ id: 1, kind, ask }]).at(0)?.value;
  }

  put(key: string, value: Uint8Array): void {
    this.write("batch", { writes: [put(key, value)], nowMs: 0 });
  }

  streams(): Promise<StreamStore> {
    return openLogStreamStore(logOver(this), new ManualClock());
  }

  /** The files as they are now, in a folder of their own. Nothing but SQLite has locks on the copy. */
  copy(): string {
    return copyOf(this.folder);
  }
}

export function put(key: string, value: Uint8Array): TableWrite {
  return { kind: "put", table: "t", key, value };
}

export function engineAt(folder: string, mode: "own" | "look"): Engine {
  const path = join(folder, DATABASE_FILE);
  return new Engine({ path, lockPath: lockPathOf(path), mode });
}

/** Without the index of the log, which a machine that went down does not keep. */
export function copyOf(folder: string): string {
  const copy = newFolder();
  for (const suffix of ["", "-wal"]) {
    const file = join(folder, DATABASE_FILE + suffix);
    if (existsSync(file)) copyFileSync(file, join(copy, DATABASE_FILE + suffix));
  }
  return copy;
}

/** So many streams with a few events each, acknowledged one after the other; none of it is moved. */
export async function killedWithStreams(count: number): Promise<string> {
  const store = new UnmovedStore();
  const streams = await store.streams();
  for (let number = 0; number < count; number++) {
    const name = streamName(`s${number}`);
    await grown(streams, name, await created(streams, name), { chunks: 1, events: 100 });
  }
  const folder = store.copy();
  store.engine.close();
  return folder;
}

function logOver(store: UnmovedStore): CommitLog {
  return {
    durability: "fsync",
    async *scan() {
      yield* store.engine.read({ id: 1, kind: "scan", ask: { after: 0, bytesMax: 2 ** 30 } }).rows;
    },
    append: (record, body, freed = [], blobs = []) =>
      Promise.resolve(
        Number(store.write("append", { record: record.slice(), body, freed, blobs, nowMs: 0 })),
      ),
    read: (row) => Promise.resolve(store.engine.read({ id: 1, kind: "read", ask: { row } })),
    readBody: (row) => Promise.resolve(store.engine.read({ id: 1, kind: "readBody", ask: { row } })),
    drop: (rows) => {
      store.write("drop", { rows });
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  };
}
