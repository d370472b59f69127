/**
 * A client that does not let go, in one world in eleven: it stops an answer that broke off and then asks for it again, asks for it and stops it at the same
 * moment, asks for it and leaves for a long time, or says something else under the key of an answer that it stopped.
 *
 * So sessions are met in states that last some milliseconds: asleep after a start, and while their streams are read back.
 */
import type { Random } from "../world/index.ts";
import type { ClientParts } from "./client-parts.ts";
import type { Exchange, Shown } from "./exchange.ts";

const WORLDS = 11;
const WORLD = 5;
/** A stream is read back within so many. */
const READ_BACK_MS = 12;
/** A response has begun by then, or waits for its model. */
const BEGUN_MS = 300;
/** Longer than any grace period. */
const MUCH_LATER_MS = 100_000;

/** Said by the number of the seed: all other worlds replay as they did. */
export function isStubborn(seed: number): boolean {
  return seed % WORLDS === WORLD;
}

export class Stubborn {
  readonly #parts: Pick<ClientParts, "world" | "door">;
  readonly #principal: string;
  readonly #random: Random;

  constructor(principal: string, parts: Pick<ClientParts, "world" | "door">, random: Random) {
    this.#parts = parts;
    this.#principal = principal;
    this.#random = random;
  }

  /** An answer broke off, and is asked for again. */
  async beforeRetry(shown: Shown): Promise<void> {
    if (this.#random.chance(0.2)) await this.#stop(shown, "stop_broken");
  }

  /** Its retry is on its way. */
  async withRetry(shown: Shown, retry: Exchange): Promise<void> {
    const [{ world }, random] = [this.#parts, this.#random];
    if (random.chance(0.5)) {
      const stop = (): void => void this.#stop(shown, "stop_retry").catch(world.fail);
      world.enqueue(random.int(READ_BACK_MS), stop);
      return;
    }
    const isLeft = random.chance(0.5);
    if (!isLeft) return;
    world.hit("gateway.asked.retry_left");
    world.enqueue(random.int(BEGUN_MS), () => retry.cut());
    await new Promise<void>((resolve) => world.enqueue(MUCH_LATER_MS, resolve));
  }

  async #stop({ streamId }: Shown, kind: string): Promise<void> {
    const { world, door } = this.#parts;
    if (streamId === "") return;
    world.hit(`gateway.asked.${kind}`);
    world.trace(this.#principal, "does", kind);
    await door.stop(this.#principal, streamId);
  }
}
