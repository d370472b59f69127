/**
 * Streams in PostgreSQL: what the interface promises, as acts and questions.
 *
 * Writes go through the group writer, reads ask the tables. A stream's row is known by its id; when the row has vanished, the name is looked up once more, so that the
 * answer is about what is there now.
 */
import { randomInt } from "node:crypto";
import { applyCommit, newStreamState, FIRST_HOST_EPOCH, type StreamName } from "../../core/stream-state.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { given } from "../../protocol/given.ts";
import { assertContinues, assertLeaseMs, NO_COMMIT, shapeOf, UNBORN } from "../group.ts";
import type {
  Absent,
  Commit,
  Committed,
  Conflict,
  Creation,
  Gone,
  Held,
  HostLease,
  Live,
  LogBatches,
  LogName,
  ErasableStreams,
  StreamStore,
} from "../stream-store.ts";
import type { StreamPlace } from "./acts.ts";
import { number, type Row, type Statement, text } from "./driver.ts";
import type { GroupWriter } from "./group-writer.ts";
import type { Readers } from "./readers.ts";
import { IDLE_SLOT_MS } from "./schema.ts";
import { assertName, assertText, LOG_NUMBER, readBatch, type StoredStream } from "./stream-rows.ts";
import { foundUnder } from "./group-statements.ts";
import { discardOldLetters } from "./letter-sql.ts";
import { lookUp } from "./stream-sql.ts";
import { StreamPlaces } from "./stream-places.ts";
import { nameKey } from "../stream-index.ts";
import {
  claimReadBack,
  claimVerdict,
  commitReadBack,
  commitVerdict,
  createReadBack,
  createVerdict,
  expireReadBack,
  expireVerdict,
  leaseReadBack,
  leaseVerdict,
  type Vanished,
} from "./verdicts.ts";

/** The streams of a store, and where those are that it has met. */
export interface PostgresStreams {
  readonly streams: ErasableStreams;
  readonly placeOf: (name: StreamName) => StreamPlace | undefined;
}

export interface StoreParts {
  readonly writer: GroupWriter;
  readonly readers: Readers;
  readonly durability: StreamStore["durability"];
  readonly close: () => Promise<void>;
}

export interface StreamsParts extends StoreParts {
  /** Makes and drops partitions of the log. */
  readonly keepLog: () => Promise<void>;
}

/** Rows of one log that are looked at for one page; the bytes end it much earlier. */
const PAGE_BATCHES_MAX = 512;
/** A receipt that was not written for so long belongs to a process that is gone. */
const RECEIPT_MS = 7 * 24 * 3_600_000;
/** The sender of a letter posts it again much sooner. */
const LETTER_MS = 600_000;

export function postgresStreams({
  writer,
  readers,
  durability,
  keepLog,
  close,
}: StreamsParts): PostgresStreams {
  const ask = async (statement: Statement): Promise<readonly Row[]> => {
    writer.assertUsable();
    return readers.ask(statement);
  };

  async function stored(name: StreamName): Promise<StoredStream | Gone | undefined> {
    const rows = await ask(lookUp([{ name }]));
    return foundUnder([{ name }], rows).get(nameKey(name));
  }

  const places = new StreamPlaces(stored);

  /** Carries out an act on a stream's row, and again on the row that has its name now when the one that was known has vanished. */
  async function onRow<T>(
    name: StreamName,
    act: (place: StreamPlace) => Promise<T | Vanished>,
  ): Promise<T | Gone | Absent> {
    for (;;) {
      const found = await places.find(name);
      if (found.kind !== "live") return found;
      const result = await act(found.place);
      if (!isVanished(result)) return result;
      places.forget(name);
    }
  }

  function commitTo(place: StreamPlace, commit: Commit): Promise<Committed | Conflict> {
    const act = { kind: "commit", name: commit.name, place, commit } as const;
    return writer.submit({
      act,
      answer: (outcome) => commitVerdict(act, outcome),
      readBack: (back) => commitReadBack(act, back),
    });
  }

  async function read<L extends LogName>(
    log: L,
    name: StreamName,
    from: number,
    bytesMax: number,
  ): Promise<readonly LogBatches[L][]> {
    const rows = await ask(pageOf(log, name, from, bytesMax));
    const [first] = rows;
    if (first === undefined) return [];
    const eventFloor = number(first, "event_floor");
    if (log === "events" && from < eventFloor) {
      throw new HoldfastError("events_gone", `event ${from} is gone; the oldest is ${eventFloor}`);
    }
    return rows.filter((row) => row["first"] !== null).map(readBatch[log]);
  }

  async function load(name: StreamName): Promise<Live | Gone | Absent> {
    assertName(name);
    const found = await stored(name);
    if (found === undefined) return { kind: "absent" };
    if ("kind" in found) return found;
    places.learn(name, found);
    return { kind: "live", state: found.state };
  }

  const streams: ErasableStreams = {
    durability,
    now: async () => clockIn(await ask({ text: "SELECT holdfast.now_ms() AS now_ms" })),
    load,
    async look(names) {
      for (const name of names) assertName(name);
      if (names.length === 0) return [];
      const asked = names.map((name) => ({ name }));
      const rows = await ask(lookUp(asked));
      const found = foundUnder(asked, rows);
      // The clock of the same question (D7).
      const nowMs = clockIn(rows);
      return names.map((name) => {
        const stream = found.get(nameKey(name));
        if (stream === undefined) return { kind: "absent" };
        if ("kind" in stream) return stream;
        places.learn(name, stream);
        const { hostId, untilMs } = stream.lease;
        return { kind: "live", state: stream.state, hostId: untilMs > nowMs ? hostId : undefined };
      });
    },
    async create(creation: Creation): Promise<Live | Gone | Committed> {
      const { name, host, keyCheck, conversationCheck, first = NO_COMMIT } = creation;
      assertName(name);
      assertText(host.hostId, "a host id");
      assertLeaseMs(host.leaseMs);
      assertContinues({ ...first, expected: UNBORN });
      try {
        applyCommit(newStreamState(keyCheck, 0, FIRST_HOST_EPOCH, conversationCheck), shapeOf(first), 0);
      } catch (mistake) {
        // The caller's, and it must not spoil the group that it would share. It does not matter where the stream is there already.
        const there = await load(name);
        if (there.kind === "absent") throw mistake;
        return there;
      }
      const act = { kind: "create", name, creation, birth: randomInt(1, 2 ** 47) } as const;
      const { result, stored } = await writer.submit({
        act,
        answer: (outcome) => createVerdict(act, outcome),
        readBack: (back) => createReadBack(act, back),
      });
      if (stored !== undefined) places.learn(name, stored);
      return result;
    },
    async claim(name: StreamName, host: HostLease): Promise<Live | Gone | Absent | Held> {
      assertName(name);
      assertText(host.hostId, "a host id");
      assertLeaseMs(host.leaseMs);
      return onRow<Live | Held>(name, (place) => {
        const act = { kind: "claim", name, place, host } as const;
        return writer.submit({
          act,
          answer: (outcome) => claimVerdict(act, outcome),
          readBack: (back) => claimReadBack(act, back),
        });
      });
    },
    async renew(name, hostEpoch, leaseMs) {
      assertLeaseMs(leaseMs);
      const found = await places.find(name);
      if (found.kind !== "live") return false;
      const act = { kind: "renew", name, place: found.place, hostEpoch, leaseMs } as const;
      return writer.submit({
        act,
        answer: (outcome) => leaseVerdict(act, outcome),
        readBack: (back) => leaseReadBack(act, back),
      });
    },
    async release(name, hostEpoch) {
      const found = await places.find(name);
      if (found.kind !== "live") return;
      const act = { kind: "release", name, place: found.place, hostEpoch } as const;
      await writer.submit({
        act,
        answer: (outcome) => leaseVerdict(act, outcome),
        readBack: (back) => leaseReadBack(act, back),
      });
    },
    async commit(commit) {
      assertName(commit.name);
      assertContinues(commit);
      // Handed over within the call when the row is known: commits happen in the order in which they are asked for.
      const place = places.known(commit.name);
      if (place !== undefined) return commitTo(place, commit);
      const found = await places.find(commit.name);
      if (found.kind !== "live") return { kind: "conflict", state: undefined };
      return commitTo(found.place, commit);
    },
    readEvents: (name, from, bytesMax) => read("events", name, from, bytesMax),
    readChunks: (name, from, bytesMax) => read("chunks", name, from, bytesMax),
    async countOpen(principal) {
      const [row] = await ask({
        name: "holdfast-count-open",
        text: "SELECT count(*) AS open FROM holdfast.streams WHERE principal = $1 AND end_reason IS NULL",
        values: [principal],
      });
      return row === undefined ? 0 : number(row, "open");
    },
    async listIdle(beforeMs, countMax) {
      const rows = await ask({
        name: "holdfast-idle",
        text: `SELECT principal, idempotency_key FROM holdfast.streams
          WHERE idle_slot <= $1::bigint / ${IDLE_SLOT_MS} AND activity_ms < $1
          ORDER BY idle_slot, activity_ms, id LIMIT $2`,
        values: [beforeMs, countMax],
      });
      return rows.map((row) => ({
        principal: text(row, "principal"),
        idempotencyKey: text(row, "idempotency_key"),
      }));
    },
    async expire(name, hostEpoch) {
      const result = await onRow<Gone | Conflict>(name, (place) => {
        const act = { kind: "expire", name, place, hostEpoch } as const;
        return writer.submit({
          act,
          answer: (outcome) => expireVerdict(act, outcome),
          readBack: (back) => expireReadBack(act, back),
        });
      });
      if (result.kind === "gone") places.forget(name);
      return result.kind === "absent" ? { kind: "conflict", state: undefined } : result;
    },
    async forgetGone(beforeMs) {
      const [row] = await statement(writer, {
        text: `WITH forgotten AS (DELETE FROM holdfast.tombstones WHERE gone_ms < $1 RETURNING 1)
          SELECT count(*) AS count FROM forgotten`,
        values: [beforeMs],
      });
      return row === undefined ? 0 : number(row, "count");
    },
    async namesOf(principal) {
      const rows = await ask({
        name: "holdfast-names-of",
        text: `SELECT principal, idempotency_key FROM holdfast.streams WHERE principal = $1
          UNION SELECT principal, idempotency_key FROM holdfast.tombstones WHERE principal = $1`,
        values: [principal],
      });
      return rows.map((row) => ({ principal, idempotencyKey: text(row, "idempotency_key") }));
    },
    async forget(principal) {
      const names = await streams.namesOf(principal);
      await statement(writer, {
        text: `WITH gone AS (DELETE FROM holdfast.streams WHERE principal = $1 RETURNING id, period),
          logs AS (DELETE FROM holdfast.log l USING gone g WHERE l.period = g.period AND l.stream = g.id),
          letters AS (DELETE FROM holdfast.letters WHERE principal = $1)
          DELETE FROM holdfast.tombstones WHERE principal = $1`,
        values: [principal],
      });
      for (const name of names) places.forget(name);
      return names.length;
    },
    /** Rows lie where they cost least from the beginning; what is given back here is what died processes left. */
    async tidy() {
      await statement(writer, {
        text: "DELETE FROM holdfast.receipts WHERE now_ms < holdfast.now_ms() - $1::bigint",
        values: [RECEIPT_MS],
      });
      await statement(writer, discardOldLetters(LETTER_MS));
      await keepLog();
    },
    close,
  };
  return { streams, placeOf: (name) => places.known(name) };
}

/** A statement in a group of its own or with others; it may be carried out twice. */
export function statement(
  writer: GroupWriter,
  statement: Statement,
  tells?: string,
): Promise<readonly Row[]> {
  const act = { kind: "statement", statement, ...given({ tells }) } as const;
  return writer.submit({
    act,
    answer: ({ rowsOf }) => ({ kind: "answer", answer: rowsOf.get(act) ?? [] }),
    readBack: () => ({ kind: "again" }),
  });
}

/** From the batch that holds `from` on. Sizes are known without reading the bodies, so a page reads no more than it tells. */
export function pageOf(
  log: LogName,
  { principal, idempotencyKey }: StreamName,
  from: number,
  bytesMax: number,
): Statement {
  const number = LOG_NUMBER[log];
  return {
    name: `holdfast-read-${log}`,
    text: `SELECT s.event_floor, b.* FROM holdfast.streams s LEFT JOIN LATERAL (
        SELECT p.first, p.count, p.sealed, p.macs FROM (
          SELECT l.*, sum(octet_length(l.sealed)) OVER (ORDER BY l.first) AS bytes, row_number() OVER (ORDER BY l.first) AS place
          FROM (
            SELECT first, count, sealed, macs FROM holdfast.log
            WHERE period = s.period AND stream = s.id AND log = ${number} AND first + count > $3
              AND first >= coalesce((SELECT max(first) FROM holdfast.log
                WHERE period = s.period AND stream = s.id AND log = ${number} AND first <= $3), $3)
            ORDER BY first LIMIT ${PAGE_BATCHES_MAX}) l) p
        WHERE p.place = 1 OR p.bytes <= $4) b ON true
      WHERE s.principal = $1 AND s.idempotency_key = $2 ORDER BY b.first`,
    values: [principal, idempotencyKey, from, bytesMax],
  };
}

function clockIn([row]: readonly Row[]): number {
  return row === undefined ? Number.NaN : number(row, "now_ms");
}

function isVanished(result: unknown): result is Vanished {
  return typeof result === "object" && result !== null && "kind" in result && result.kind === "vanished";
}
