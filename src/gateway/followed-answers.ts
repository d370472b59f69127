/**
 * Answers that another node generates, read here from their streams' logs.
 *
 * Readers cannot tell: what the log says goes into a memory, as it does where the answer is generated. Its end is given out when the session's record shows that its owner has settled it. An owner
 * that dies meanwhile is noticed once a second, and its session taken over. A retry that reads here brings the tool results of its request: should the owner have died with them, or have taken the session
 * over without them, they are said from here. Where only readers without results are left, these are cut off, and their client's retry brings them.
 *
 * Invariant: what a client gets of a tool call can be found by the request that answers the call, at every node.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Environment } from "../transport/environment.ts";
import { AnswerMemory, cutOff } from "./answer-memory.ts";
import type { AnswerRef } from "./answer-ref.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import type { GatewayOptions } from "./options.ts";
import type { Saying } from "./said-results.ts";
import type { SessionStore } from "./session-store.ts";
import { loggedEvents } from "./stream-events.ts";

interface FollowedAnswersParts extends Pick<GatewayOptions, "clientOf"> {
  readonly store: Pick<SessionStore, "byStream" | "readElsewhere">;
  readonly tasks: BackgroundTasks;
  readonly environment: Pick<Environment, "after">;
  /** Takes the session over if no process generates its answer any more, or if the one that does lacks what `say` can say. */
  readonly takeUp: (principal: string, place: Place, say?: Saying) => Promise<void>;
  /** Aborted when the gateway closes. */
  readonly closing: AbortSignal;
}

const WATCH_MS = 1_000;
/** The record follows the end of an answer by a commit. */
const SETTLE_MS = { first: 5, last: 250 } as const;
/** A session's rows come before its stream. */
const UNOPENED_MS = 50;

/** An answer of a stream; without an event its latest. */
export interface Place {
  readonly streamId: string;
  readonly fromEvent: number | undefined;
}

interface Followed {
  readonly principal: string;
  readonly answer: AnswerRef;
  readonly memory: AnswerMemory;
  /** Of a retry that reads it; all of them are equal. */
  say?: Saying | undefined;
}

export class FollowedAnswers {
  readonly #parts: FollowedAnswersParts;
  readonly #byAnswer = new Map<string, Followed>();

  constructor(parts: FollowedAnswersParts) {
    this.#parts = parts;
  }

  /** The memory of an answer that is generated elsewhere. */
  of(principal: string, answer: AnswerRef, say?: Saying): AnswerMemory {
    const known = this.#byAnswer.get(answer.responseId);
    if (known !== undefined) {
      known.say ??= say;
      return known.memory;
    }
    const memory = new AnswerMemory(answer.fromEvent, () => undefined);
    memory.readBack();
    memory.heard(answer.fromEvent);
    const followed: Followed = { principal, answer, memory, say };
    this.#byAnswer.set(answer.responseId, followed);
    this.#parts.tasks.run(this.#follow(followed));
    return memory;
  }

  /** The session of these readers has moved to another node: the log says the rest. */
  goOn(principal: string, answer: AnswerRef, memory: AnswerMemory): void {
    this.#parts.tasks.run(this.#follow({ principal, answer, memory }));
  }

  async #follow(followed: Followed): Promise<void> {
    const { memory, answer } = followed;
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.#parts.closing]);
    const watched = this.#watch(followed, signal, () => over.abort());
    let failure: Error = cutOff();
    try {
      while (!signal.aborted && !(await this.#read(followed, signal))) await this.#pause(UNOPENED_MS);
    } catch (cause) {
      if (!(cause instanceof HoldfastError)) throw cause;
      failure = cause;
    } finally {
      over.abort();
      if (this.#byAnswer.get(answer.responseId) === followed) this.#byAnswer.delete(answer.responseId);
      memory.finish(failure);
      await watched;
    }
  }

  /** False when there is no such stream yet. */
  async #read(followed: Followed, signal: AbortSignal): Promise<boolean> {
    const { principal, answer, memory } = followed;
    const source = {
      client: this.#parts.clientOf(principal),
      streamId: answer.streamId,
      signal,
      isPast: false,
    };
    const heard = {
      welcomed: (head: number) => memory.welcomed(head),
      heard: (eventId: number) => memory.heard(eventId),
    };
    try {
      for await (const event of loggedEvents(
        source,
        Math.max(answer.fromEvent, memory.heardThrough),
        heard,
      )) {
        memory.add(event);
        memory.heard(event.eventId);
        if (!event.isPause) continue;
        await this.#settled(followed, signal);
        memory.settle(event.eventId);
        return true;
      }
      return true;
    } catch (cause) {
      const isUnopened = HoldfastError.codeOf(cause) === "not_found" && (await this.#isUnderWay(followed));
      if (isUnopened) return false;
      throw cause;
    }
  }

  /** Resolves when the record shows that the answer is complete. */
  async #settled(followed: Followed, signal: AbortSignal): Promise<void> {
    for (let waitMs: number = SETTLE_MS.first; await this.#isUnderWay(followed); waitMs *= 2) {
      if (signal.aborted) throw cutOff();
      await this.#pause(Math.min(waitMs, SETTLE_MS.last));
    }
  }

  async #isUnderWay({ principal, answer }: Followed): Promise<boolean> {
    const record = await this.#parts.store.byStream(principal, answer.streamId);
    return record?.state === "generating" && record.answer.fromEvent === answer.fromEvent;
  }

  /** Until the signal fires. Without readers nothing is followed. */
  async #watch(followed: Followed, signal: AbortSignal, end: () => void): Promise<void> {
    const { store, takeUp } = this.#parts;
    const { principal, answer, memory } = followed;
    for (;;) {
      // A store that is away says so itself.
      await store.readElsewhere(principal, answer.streamId).catch(() => undefined);
      await this.#pause(WATCH_MS, signal);
      if (signal.aborted) return;
      if (memory.readers === 0) return end();
      await takeUp(principal, answer, followed.say).catch(() => undefined);
      if (followed.say === undefined && (await this.#waitsInVain(followed).catch(() => false))) return end();
    }
  }

  /** Nothing was said since its owner took it over without its results. */
  async #waitsInVain({ principal, answer, memory }: Followed): Promise<boolean> {
    const record = await this.#parts.store.byStream(principal, answer.streamId);
    const isMeant = record?.lacksResults === true && record.answer.fromEvent === answer.fromEvent;
    return isMeant && memory.lastEvent <= answer.fromEvent;
  }

  #pause(delayMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel();
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const cancel = this.#parts.environment.after(delayMs, done);
      signal?.addEventListener("abort", done);
      if (signal?.aborted === true) done();
    });
  }
}
