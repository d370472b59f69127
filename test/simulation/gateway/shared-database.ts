/**
 * The database that the simulated nodes of a gateway share: streams, letters, tables and blobs, as a PostgreSQL has them.
 *
 * A call takes its time on the way. A node that dies or sleeps meanwhile does not take it back: a write that is on its way may arrive all the same, and its answer
 * does not. Hints are lost in some worlds.
 */
import type { Neighbours } from "../../../src/gateway/index.ts";
import type { BlobStore } from "../../../src/store/blob-store.ts";
import { memoryBlobStore, MemoryLog, openLogStreamStore } from "../../../src/store/index.ts";
import type { Letters } from "../../../src/store/letters.ts";
import type { StreamStore } from "../../../src/store/stream-store.ts";
import { rowsOf, type TableStore } from "../../../src/store/table-store.ts";
import { postgresBlobs } from "../../../src/store/postgres/postgres-blobs.ts";
import { postgresTables } from "../../../src/store/postgres/postgres-tables.ts";
import { MemoryLetters } from "../../store/memory-letters.ts";
import { memoryTableStore } from "../../store/memory-table-store.ts";
import { openDrivenStore } from "../driven-store.ts";
import type { StoreFaults } from "../flaky-store.ts";
import { SimPostgres } from "../sim-postgres.ts";
import { EPOCH_MS } from "../world/process.ts";
import { type Random, SimProcess, type World } from "../world/index.ts";

export interface SharedParts {
  readonly streams: StreamStore;
  readonly letters: Letters;
  readonly tables: TableStore;
  readonly blobs: BlobStore;
}

/** Of the worlds in which the nodes run the production PostgreSQL store: one in five. */
const DRIVEN = 3;
const LATENCY_MS_MAX = 3;
export const LEASE_MS = 10_000;
const NODES = "nodes";

export class SharedDatabase {
  readonly #world: World;
  readonly #random: Random;
  readonly #parts: Promise<SharedParts>;
  readonly #hintLost: number;
  readonly #driven: Driven | undefined;

  /** `isPeaceful`: nothing goes wrong between the nodes and their database. */
  constructor(world: World, isPeaceful: boolean) {
    this.#world = world;
    this.#random = world.random.fork("shared database");
    this.#hintLost = this.#random.pick([0, 0.3, 1]);
    const now = (): number => EPOCH_MS + world.nowMs;
    const blobs = memoryBlobStore({ now });
    const isDriven = world.seed % 5 === DRIVEN;
    this.#driven = isDriven ? new Driven(world, isPeaceful) : undefined;
    const storeBlob = this.#driven?.postgres.rows.storeBlob ?? blobs.store;
    const log = new MemoryLog({ durability: "fsync", storeBlob });
    const letters = new MemoryLetters();
    this.#parts = openLogStreamStore(log, { now, youngestBytes: 0 }).then(async (store) => {
      const streams = letters.around(store);
      await this.#driven?.postgres.begin(streams);
      return { streams, letters, tables: memoryTableStore({ now }), blobs };
    });
  }

  async open(process: SimProcess): Promise<SharedParts> {
    const parts = await this.#parts;
    const letters = this.#seenBy(process, parts.letters);
    const listen: Letters["listen"] = (hear) =>
      parts.letters.listen((hint) => {
        if (!this.#random.chance(this.#hintLost)) process.notify(() => hear(hint));
      });
    const box: Letters = {
      listen,
      post: (...given) => letters.post(...given),
      read: (...given) => letters.read(...given),
      discard: (...given) => letters.discard(...given),
    };
    if (this.#driven !== undefined)
      return { ...(await this.#driven.open(process, parts.streams)), letters: box };
    return {
      streams: this.#seenBy(process, parts.streams),
      letters: box,
      tables: this.#seenBy(process, parts.tables),
      blobs: this.#seenBy(process, parts.blobs),
    };
  }

  #seenBy<Target extends object>(process: SimProcess, target: Target): Target {
    const seen = (_: Target, name: string | symbol): unknown => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function" || name === "close")
        return typeof value === "function" ? value.bind(target) : value;
      return (...given: readonly unknown[]): Promise<unknown> =>
        this.#call(process, () => Reflect.apply(value, target, given));
    };
    return new Proxy(target, { get: seen });
  }

  #call(process: SimProcess, perform: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const carryOut = async (): Promise<void> => {
        if (!process.alive && this.#random.chance(0.5)) return;
        try {
          const result: unknown = await perform();
          this.#world.enqueue(this.#random.int(LATENCY_MS_MAX + 1), () =>
            process.notify(() => resolve(result)),
          );
        } catch (cause) {
          process.notify(() => reject(cause instanceof Error ? cause : new Error(String(cause))));
        }
      };
      const send = (): void =>
        this.#world.enqueue(this.#random.int(LATENCY_MS_MAX + 1), () => void carryOut());
      process.effect("disk.append", send, undefined);
    });
  }
}

/** The production PostgreSQL store of each node, over one simulated database that does not die. */
class Driven {
  readonly postgres: SimPostgres;
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: StoreFaults;
  readonly #process: SimProcess;

  constructor(world: World, isPeaceful: boolean) {
    world.hit("gateway_nodes.driven");
    this.#world = world;
    this.#random = world.random.fork("driver");
    this.#process = new SimProcess(world, "database");
    this.postgres = new SimPostgres(() => EPOCH_MS + world.nowMs);
    const some = (max: number): number => (isPeaceful ? 0 : this.#random.float() * max);
    this.#faults = {
      downUntilMs: 0,
      hintLost: 0,
      lookLateMsMax: 0,
      sleepAtCommitMs: 0,
      refused: 0,
      delayMsMax: LATENCY_MS_MAX,
      replyLost: some(0.05),
      undone: some(0.1),
      warned: some(0.05),
      late: some(0.05),
    };
  }

  async open(process: SimProcess, store: StreamStore): Promise<Omit<SharedParts, "letters">> {
    const { streams, parts, failed } = await openDrivenStore({
      world: this.#world,
      random: this.#random.fork(`${process.name} ${process.incarnation}`),
      faults: this.#faults,
      process,
      target: () => ({ process: this.#process, postgres: this.postgres, store }),
      // Its hints are the letters' here.
      ring: () => undefined,
      // Results that reach a node when another one has their whole answer are a request of their own: no loss takes as long.
      pauseMs: LATENCY_MS_MAX,
      send: (request) => process.effect("disk.append", request, undefined),
    });
    // A supervisor sees the exit code.
    void failed.then(() => process.crash());
    return { streams, tables: postgresTables(parts), blobs: postgresBlobs(parts) };
  }
}

/** As `src/node/node-life.ts` has it, by the clock of the world. */
export async function joinSimulated(tables: TableStore, process: SimProcess): Promise<Neighbours> {
  const self = `${process.name}/${process.incarnation}`;
  const listeners = new Set<() => void>();
  const listed = async (): Promise<ReadonlySet<string>> => {
    const keys = new Set<string>();
    for await (const { key } of rowsOf(tables, NODES)) keys.add(key);
    return keys;
  };
  for await (const { key } of rowsOf(tables, NODES, `${process.name}/`))
    await tables.delete({ table: NODES, key });
  const renew = (): Promise<number> =>
    tables.put({ table: NODES, key: self }, new Uint8Array(1), { ttlMs: LEASE_MS });
  await renew();
  let known = await listed();
  const look = async (): Promise<void> => {
    await renew();
    const now = await listed();
    const isOneGone = known.difference(now).size > 0;
    known = now;
    if (isOneGone) for (const listener of listeners) listener();
  };
  const lookOn = async (): Promise<void> => {
    // A store that has failed ends its process by itself.
    await look().catch(() => undefined);
    process.env.after(LEASE_MS / 3, () => void lookOn());
  };
  process.env.after(LEASE_MS / 3, () => void lookOn());
  return {
    self,
    isAlive: async (owner) => (await tables.get({ table: NODES, key: owner })) !== undefined,
    onGone(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
