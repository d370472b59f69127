/**
 * What is asked about streams, and what is deleted of them, beside the acts of groups: the statements that read.
 *
 * The store of streams knows them as an interface, so that it also runs over the simulator's database.
 */
import type { StreamName } from "../../core/stream-state.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Gone, LogBatches, LogName, StreamStore } from "../stream-store.ts";
import { number, type Row, type Statement, text } from "./driver.ts";
import { foundUnder } from "./group-statements.ts";
import { type GroupWriter, statement } from "./group-writer.ts";
import { discardOldLetters } from "./letter-sql.ts";
import type { Readers } from "./readers.ts";
import { IDLE_SLOT_MS } from "./schema.ts";
import { LOG_NUMBER, readBatch, type StoredStream } from "./stream-rows.ts";
import { lookUp } from "./stream-sql.ts";

export interface StoreParts {
  readonly writer: GroupWriter;
  readonly readers: Pick<Readers, "ask">;
  readonly durability: StreamStore["durability"];
  readonly close: () => Promise<void>;
}

interface QuestionParts extends StoreParts {
  /** Makes and drops partitions of the log. */
  readonly keepLog: () => Promise<void>;
}

/** What lies under names, by `nameKey`, and the clock of the same question (D7). */
interface LookedUp {
  readonly nowMs: number;
  readonly found: ReadonlyMap<string, StoredStream | Gone>;
}

export interface StreamQuestions extends Pick<StreamStore, "now" | "countOpen" | "listIdle" | "forgetGone"> {
  lookUp(names: readonly StreamName[]): Promise<LookedUp>;
  page<L extends LogName>(
    log: L,
    name: StreamName,
    from: number,
    bytesMax: number,
  ): Promise<readonly LogBatches[L][]>;
  namesOf(principal: string): Promise<readonly StreamName[]>;
  forget(principal: string): Promise<void>;
  tidy(): Promise<void>;
}

/** Rows of one log that are looked at for one page; the bytes end it much earlier. */
const PAGE_BATCHES_MAX = 512;
/** A receipt that was not written for so long belongs to a process that is gone. */
const RECEIPT_MS = 7 * 24 * 3_600_000;
/** The sender of a letter posts it again much sooner. */
const LETTER_MS = 600_000;

export function streamQuestions({ writer, readers, keepLog }: QuestionParts): StreamQuestions {
  const ask = async (statement: Statement): Promise<readonly Row[]> => {
    writer.assertUsable();
    return readers.ask(statement);
  };
  return {
    now: async () => clockIn(await ask({ text: "SELECT holdfast.now_ms() AS now_ms" })),
    async lookUp(names) {
      const asked = names.map((name) => ({ name }));
      const rows = await ask(lookUp(asked));
      return { nowMs: clockIn(rows), found: foundUnder(asked, rows) };
    },
    async page(log, name, from, bytesMax) {
      const rows = await ask(pageOf(log, name, from, bytesMax));
      const [first] = rows;
      if (first === undefined) return [];
      const eventFloor = number(first, "event_floor");
      if (log === "events" && from < eventFloor) {
        throw new HoldfastError("events_gone", `event ${from} is gone; the oldest is ${eventFloor}`);
      }
      return rows.filter((row) => row["first"] !== null).map(readBatch[log]);
    },
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
      await statement(writer, {
        text: `WITH gone AS (DELETE FROM holdfast.streams WHERE principal = $1 RETURNING id, period),
          logs AS (DELETE FROM holdfast.log l USING gone g WHERE l.period = g.period AND l.stream = g.id),
          letters AS (DELETE FROM holdfast.letters WHERE principal = $1)
          DELETE FROM holdfast.tombstones WHERE principal = $1`,
        values: [principal],
      });
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
  };
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
