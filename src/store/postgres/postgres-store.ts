/**
 * A store in a shared PostgreSQL: streams, tables and blobs over one writer and a few readers.
 *
 * Opening looks at the settings, brings the tables up to date, and draws a receipt. The three parts share their connections: closing any of them closes all.
 */
import { homedir } from "node:os";
import type { HoldfastError } from "../../protocol/errors.ts";
import { given } from "../../protocol/given.ts";
import type { BlobStore } from "../blob-store.ts";
import type { Letters } from "../letters.ts";
import type { ErasableStreams } from "../stream-store.ts";
import type { TableStore } from "../table-store.ts";
import { parseAddress, type Variables } from "./address.ts";
import { Bell } from "./bell.ts";
import { newsOf } from "./bell-payload.ts";
import { connect, connectToChange } from "./driver.ts";
import { SqlCarrier } from "./group-carrier.ts";
import { type GroupSize, GroupWriter } from "./group-writer.ts";
import { migrate } from "./migrate.ts";
import { Openings } from "./openings.ts";
import { keepPartitions } from "./partitions.ts";
import { postgresBlobs } from "./postgres-blobs.ts";
import { postgresLetters } from "./postgres-letters.ts";
import { postgresStreams } from "./postgres-streams.ts";
import { postgresTables } from "./postgres-tables.ts";
import { Readers } from "./readers.ts";
import { streamQuestions } from "./stream-questions.ts";

export interface PostgresOptions {
  /** Stand in for what the address does not say. Default: this process's environment. */
  readonly variables?: Variables;
  /** For how long a database that is away is waited for before the store has failed. Default: 5,000. */
  readonly patienceMs?: number;
  /** After so long without an answer a connection counts as lost. Default: 10,000. */
  readonly answerMsMax?: number;
  /** Called with each group that is durable: to count, or to watch. */
  readonly onGroup?: (group: GroupSize) => void;
  /** Other nodes are woken by what this one does, and it by what they do. Without it, and behind a pooler, nodes only poll. Default: false. */
  readonly isRinging?: boolean;
}

export interface PostgresStore {
  readonly streams: ErasableStreams;
  /** PostgreSQL's own vacuum does it in its time. */
  shred(): Promise<void>;
  readonly tables: TableStore;
  readonly blobs: BlobStore;
  /** Between the nodes that share the database. */
  readonly letters: Letters;
  /** A pooler stands between this process and the server. */
  readonly isPooled: boolean;
  /** Resolves when the database stayed away: then the store is to be closed and opened anew (F5). */
  readonly failed: Promise<HoldfastError>;
  close(): Promise<void>;
}

const DEFAULTS = {
  /** Longer than a server takes to restart, shorter than a client's patience. */
  patienceMs: 5_000,
  /** A disk that is busy answers late; a connection that is half open never does. */
  answerMsMax: 10_000,
} as const;

export async function openPostgresStore(url: string, options: PostgresOptions = {}): Promise<PostgresStore> {
  const { variables = process.env, patienceMs, answerMsMax } = { ...DEFAULTS, ...options };
  const address = parseAddress(url, variables, homedir());
  const first = await connectToChange(address, "holdfast");
  try {
    await migrate(first);
    await keepPartitions(first);
  } finally {
    await first.end().catch(() => undefined);
  }
  const openings = new Openings(address, patienceMs);
  const opening = await openings.first();
  const { durability, isPooled } = opening.connection.settings;
  const bell =
    options.isRinging === true && !isPooled ? new Bell(address, openings.applicationName) : undefined;
  const writer = new GroupWriter(new SqlCarrier(openings, opening, answerMsMax), {
    ...given({ onGroup: options.onGroup }),
    onDurable: (acts) => bell?.ring(newsOf(acts)),
  });
  const readers = new Readers(address, openings.applicationName, patienceMs);
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> =>
    (closing ??= (async () => {
      await writer.close();
      await bell?.close();
      await readers.close();
    })());
  const parts = { writer, readers, durability, close };
  // Its locks are waited for on a connection of its own.
  const keepLog = async (): Promise<void> => {
    const own = await connect(address, openings.applicationName);
    try {
      await keepPartitions(own);
    } finally {
      await own.end();
    }
  };
  const questions = streamQuestions({ ...parts, keepLog });
  const { streams, placeOf } = postgresStreams({ ...parts, questions });
  return {
    streams,
    letters: postgresLetters({ writer, readers, bell, placeOf }),
    tables: postgresTables(parts),
    blobs: postgresBlobs(parts),
    isPooled,
    shred: async () => undefined,
    failed: writer.failed,
    close,
  };
}
