/**
 * What the outside world knows: what users wanted, what was promised to them, what tools really did.
 *
 * It survives every crash, because it is nobody's memory: a promise that was resolved has been made,
 * an effect that happened has happened.
 */
import { fail } from "./log-checks.ts";
import type { World } from "./world/index.ts";

/** What a check tells: steps for the trace, conditions that were met. */
type Watched = Pick<World, "trace" | "hit">;

interface Effects {
  count: number;
  readonly repeatable: boolean;
  /** How the exec ended according to a durable result. */
  outcome: string | undefined;
}

export class Ledger {
  readonly #world: Watched;
  readonly #promised = new Set<string>();
  readonly #abortWanted = new Set<string>();
  readonly #abortPromised = new Set<string>();
  readonly #opened = new Map<string, boolean>();
  readonly #degraded = new Set<string>();
  readonly #ran = new Set<string>();
  readonly #effects = new Map<string, Effects>();
  /** The clock of a shared store was set ahead by hours: no node has a lease until it renews it. */
  haveLeasesEnded = (): boolean => false;
  /** Connections of writers that servers know of. */
  readonly writers = new Set<{ holds(idempotencyKey: string): boolean }>();

  constructor(world: Watched) {
    this.#world = world;
  }

  /** `send` resolved: the words are on the client's disk and will arrive, if the journal lives. */
  promised(tag: string, index: number): void {
    this.#promised.add(`${tag}/${index}`);
  }

  isPromised(tag: string, index: number): boolean {
    return this.#promised.has(`${tag}/${index}`);
  }

  abortWanted(idempotencyKey: string): void {
    this.#abortWanted.add(idempotencyKey);
  }

  /** The client said that the wish to stop cannot be lost any more. */
  abortPromised(idempotencyKey: string): void {
    this.#abortPromised.add(idempotencyKey);
  }

  /** A client gives up on a stream that is not there yet, or because its credentials are refused: its user has to stop the turn again. */
  gaveUp(idempotencyKey: string, code: string): void {
    if (code === "not_found" || code === "unauthenticated") this.#abortPromised.delete(idempotencyKey);
  }

  isAbortPromised(idempotencyKey: string): boolean {
    return this.#abortPromised.has(idempotencyKey);
  }

  isAbortWanted(idempotencyKey: string): boolean {
    return this.#abortWanted.has(idempotencyKey);
  }

  /** A stream was opened; an endless one answers until it is aborted. */
  opened(idempotencyKey: string, endless: boolean): void {
    this.#opened.set(idempotencyKey, endless);
  }

  get streams(): ReadonlyMap<string, boolean> {
    return this.#opened;
  }

  /** A server has run this stream without its store. What a proxy repeats of it later is an echo that nobody hears. */
  degraded(idempotencyKey: string): void {
    this.#degraded.add(idempotencyKey);
  }

  /** A device has begun to carry out an exec of this stream. */
  ran(device: string, idempotencyKey: string): void {
    this.#ran.add(`${device} ${idempotencyKey}`);
  }

  /** A new journal of the device has nothing to do with what its old one ran. */
  beginsAnew(device: string, idempotencyKey: string): void {
    this.#ran.delete(`${device} ${idempotencyKey}`);
  }

  hasRun(device: string, idempotencyKey: string): boolean {
    return this.#ran.has(`${device} ${idempotencyKey}`);
  }

  isEcho(idempotencyKey: string): boolean {
    return this.#degraded.has(idempotencyKey);
  }

  /** A tool takes effect, now. */
  effect(idempotencyKey: string, execId: string, repeatable: boolean): void {
    const effects = this.#of(idempotencyKey, execId, repeatable);
    effects.count++;
    this.#world.trace("outside", "effect of", execId, effects.count);
    if (effects.count > 1 && !repeatable) fail("C1", `exec ${execId} took effect ${effects.count} times`);
    if (effects.count > 1) this.#world.hit("sometimes.repeatable_again");
    this.#check(execId, effects);
  }

  checkOutcome(idempotencyKey: string, execId: string, outcome: string): void {
    const effects = this.#of(idempotencyKey, execId, false);
    effects.outcome = outcome;
    this.#check(execId, effects);
  }

  #check(execId: string, { outcome, count }: Effects): void {
    if (outcome === "success" && count === 0)
      fail("C1", `exec ${execId} is said to be done and had no effect`);
    const mustNotHaveRun = outcome === "rejected" || outcome === "aborted";
    if (mustNotHaveRun && count > 0) fail("C1", `exec ${execId} is said to be ${outcome} and took effect`);
  }

  #of(idempotencyKey: string, execId: string, repeatable: boolean): Effects {
    const id = `${idempotencyKey}/${execId}`;
    let effects = this.#effects.get(id);
    if (effects === undefined) {
      effects = { count: 0, repeatable, outcome: undefined };
      this.#effects.set(id, effects);
    }
    return effects;
  }
}
