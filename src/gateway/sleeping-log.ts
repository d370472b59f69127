/**
 * The look of a start at the log of a session that sleeps: whether it has the whole answer, of which the record does not know yet (decision 165).
 *
 * What wakes the session reads the same log. So the look ends when that happens, and where model calls may be held it begins only when those had
 * the time to wake their sessions, or when a request waits for it: behind a kill a client waits for one reader of a long log, not for two.
 */
import type { ChangeSignal } from "../async/change-signal.ts";
import type { Environment } from "../transport/environment.ts";
import type { AnswerMemory } from "./answer-memory.ts";
import type { AnswerRef } from "./answer-ref.ts";
import type { State } from "./session.ts";
import { isWhole, type StreamSource } from "./stream-events.ts";

/** Longer than a start takes to ask which calls are held. */
const HELD_FIRST_MS = 1_000;

export interface SleepingParts {
  readonly clientOf: (principal: string) => StreamSource["client"];
  readonly environment: Pick<Environment, "after">;
  /** Where model calls may be held beside this server. */
  readonly held?: object | undefined;
  /** Aborted when the gateway closes. */
  readonly closing: AbortSignal;
}

interface Sleeper {
  readonly state: {
    readonly at: State["at"];
    readonly record: {
      readonly principal: string;
      readonly answer: Pick<AnswerRef, "streamId" | "fromEvent">;
    };
  };
  readonly memory: Pick<AnswerMemory, "isBehind">;
  /** Resumes it, if it sleeps. */
  wanted(): Promise<void>;
}

export class SleepingLog {
  readonly #parts: SleepingParts;
  readonly #session: Sleeper;
  /** Of the session. */
  readonly #changes: ChangeSignal;
  #begin = (): void => undefined;
  /** Resolves when the session's record says what its log says. */
  readonly looked: Promise<void>;

  constructor(parts: SleepingParts, session: Sleeper, changes: ChangeSignal) {
    this.#parts = parts;
    this.#session = session;
    this.#changes = changes;
    this.looked = this.#look();
  }

  /** A request waits for it. */
  hurry(): Promise<void> {
    this.#begin();
    return this.looked;
  }

  get #isAsleep(): boolean {
    return this.#session.state.at === "sleeping";
  }

  async #look(): Promise<void> {
    const { clientOf, closing, held } = this.#parts;
    const { principal, answer } = this.#session.state.record;
    const over = new AbortController();
    const signal = AbortSignal.any([closing, over.signal]);
    void this.#changes.until(() => !this.#isAsleep, signal).then(() => over.abort());
    if (held !== undefined) await this.#heldFirst(signal);
    // A log that cannot be read now is read when its answer is asked for.
    const isAll = this.#isAsleep && (await isWhole(clientOf(principal), answer, signal).catch(() => false));
    over.abort();
    if (this.#isAsleep && !isAll) return;
    await this.#session.wanted();
    await this.#changes.until(() => !this.#session.memory.isBehind || this.#session.state.at === "gone");
  }

  async #heldFirst(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#begin = resolve;
    const cancel = this.#parts.environment.after(HELD_FIRST_MS, resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
    await promise;
    cancel();
  }
}
