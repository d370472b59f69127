/**
 * The one database of a simulated gateway: the server's log, its blobs and the gateway's tables, as SQLite has them in production.
 *
 * One thread carries out one call after the other, in the order in which the process asks. A call takes its time, and the process may die
 * before it, after it, or while it waits. Of the writes that were not answered when the process died, a prefix is on the disk.
 *
 * Invariant: a write that was answered survives, and no write survives without those that were asked for before it.
 */
import type { BlobStore } from "../../../src/store/blob-store.ts";
import type { CommitLog } from "../../../src/store/commit-log.ts";
import { memoryBlobStore, MemoryLog } from "../../../src/store/index.ts";
import {
  headKey,
  HEADS,
  idempotencyKeyOf,
  recordPrefix,
  RECORDS,
} from "../../../src/client-node/journal-rows.ts";
import { memoryTableStore } from "../../store/memory-table-store.ts";
import type { TableStore } from "../../../src/store/table-store.ts";
import type { EffectKind, Random, SimProcess, World } from "../world/index.ts";

/** What one life of the process has of it. */
export interface OpenDatabase {
  readonly log: CommitLog;
  readonly tables: TableStore;
  readonly blobs: BlobStore;
}

interface Call {
  readonly carryOut: () => Promise<void>;
  readonly writes: boolean;
}

/** Of a call, with its sync. */
const LATENCY_MS_MAX = 3;

const WRITES: ReadonlySet<string> = new Set([
  "append",
  "drop",
  "put",
  "compareAndSwap",
  "delete",
  "batch",
  "acquire",
  "renew",
  "release",
  "sweep",
  "clear",
]);

export class SimDatabase {
  readonly #world: World;
  readonly #random: Random;
  readonly #tables: TableStore;
  readonly #blobs: BlobStore;
  #log = new MemoryLog({ durability: "fsync" });
  #calls: Call[] = [];
  #isBusy = false;

  /** `now`: the machine's clock. */
  constructor(world: World, now: () => number) {
    this.#world = world;
    this.#random = world.random.fork("database");
    this.#tables = memoryTableStore({ now });
    this.#blobs = memoryBlobStore({ now });
  }

  open(process: SimProcess): OpenDatabase {
    this.#log = this.#log.reopened();
    process.onCrash(() => this.#crashed());
    return {
      log: this.#seenBy(process, this.#log),
      tables: this.#seenBy(process, this.#tables),
      blobs: this.#seenBy(process, this.#blobs),
    };
  }

  /** The streams that have a journal. */
  async journals(): Promise<readonly string[]> {
    const rows = await this.#tables.list(HEADS, "", { after: undefined, countMax: 1_000 });
    return rows.map(({ key }) => idempotencyKeyOf(key));
  }

  /** As with a database that was restored, or damaged: one journal is not there any more. Called while no process runs. */
  async loseJournal(streamId: string): Promise<void> {
    const records = await this.#tables.list(RECORDS, recordPrefix(streamId), {
      after: undefined,
      countMax: 1_000,
    });
    const keys = [headKey(streamId), ...records.map(({ key }) => ({ table: RECORDS, key }))];
    await this.#tables.batch(keys.map(({ table, key }) => ({ kind: "delete", table, key })));
  }

  /** The same object, as the process has it: every method is a call to the database's thread. */
  #seenBy<Target extends object>(process: SimProcess, target: Target): Target {
    const seen = (_: Target, name: string | symbol): unknown => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function" || name === "scan" || name === "close") {
        return typeof value === "function" ? value.bind(target) : value;
      }
      return (...given: readonly unknown[]): Promise<unknown> =>
        this.#call(process, String(name), () => Reflect.apply(value, target, given));
    };
    return new Proxy(target, { get: seen });
  }

  #call(process: SimProcess, name: string, perform: () => unknown): Promise<unknown> {
    const writes = WRITES.has(name);
    const kind: EffectKind = writes ? "disk.append" : "disk.read";
    return new Promise((resolve, reject) => {
      const carryOut = async (): Promise<void> => {
        try {
          const result: unknown = await perform();
          process.notify(() => resolve(result));
        } catch (cause) {
          process.notify(() => reject(cause instanceof Error ? cause : new Error(String(cause))));
        }
      };
      process.effect(kind, () => this.#enter({ carryOut, writes }), undefined);
      // A second place to die: the disk has it in its queue, and has not done it.
      if (writes) process.effect("disk.sync", () => undefined, undefined);
    });
  }

  #enter(call: Call): void {
    this.#calls.push(call);
    this.#next();
  }

  #next(): void {
    const [call] = this.#calls;
    if (call === undefined || this.#isBusy) return;
    this.#isBusy = true;
    this.#world.enqueue(this.#random.int(LATENCY_MS_MAX + 1), () => {
      // A crash empties the queue.
      if (this.#calls[0] !== call) return;
      this.#isBusy = false;
      this.#calls.shift();
      void call.carryOut();
      this.#next();
    });
  }

  #crashed(): void {
    const writes = this.#calls.filter((call) => call.writes);
    this.#calls = [];
    this.#isBusy = false;
    const kept = this.#random.int(writes.length + 1);
    this.#world.trace("database", "unanswered writes kept", kept, "of", writes.length);
    if (kept > 0) this.#world.hit("gateway.fault.unanswered_write_kept");
    if (kept < writes.length) this.#world.hit("gateway.fault.unanswered_write_lost");
    for (const call of writes.slice(0, kept)) void call.carryOut();
  }
}
