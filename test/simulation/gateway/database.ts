/**
 * The one database of a simulated gateway: the server's log, its blobs and the gateway's tables, as SQLite has them in production.
 *
 * One thread carries out one call after the other, in the order in which the process asks. A call takes its time, and the process may die
 * before it, after it, or while it waits. Of the writes that were not answered when the process died, a prefix is on the disk.
 *
 * Invariant: a write that was answered survives, and no write survives without those that were asked for before it.
 */
import assert from "node:assert/strict";
import type { BlobStore } from "../../../src/store/blob-store.ts";
import type { CommitLog } from "../../../src/store/commit-log.ts";
import {
  type MemoryBlobStore,
  memoryBlobStore,
  MemoryLog,
  openLogStreamStore,
} from "../../../src/store/index.ts";
import { memoryTableStore } from "../../store/memory-table-store.ts";
import type { TableStore } from "../../../src/store/table-store.ts";
import type { StreamName } from "../../../src/core/stream-state.ts";
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

const LEASES_OVER_MS = 60 * 60_000;

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
  "sweepSpaces",
]);

export class SimDatabase {
  readonly #world: World;
  readonly #random: Random;
  readonly #now: () => number;
  readonly #tables: TableStore;
  readonly #blobs: MemoryBlobStore;
  #log: MemoryLog;
  #calls: Call[] = [];
  #isBusy = false;

  /** `now`: the machine's clock. */
  constructor(world: World, now: () => number) {
    this.#world = world;
    this.#now = now;
    this.#random = world.random.fork("database");
    this.#tables = memoryTableStore({ now });
    this.#blobs = memoryBlobStore({ now });
    this.#log = new MemoryLog({ durability: "fsync", storeBlob: this.#blobs.store });
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

  /** Loses one of these streams, if any of them is there and has not ended; its name. Called while no process runs. */
  async loseOpen(names: readonly StreamName[], random: Random): Promise<string | undefined> {
    // No lease of the process that died stands in its way.
    const store = await openLogStreamStore(this.#log.reopened(), { now: () => this.#now() + LEASES_OVER_MS });
    const open: StreamName[] = [];
    for (const name of names) {
      const found = await store.load(name);
      if (found.kind === "live" && found.state.end === undefined) open.push(name);
    }
    const lost = open.length === 0 ? undefined : random.pick(open);
    if (lost !== undefined) {
      const claimed = await store.claim(lost, { hostId: "the operator", leaseMs: 0 });
      assert.equal(claimed.kind, "live");
      if (claimed.kind === "live") await store.expire(lost, claimed.state.hostEpoch);
    }
    await store.close();
    return lost?.idempotencyKey;
  }

  /** Loses the blobs of a space; how many there were. Called while no process runs. */
  loseSpace(space: string): Promise<number> {
    return this.#blobs.clear(space);
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
