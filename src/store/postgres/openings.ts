/**
 * The connection that writes, and the receipt that stands behind it: one *opening* after the other.
 *
 * Every opening raises the term of the store's receipt, in a transaction of its own. That waits for a group of the opening before which is still being carried out, and fences one that
 * still travels: whatever the receipt says then is final. The transaction commits as durably as any group, so what it finds is at least as durable (A3).
 *
 * A server that promises less than the first one did ends the store: what is opened anew says what it promises.
 *
 * Invariant: of all openings of one store, only the newest can write, and each is as durable as the first (A3).
 */
import { randomInt } from "node:crypto";
import { assert } from "../../protocol/assert.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Durability } from "../../protocol/frames.ts";
import { type Address, shown } from "./address.ts";
import { connect, type Connection, number, type Row } from "./driver.ts";
import { meaningOf, unavailable } from "./failures.ts";
import type { Receipt } from "./group-fate.ts";
import { PLANNING } from "./group-statements.ts";
import type { Usable } from "./settings.ts";

export interface Opening extends Receipt {
  readonly connection: Connection;
  readonly store: number;
  readonly term: number;
  /** Of the last group that happened. */
  readonly receipt: { readonly nowMs: number; readonly rowVersion: number };
}

/** Between two tries to connect. */
const PAUSE_MS = { first: 25, most: 500 } as const;

export class Openings {
  readonly #address: Address;
  /** For how long a database that is away is waited for. */
  readonly #patienceMs: number;
  readonly #store = randomInt(1, 2 ** 47);
  #current: Opening | undefined;
  #promised: Durability | undefined;
  #isClosed = false;

  constructor(address: Address, patienceMs: number) {
    this.#address = address;
    this.#patienceMs = patienceMs;
  }

  /** By which this store's connections are known to the server. */
  get applicationName(): string {
    return `holdfast ${this.#store}`;
  }

  /** The first one: rejects at once when the database cannot be reached or used. */
  async first(): Promise<Opening> {
    return this.#open(undefined);
  }

  async current(): Promise<Opening> {
    return this.#current ?? this.#patiently(undefined);
  }

  /** The next one, behind an opening whose last group has an unknown fate. Rejects when the database stays away. */
  async replace(old: Opening, cause: unknown): Promise<Opening> {
    old.connection.cut();
    if (this.#current === old) this.#current = undefined;
    return this.#patiently(old, cause);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const { connection } = this.#current ?? {};
    this.#current = undefined;
    if (connection === undefined) return;
    // Left behind it would do no harm: tidying removes old ones.
    await connection
      .ask({ text: "DELETE FROM holdfast.receipts WHERE store = $1", values: [this.#store] })
      .catch(() => undefined);
    await connection.end().catch(() => undefined);
  }

  async #patiently(old: Opening | undefined, cause?: unknown): Promise<Opening> {
    const untilMs = performance.now() + this.#patienceMs;
    let last = cause;
    for (let pauseMs: number = PAUSE_MS.first; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS.most)) {
      try {
        return await this.#open(old);
      } catch (error) {
        last = error;
        const isFinal = error instanceof HoldfastError && error.code === "invalid_argument";
        if (isFinal || this.#isClosed || performance.now() + pauseMs > untilMs) throw last;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  async #open(old: Opening | undefined): Promise<Opening> {
    const connection = await connect(this.#address, this.applicationName);
    const timer = setTimeout(() => connection.cut(), this.#patienceMs);
    try {
      this.#assertKept(connection.settings);
      await this.#endProcess(connection, old?.connection.processId);
      if (!connection.settings.isPooled) await connection.ask(PLANNING);
      const opening = { connection, store: this.#store, ...(await this.#raiseTerm(connection)) };
      this.#current = opening;
      void this.#watch(opening);
      return opening;
    } catch (error) {
      connection.cut();
      throw meaningOf(error) === "lost" && !(error instanceof HoldfastError)
        ? unavailable(`PostgreSQL at ${shown(this.#address)} ended the connection`, error)
        : error;
    } finally {
      clearTimeout(timer);
    }
  }

  #assertKept({ durability }: Usable): void {
    this.#promised ??= durability;
    if (this.#promised === "quorum" && durability !== "quorum") {
      throw new HoldfastError(
        "invalid_argument",
        `PostgreSQL at ${shown(this.#address)} has no synchronous standbys any more: commits survive less than clients were told`,
      );
    }
  }

  async #watch(opening: Opening): Promise<void> {
    await opening.connection.gone;
    if (this.#current === opening) this.#current = undefined;
  }

  /** A process that still works for a connection that is gone would be waited for. Only its own role may end it, and it need not succeed. */
  async #endProcess(connection: Connection, processId: number | undefined): Promise<void> {
    if (processId === undefined) return;
    await connection.ask({
      text: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = $2",
      values: [processId, this.applicationName],
    });
  }

  async #raiseTerm(connection: Connection): Promise<Pick<Opening, "term" | "groupNumber" | "receipt">> {
    let hasWarning = false;
    connection.onWarning = () => (hasWarning = true);
    const { synchronousCommit } = connection.settings;
    const [, raised, committed] = await Promise.all([
      connection.ask({ text: `BEGIN; SET LOCAL synchronous_commit = ${synchronousCommit}` }),
      connection.ask({
        text: `INSERT INTO holdfast.receipts AS r (store, term, group_number, row_version, now_ms)
          VALUES ($1, 1, 0, 0, holdfast.now_ms())
          ON CONFLICT (store) DO UPDATE SET term = r.term + 1
          RETURNING term, group_number, row_version, now_ms`,
        values: [this.#store],
      }),
      connection.ask({ text: "COMMIT" }),
    ]);
    connection.onWarning = undefined;
    if (committed.command !== "COMMIT" || hasWarning) {
      throw unavailable("the database does not confirm that it is durable");
    }
    const [row] = raised.rows;
    assert(row !== undefined, "a store has a receipt");
    return {
      term: number(row, "term"),
      groupNumber: number(row, "group_number"),
      receipt: receiptIn(row),
    };
  }
}

function receiptIn(row: Row): Opening["receipt"] {
  return { nowMs: number(row, "now_ms"), rowVersion: number(row, "row_version") };
}
