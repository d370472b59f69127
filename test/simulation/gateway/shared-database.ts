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
import { MemoryLetters } from "../../store/memory-letters.ts";
import { memoryTableStore } from "../../store/memory-table-store.ts";
import { EPOCH_MS } from "../world/process.ts";
import type { Random, SimProcess, World } from "../world/index.ts";

export interface SharedParts {
  readonly streams: StreamStore;
  readonly letters: Letters;
  readonly tables: TableStore;
  readonly blobs: BlobStore;
}

const LATENCY_MS_MAX = 3;
export const LEASE_MS = 10_000;
const NODES = "nodes";

export class SharedDatabase {
  readonly #world: World;
  readonly #random: Random;
  readonly #parts: Promise<SharedParts>;
  readonly #hintLost: number;

  constructor(world: World) {
    this.#world = world;
    this.#random = world.random.fork("shared database");
    this.#hintLost = this.#random.pick([0, 0.3, 1]);
    const now = (): number => EPOCH_MS + world.nowMs;
    const blobs = memoryBlobStore({ now });
    const log = new MemoryLog({ durability: "fsync", storeBlob: blobs.store });
    const letters = new MemoryLetters();
    this.#parts = openLogStreamStore(log, { now, youngestBytes: 0 }).then((store) => ({
      streams: letters.around(store),
      letters,
      tables: memoryTableStore({ now }),
      blobs,
    }));
  }

  async open(process: SimProcess): Promise<SharedParts> {
    const parts = await this.#parts;
    const letters = this.#seenBy(process, parts.letters);
    const listen: Letters["listen"] = (hear) =>
      parts.letters.listen((hint) => {
        if (!this.#random.chance(this.#hintLost)) process.notify(() => hear(hint));
      });
    return {
      streams: this.#seenBy(process, parts.streams),
      letters: {
        listen,
        post: (...given) => letters.post(...given),
        read: (...given) => letters.read(...given),
        discard: (...given) => letters.discard(...given),
      },
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
    process.env.after(LEASE_MS / 3, () => void look());
  };
  process.env.after(LEASE_MS / 3, () => void look());
  return {
    self,
    isAlive: async (owner) => (await tables.get({ table: NODES, key: owner })) !== undefined,
    onGone(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
