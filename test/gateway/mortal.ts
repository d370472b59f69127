/**
 * A process that can die: from one moment on nothing that it asks of its disk ever happens, and nobody tells it.
 *
 * It can be made to die at any of its durable writes, just when that write is on the disk and before the process knows.
 */
import { HoldfastError } from "../../src/protocol/errors.ts";

export class Life {
  isDead = false;
  /** Durable writes so far. */
  writes = 0;
  dieAt: number | undefined;
  /** Told of each write to the disk, when it is asked for. */
  onWrite: (name: string, given: readonly unknown[]) => void = () => undefined;
  /** Batches of rows that it began. */
  batches = 0;
  /** This one never reaches the disk: the process is dead before. */
  loseBatch: number | undefined;
  readonly died = Promise.withResolvers<void>();
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
      return (...given: readonly unknown[]): unknown => {
        if (name === "batch" && ++this.batches === this.loseBatch) this.die();
        if (this.isDead) return this.#never.promise;
        if (writing.includes(String(name))) this.onWrite(String(name), given);
        const result: unknown = Reflect.apply(value, target, given);
        return writing.includes(String(name)) ? this.#written(result) : result;
      };
    };
    return new Proxy(target, { get: seen });
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
