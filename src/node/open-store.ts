/**
 * Opens the store that a server stands on: the SQLite file of its data directory, or a PostgreSQL elsewhere.
 *
 * The data directory is one server's either way. A PostgreSQL may be shared by several nodes: each has a name, and letters to the others
 * ([decision 113](../../docs/decisions/0113-a-stream-is-followed-at-other-nodes.md)).
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { countedLog, type ServerCounters } from "../server/index.ts";
import {
  type CommitLog,
  DATABASE_FILE,
  type Letters,
  lockFile,
  openSqliteStore,
  type ScanProgress,
  type SqliteStore,
} from "../store/index.ts";
import { lockPathOf } from "../store/sqlite/database.ts";
import { readFileIfThere, writeSecretFile } from "./data-dir.ts";
import type { Machine } from "./machine.ts";

export interface StoreParts {
  /** A `postgres://` address; undefined for the data directory's own database. */
  readonly store: string | undefined;
  /** For how long a PostgreSQL that is away is waited for. */
  readonly storePatienceMs: number;
  readonly dataDir: string;
  readonly counters: ServerCounters;
  readonly machine: Machine;
  /** Called again and again while a large database is read. */
  readonly onReading: (progress: ScanProgress) => void;
  readonly onNotice: (message: string) => void;
}

/** Streams, tables and blobs, wherever they are. */
export interface ServerStore extends SqliteStore {
  /** By which leases know this node, also after a restart. */
  readonly hostId: string;
  /** Of a store that other nodes may share. */
  readonly letters: Letters | undefined;
}

/** A process with its own file has no rival. */
const ONLY_HOST = "local";

/** The name of this node, in its data directory: a restart need not wait for its own leases. */
const NODE_ID_FILE = "holdfast.node-id";

export async function openStore(parts: StoreParts): Promise<ServerStore> {
  return parts.store === undefined
    ? { ...(await openFile(parts)), hostId: ONLY_HOST, letters: undefined }
    : openShared(parts, parts.store);
}

/** A large database takes a while to read, and silence would look like a hang. */
async function openFile({ dataDir, counters, machine, onReading }: StoreParts): Promise<SqliteStore> {
  let progress: ScanProgress = { rows: 0, bytes: 0, bytesTotal: 0 };
  const timer = setInterval(() => onReading(progress), SLOW_OPEN_MS);
  const onProgress = (news: ScanProgress): void => {
    progress = news;
  };
  try {
    const throughLog = (log: CommitLog): CommitLog => countedLog(log, counters);
    return await openSqliteStore(dataDir, { now: machine.now, onProgress, throughLog });
  } finally {
    clearInterval(timer);
  }
}

/** Long enough that a person who waits begins to wonder. */
const SLOW_OPEN_MS = 1_000;

async function openShared(
  { dataDir, counters, machine, storePatienceMs: patienceMs, onNotice }: StoreParts,
  address: string,
): Promise<ServerStore> {
  // Only a server that uses the driver loads it.
  const { openPostgresStore } = await import("../store/postgres/index.ts");
  const lock = lockFile(lockPathOf(join(dataDir, DATABASE_FILE)));
  try {
    const hostId = nodeId(dataDir);
    const store = await openPostgresStore(address, {
      variables: machine.env,
      patienceMs,
      isRinging: true,
      onGroup: ({ seconds, bytes }) => {
        counters.appendSeconds.add(seconds);
        counters.appendBytes.add(bytes);
      },
    });
    if (store.isPooled) {
      onNotice(
        "PostgreSQL is behind a transaction pooler: nodes only poll, so clients of other nodes read up to a second later",
      );
    }
    const close = async (): Promise<void> => {
      await store.close();
      lock.release();
    };
    return { ...store, hostId, close };
  } catch (error) {
    lock.release();
    throw error;
  }
}

function nodeId(dataDir: string): string {
  const path = join(dataDir, NODE_ID_FILE);
  const kept = readFileIfThere(path)?.trim();
  if (kept !== undefined && kept !== "") return kept;
  const made = `node-${randomBytes(8).toString("hex")}`;
  writeSecretFile(path, `${made}\n`);
  return made;
}
