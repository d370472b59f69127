/**
 * Small tables and leases, in the database's thread.
 *
 * A batch is judged before anything of it is written, so one that fails leaves no trace in the
 * transaction that it shares with others (A4). Ended rows and leases are as if they were not there;
 * `sweep` removes them.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type {
  BatchResult,
  Fence,
  KeyPage,
  LeaseAcquired,
  LeaseHeld,
  TableKey,
  TableRow,
  TableWrite,
} from "../table-store.ts";
import { NO_ROW } from "../table-store.ts";
import type { Ask } from "./calls.ts";
import type { Row } from "./columns.ts";
import { bytes, number, numberOrNull, text } from "./columns.ts";
import type { Counter } from "./counter.ts";

const LIVE = "(expires_ms IS NULL OR expires_ms > ?)";

export class TableRows {
  readonly #counter: Counter;
  readonly #get: StatementSync;
  readonly #version: StatementSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  readonly #listFrom: StatementSync;
  readonly #listAfter: StatementSync;
  readonly #lease: StatementSync;
  readonly #setLease: StatementSync;
  readonly #deleteLease: StatementSync;
  readonly #sweepRows: StatementSync;
  readonly #sweepLeases: StatementSync;

  constructor(database: DatabaseSync, counter: Counter) {
    this.#counter = counter;
    const prepare = (sql: string): StatementSync => database.prepare(sql);
    this.#get = prepare(
      `SELECT key, value, version, expires_ms FROM rows WHERE tab = ? AND key = ? AND ${LIVE}`,
    );
    this.#version = prepare(`SELECT version FROM rows WHERE tab = ? AND key = ? AND ${LIVE}`);
    this.#put = prepare(
      "INSERT INTO rows (tab, key, version, expires_ms, value) VALUES (?, ?, ?, ?, ?) " +
        "ON CONFLICT (tab, key) DO UPDATE SET version = excluded.version, expires_ms = excluded.expires_ms, value = excluded.value",
    );
    this.#delete = prepare("DELETE FROM rows WHERE tab = ? AND key = ?");
    const select = "SELECT key, value, version, expires_ms FROM rows WHERE tab = ?";
    this.#listFrom = prepare(`${select} AND key >= ? AND ${LIVE} ORDER BY key`);
    this.#listAfter = prepare(`${select} AND key >= ? AND key > ? AND ${LIVE} ORDER BY key`);
    this.#lease = prepare("SELECT holder, token, until_ms FROM leases WHERE name = ? AND until_ms > ?");
    this.#setLease = prepare(
      "INSERT INTO leases (name, holder, token, until_ms) VALUES (?, ?, ?, ?) " +
        "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token, until_ms = excluded.until_ms",
    );
    this.#deleteLease = prepare("DELETE FROM leases WHERE name = ?");
    this.#sweepRows = prepare(
      "DELETE FROM rows WHERE rowid IN (SELECT rowid FROM rows WHERE expires_ms <= ? LIMIT ?)",
    );
    this.#sweepLeases = prepare(
      "DELETE FROM leases WHERE name IN (SELECT name FROM leases WHERE until_ms <= ? LIMIT ?)",
    );
  }

  get({ table, key, nowMs }: Ask<"getRow">): TableRow | undefined {
    const found = this.#get.get(table, key, nowMs);
    return found === undefined ? undefined : tableRow(found);
  }

  list(table: string, prefix: string, { after, countMax }: KeyPage, nowMs: number): readonly TableRow[] {
    const listed: TableRow[] = [];
    if (countMax <= 0) return listed;
    const rows =
      after === undefined
        ? this.#listFrom.iterate(table, prefix, nowMs)
        : this.#listAfter.iterate(table, prefix, after, nowMs);
    for (const found of rows) {
      const row = tableRow(found);
      if (!row.key.startsWith(prefix)) break;
      listed.push(row);
      if (listed.length >= countMax) break;
    }
    return listed;
  }

  batch(writes: readonly TableWrite[], fences: readonly Fence[], nowMs: number): BatchResult {
    const broken = fences.find(({ lease, token }) => this.#leaseToken(lease, nowMs) !== token);
    if (broken !== undefined) return { kind: "fenced", lease: broken.lease };
    const failed = writes.flatMap((write, place) => (this.#isExpected(write, nowMs) ? [] : [place]));
    if (failed.length > 0) return { kind: "conflict", writes: failed };
    const version = this.#counter.next();
    for (const write of writes) this.#apply(write, version, nowMs);
    return { kind: "written", version };
  }

  delete({ table, key, nowMs }: Ask<"deleteRow">): boolean {
    const existed = this.#versionOf({ table, key }, nowMs) !== NO_ROW;
    this.#delete.run(table, key);
    return existed;
  }

  acquire({ lease, holder, leaseMs, nowMs }: Ask<"acquire">): LeaseAcquired | LeaseHeld {
    const held = this.#lease.get(lease, nowMs);
    if (held !== undefined && text(held, "holder") !== holder) {
      return { kind: "held", holder: text(held, "holder"), leaseLeftMs: number(held, "until_ms") - nowMs };
    }
    const token = this.#counter.next();
    this.#setLease.run(lease, holder, token, nowMs + leaseMs);
    return { kind: "acquired", token };
  }

  renew({ lease, token, leaseMs, nowMs }: Ask<"renew">): boolean {
    const held = this.#lease.get(lease, nowMs);
    if (held === undefined || number(held, "token") !== token) return false;
    const untilMs = Math.max(number(held, "until_ms"), nowMs + leaseMs);
    this.#setLease.run(lease, text(held, "holder"), token, untilMs);
    return true;
  }

  release({ lease, token, nowMs }: Ask<"release">): void {
    if (this.#leaseToken(lease, nowMs) === token) this.#deleteLease.run(lease);
  }

  sweep(countMax: number, nowMs: number): number {
    const rows = Number(this.#sweepRows.run(nowMs, countMax).changes);
    return rows + Number(this.#sweepLeases.run(nowMs, countMax - rows).changes);
  }

  #leaseToken(lease: string, nowMs: number): number | undefined {
    const held = this.#lease.get(lease, nowMs);
    return held === undefined ? undefined : number(held, "token");
  }

  #versionOf({ table, key }: TableKey, nowMs: number): number {
    const found = this.#version.get(table, key, nowMs);
    return found === undefined ? NO_ROW : number(found, "version");
  }

  #isExpected(write: TableWrite, nowMs: number): boolean {
    return write.expectedVersion === undefined || this.#versionOf(write, nowMs) === write.expectedVersion;
  }

  #apply(write: TableWrite, version: number, nowMs: number): void {
    const { table, key } = write;
    if (write.kind === "delete") {
      this.#delete.run(table, key);
      return;
    }
    const expiresMs = write.ttlMs === undefined ? null : nowMs + write.ttlMs;
    this.#put.run(table, key, version, expiresMs, write.value);
  }
}

function tableRow(found: Row): TableRow {
  return {
    key: text(found, "key"),
    value: bytes(found, "value"),
    version: number(found, "version"),
    expiresMs: numberOrNull(found, "expires_ms"),
  };
}
