/**
 * A process that can die: from one moment on nothing that it asks of its disk ever happens, and nobody tells it.
 *
 * It can be made to die at any of its durable writes, just when that write is on the disk and before the process knows.
 *
 * All that it asks of its disks happens later than it asks, and in the order in which it asks, as in the one thread of a database:
 * what it had asked for when it died, and had not happened yet, never happens.
 */
import { setImmediate, setTimeout } from "node:timers/promises";
import { HoldfastError } from "../../src/protocol/errors.ts";

export class Life {
  isDead = false;
  /** Durable writes so far. */
  writes = 0;
  dieAt: number | undefined;
  /** Told of each write to the disk, when it is asked for. */
  onWrite: (name: string, given: readonly unknown[]) => void = () => undefined;
  /** Told of each read. */
  onRead: (name: string, given: readonly unknown[]) => void = () => undefined;
  /** So long each read takes. */
  readMs = 0;
  /** Batches of rows that it began. */
  batches = 0;
  /** This one never reaches the disk: the process is dead before. */
  loseBatch: number | undefined;
  /** Appends to its log that it began. */
  appends = 0;
  /** This one never reaches the disk: the process is dead before. */
  loseAppend: number | undefined;
  readonly died = Promise.withResolvers<void>();
  #turn: Promise<unknown> = Promise.resolve();
  readonly #never = Promise.withResolvers<never>();

  constructor() {
    this.#never.promise.catch(() => undefined);
  }

  die(): void {
    this.isDead = true;
    this.died.resolve();
  }

  /** What it still waits for fails, so that nothing of it is left; it reaches no disk any more. */
  bury(): void {
    this.#never.reject(new HoldfastError("unavailable", "this process is dead"));
  }

  /** The same object, as this process sees it; `writing` names what it does to the disk. */
  mortal<Target extends object>(target: Target, writing: readonly string[]): Target {
    const seen = (_: Target, name: string | symbol): unknown => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name === "scan") return (): unknown => Reflect.apply(value, target, []);
      return (...given: readonly unknown[]): unknown => {
        const isWrite = writing.includes(String(name));
        if (!this.isDead) (isWrite ? this.onWrite : this.onRead)(String(name), given);
        const work = (): unknown => Reflect.apply(value, target, given);
        const lost = { batch: () => this.#batch(work), append: () => this.#append(work) };
        return this.#inTurn(name === "batch" || name === "append" ? lost[name] : work, isWrite);
      };
    };
    return new Proxy(target, { get: seen });
  }

  #inTurn(work: () => unknown, isWrite: boolean): Promise<unknown> {
    const happened = this.#turn.then(async () => {
      // The process goes on meanwhile.
      if (isWrite) await setImmediate();
      else if (this.readMs > 0) await setTimeout(this.readMs);
      return this.isDead ? this.#never.promise : isWrite ? this.#written(work()) : work();
    });
    this.#turn = happened.catch(() => undefined);
    return happened;
  }

  #batch(work: () => unknown): unknown {
    if (++this.batches === this.loseBatch) this.die();
    return this.isDead ? this.#never.promise : work();
  }

  #append(work: () => unknown): unknown {
    if (++this.appends === this.loseAppend) this.die();
    return this.isDead ? this.#never.promise : work();
  }

  async #written(result: unknown): Promise<unknown> {
    const value: unknown = await result;
    if (this.isDead) return this.#never.promise;
    this.writes++;
    if (this.writes !== this.dieAt) return value;
    this.die();
    return this.#never.promise;
  }
}
