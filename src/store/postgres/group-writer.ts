/**
 * Sends groups to the database, one behind the other over one connection, and answers the callers of the acts in them.
 *
 * Whatever waits when a group has returned goes into the next one together: with no load an act leaves at once, under load acts batch by themselves, and no timer is involved.
 * What shares a group, what became of it and what each act is answered is decided elsewhere (`plan.ts`, `group-fate.ts`, `verdicts.ts`).
 *
 * Invariant: at most one group is under way, and the next one leaves when the fate of this one is known (A3).
 */
import type { HoldfastError } from "../../protocol/errors.ts";
import { given } from "../../protocol/given.ts";
import { type Act, bytesOf } from "./acts.ts";
import type { Row, Statement } from "./driver.ts";
import { unavailable } from "./failures.ts";
import type { Found, GroupCarrier } from "./group-carrier.ts";
import { hasHappened } from "./group-fate.ts";
import { groupLength } from "./plan.ts";
import type { ReadBack, Verdict } from "./verdicts.ts";

/** An act, and how its answers are judged. */
export interface Asked<T> {
  readonly act: Act;
  readonly answer: (outcome: Found) => Verdict<T>;
  /** The same when the group happened and its answer was lost. */
  readonly readBack: (found: ReadBack) => Verdict<T>;
}

/** How long a group took, from its sending to its answer, and how many bytes of bodies it had. */
export interface GroupSize {
  readonly seconds: number;
  readonly bytes: number;
}

/** Called behind each group that is durable. */
interface ToldOfGroups {
  /** To count, or to watch. */
  readonly onGroup: (group: GroupSize) => void;
  /** With what it did. */
  readonly onDurable: (acts: readonly Act[]) => void;
}

/** An act that waits, without regard to what it is answered. */
interface Waiting {
  readonly act: Act;
  /** False when it belongs into the next group. */
  readonly settle: (from: { readonly outcome: Found } | { readonly back: ReadBack }) => boolean;
  readonly reject: (error: unknown) => void;
}

/** Undone or lost so often in a row, a group has another problem. */
const TRIES_MAX = 20;

export class GroupWriter {
  readonly #carrier: GroupCarrier;
  readonly #told: Partial<ToldOfGroups>;
  #queue: Waiting[] = [];
  #pumping: Promise<void> | undefined;
  #groupNumber = 0;
  #isClosing = false;
  #failure: HoldfastError | undefined;
  readonly #failed = Promise.withResolvers<HoldfastError>();

  constructor(carrier: GroupCarrier, told: Partial<ToldOfGroups> = {}) {
    this.#carrier = carrier;
    this.#told = told;
  }

  /** Resolves when the database could not be reached for too long, or promises less than before: from then on everything is refused (F5). */
  get failed(): Promise<HoldfastError> {
    return this.#failed.promise;
  }

  assertUsable(): void {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw refusal;
  }

  submit<T>({ act, answer, readBack }: Asked<T>): Promise<T> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      this.#queue.push({
        act,
        reject,
        settle(from) {
          const verdict = "outcome" in from ? answer(from.outcome) : readBack(from.back);
          if (verdict.kind === "answer") resolve(verdict.answer);
          if (verdict.kind === "refuse") reject(verdict.error);
          return verdict.kind !== "again";
        },
      });
      this.#pumping ??= this.#pump();
    });
  }

  /** What was asked for before is still done. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#pumping;
    await this.#carrier.close();
  }

  fail(cause: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = unavailable("the database cannot be used any more; the store must be opened anew", cause);
    this.#failed.resolve(this.#failure);
    for (const { reject } of this.#queue.splice(0)) reject(this.#refusal());
  }

  #refusal(): HoldfastError | undefined {
    if (this.#failure !== undefined) return unavailable(this.#failure.message, this.#failure.cause);
    return this.#isClosing ? unavailable("the store is closed") : undefined;
  }

  /** One group after the other until nothing waits. Never rejects: a failure answers the callers that wait. */
  async #pump(): Promise<void> {
    // Whatever is asked for in the same turn of the event loop shares the first group.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const taken = this.#queue.splice(0, groupLength(this.#queue.map(({ act }) => act)));
      try {
        await this.#carryOut(taken);
      } catch (error) {
        this.fail(error);
        for (const { reject } of taken) reject(this.#refusal() ?? error);
      }
    }
    this.#pumping = undefined;
  }

  /** Returns when each act has its answer or waits for the next group. Rejects when the store has failed. */
  async #carryOut(waiting: readonly Waiting[]): Promise<void> {
    const acts = waiting.map(({ act }) => act);
    for (let tries = 1; ; tries++) {
      const groupNumber = ++this.#groupNumber;
      const beganMs = performance.now();
      const fate = await this.#carrier.carry(groupNumber, acts);
      if (fate.kind === "committed") {
        const seconds = (performance.now() - beganMs) / 1_000;
        this.#told.onGroup?.({ seconds, bytes: acts.reduce((sum, act) => sum + bytesOf(act), 0) });
        this.#settle(waiting, { outcome: fate.found });
        return this.#told.onDurable?.(acts);
      }
      if (fate.kind === "unknown") {
        if (hasHappened(groupNumber, await this.#carrier.settle(fate.cause))) {
          this.#settle(waiting, { back: await this.#carrier.readBack(acts) });
          return this.#told.onDurable?.(acts);
        }
        if (tries === TRIES_MAX) throw fate.cause;
        continue;
      }
      if (fate.meaning === "full" || tries === TRIES_MAX) throw fate.cause;
      if (fate.meaning === "again") continue;
      const [only] = waiting;
      if (waiting.length === 1) return only?.reject(unavailable("the database refused it", fate.cause));
      // One of them is why: halves find it without asking for each alone.
      const half = Math.ceil(waiting.length / 2);
      await this.#carryOut(waiting.slice(0, half));
      await this.#carryOut(waiting.slice(half));
      return;
    }
  }

  #settle(waiting: readonly Waiting[], from: Parameters<Waiting["settle"]>[0]): void {
    const left = waiting.filter((one) => {
      try {
        return !one.settle(from);
      } catch (error) {
        one.reject(error);
        return false;
      }
    });
    this.#queue.unshift(...left);
  }
}

/** A statement in a group of its own or with others; it may be carried out twice. */
export function statement(
  writer: GroupWriter,
  statement: Statement,
  tells?: string,
): Promise<readonly Row[]> {
  const act = { kind: "statement", statement, ...given({ tells }) } as const;
  return writer.submit({
    act,
    answer: ({ rowsOf }) => ({ kind: "answer", answer: rowsOf.get(act) ?? [] }),
    readBack: () => ({ kind: "again" }),
  });
}
