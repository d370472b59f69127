/**
 * Serves an answer from any of its events on: live answers, retries, replays and `GET /v1/streams/{id}/events` are all read here.
 *
 * A reader projects the answer's events for itself. They come from memory while memory holds the reader's place, and otherwise from the
 * stream's log; the reader cannot tell. What was said before it came is read first, without what was rolled back; what follows is given out as it comes,
 * and a step that begins anew then is passed over as far as it says the same. Of a log that is being read back after a restart, while the model call is held, a reader gets what follows its
 * own words as it is read: it does not wait for the end of a long log.
 *
 * Invariant: the end of an answer is given out only when it is settled, and with the tool call ids that clients know.
 */
import { HoldfastError } from "../protocol/errors.ts";
import { openAttempt } from "../turn/open-step.ts";
import type { Environment } from "../transport/environment.ts";
import type { AnswerRef } from "./answer-ref.ts";
import type { AnswerMemory, HeardEvent } from "./answer-memory.ts";
import type { HeldStreams } from "./left-streams.ts";
import type { Names } from "./names.ts";
import { type AnswerDelta, project, type ProjectedRange, projectRange } from "./openai/index.ts";
import type { GatewayOptions } from "./options.ts";
import {
  answerEvents,
  isPauseDelta,
  isStoppedBehind,
  latestAnswer,
  type LoggedAnswer,
  type StreamSource,
} from "./stream-events.ts";

/** Longer than a stream takes to be read back, shorter than a client waits. */
export const CATCH_UP_MS = 5_000;

/** Longer than any log takes to be read. */
const REPLAY_MS = 30_000;

interface AnswerLogParts {
  readonly clientOf: GatewayOptions["clientOf"];
  readonly names: Names;
  readonly environment: Pick<Environment, "after">;
  readonly held?: Pick<HeldStreams, "namesOf"> | undefined;
  /** On tables that nodes share no node hears how a turn ends whose session rests: its log is asked. */
  readonly isShared?: boolean;
}

export interface AnswerRead {
  readonly principal: string;
  readonly answer: Pick<AnswerRef, "streamId" | "fromEvent">;
  /** What the reader has already. */
  readonly seenThrough: number;
  /** The reader is given also what it has: its form repeats it. Default: not. */
  readonly isAgain?: boolean;
  readonly signal: AbortSignal;
  /** Of an answer that is under way here; undefined: only its log is known. */
  readonly memory?: AnswerMemory | undefined;
}

export class AnswerLog {
  readonly #parts: AnswerLogParts;

  constructor(parts: AnswerLogParts) {
    this.#parts = parts;
  }

  /** A reader of the answer. It counts as one of `memory` from now until it has the last delta or leaves. */
  read(read: AnswerRead): AnswerReader {
    return new AnswerReader((signal) => this.#deltas({ ...read, signal }), read);
  }

  /** The answer, once it is complete; undefined when it is no longer to be had, or was stopped: a retry does not ask for that end. */
  async whole(read: Omit<AnswerRead, "seenThrough">): Promise<AnswerReader | undefined> {
    const late = new AbortController();
    const cancel = this.#parts.environment.after(REPLAY_MS, () => late.abort());
    const signal = AbortSignal.any([read.signal, late.signal]);
    try {
      const whole: AnswerDelta[] = [];
      const seenThrough = read.answer.fromEvent;
      for await (const delta of this.#deltas({ ...read, seenThrough, signal })) whole.push(delta);
      const last = whole.at(-1);
      if (last?.kind === "ended" && last.reason === "aborted") return undefined;
      if (this.#parts.isShared === true && last?.kind === "calls") {
        const log = this.#source(read.principal, read.answer.streamId, signal, true);
        if (await isStoppedBehind(log, last.eventId)) return undefined;
      }
      return new AnswerReader(() => given(whole), { signal: read.signal });
    } catch (cause) {
      // A client that has left wants no other answer either.
      if (cause instanceof HoldfastError && !read.signal.aborted) return undefined;
      throw cause;
    } finally {
      cancel();
    }
  }

  /** The latest answer of a stream that is over; `named`: the one that its client means. */
  latest(
    principal: string,
    streamId: string,
    wanted: { readonly named: number | undefined; readonly signal: AbortSignal },
  ): Promise<LoggedAnswer> {
    return latestAnswer(this.#source(principal, streamId, wanted.signal, true), wanted.named);
  }

  async *#deltas(read: AnswerRead): AsyncGenerator<AnswerDelta, void> {
    const { principal, answer, seenThrough, isAgain = false, signal, memory } = read;
    const { streamId, fromEvent } = answer;
    const givenAfter = isAgain ? fromEvent : seenThrough;
    const known: HeardEvent[] = [];
    let last = fromEvent;
    let following: AsyncGenerator<HeardEvent, void> | undefined;
    let begun: ProjectedRange | undefined;
    const ready = async (delta: AnswerDelta): Promise<AnswerDelta> => {
      if (isPauseDelta(delta)) await memory?.settled(delta.eventId, signal);
      return named(delta, this.#parts.names, { principal, streamId });
    };
    const events = (): AsyncGenerator<HeardEvent, void> => (following ??= this.#events(read, last));
    const isPaused = (): boolean => known.at(-1)?.isPause === true;
    const take = async (through: number): Promise<void> => {
      // At once where memory has them: a promise for each of thousands would take as long as they take to be read.
      const isHere = following === undefined && memory?.holds(seenThrough) === true;
      if (isHere) known.push(...memory.known(last, through, seenThrough));
      last = Math.max(last, known.at(-1)?.eventId ?? 0);
      while (last < through && !isPaused()) {
        const { done, value } = await events().next();
        if (done === true) return;
        known.push(value);
        last = value.eventId;
      }
    };
    try {
      if (memory?.isBehind === true) {
        if (seenThrough > (await memory.logEnd(signal))) throw placeAhead();
        await memory.readThrough(seenThrough, signal);
        await take(seenThrough);
        begun = projectRange(known, { seenThrough, givenAfter });
        const { shown } = begun.state;
        // A held call does not begin its text anew: a reader that has words of it need not wait for the rest of its log.
        if (shown.text === "" || !this.#isHeld(read, known)) await memory.caughtUp(signal);
      }
      if (memory !== undefined && memory.held.size > 0 && !memory.isBehind) {
        await take(memory.lastEvent);
        // What is held is a call of another attempt: the step under way may say something else than its log has.
        if (openAttempt(known) !== undefined && !this.#isHeld(read, known))
          await this.#saidMore(memory, signal);
      }
      await take(memory?.lastEvent ?? Infinity);
      let { state, deltas } = projectRange(known, { seenThrough, givenAfter, begun });
      for (const delta of deltas) yield await ready(delta);
      if (!isPaused()) {
        for await (const { eventId, message, blob } of events()) {
          last = eventId;
          [state, deltas] = project(state, eventId, message, blob);
          if (eventId > givenAfter) for (const delta of deltas) yield await ready(delta);
        }
      }
      if (!isAgain && seenThrough > last) throw placeAhead();
    } finally {
      await following?.return();
    }
  }

  /** Whether the call of the last attempt in these events is held. */
  #isHeld({ answer, memory }: AnswerRead, events: readonly HeardEvent[]): boolean {
    const attempt = openAttempt(events);
    const names = attempt && this.#parts.held?.namesOf(answer.streamId, attempt);
    // Mostly the first one is it.
    for (const name of names ?? []) if (memory?.held.has(name) === true) return true;
    return false;
  }

  /** Not for ever: a turn that waits for something says nothing. */
  async #saidMore(memory: AnswerMemory, signal: AbortSignal): Promise<void> {
    const late = new AbortController();
    const cancel = this.#parts.environment.after(CATCH_UP_MS, () => late.abort());
    await memory.saidMore(AbortSignal.any([signal, late.signal]));
    cancel();
  }

  /** The answer's events behind this one, to the pause that ends it. */
  async *#events(
    { principal, answer, seenThrough, signal, memory }: AnswerRead,
    after: number,
  ): AsyncGenerator<HeardEvent, void> {
    const { streamId, fromEvent } = answer;
    let last = after;
    if (memory?.holds(seenThrough) === true) {
      for await (const event of memory.events(after, signal, seenThrough)) {
        yield event;
        if (event.isPause) return;
        last = event.eventId;
      }
    }
    // What memory does not have is in the log. Without a session the turn does not run, and nothing would answer what it asks for.
    const source = this.#source(principal, streamId, signal, memory === undefined);
    for await (const event of answerEvents(source, fromEvent)) if (event.eventId > last) yield event;
  }

  #source(principal: string, streamId: string, signal: AbortSignal, isPast: boolean): StreamSource {
    return { client: this.#parts.clientOf(principal), streamId, signal, isPast };
  }
}

/** Of an answer. */
interface Owner {
  readonly principal: string;
  readonly streamId: string;
}

/** Never clamped: a client that says so is mistaken, and must not take it for the whole answer (B5). */
export function placeAhead(): HoldfastError {
  return new HoldfastError("event_ahead", "this Last-Event-ID was never sent; ask without it");
}

/** The delta with what clients are given in place of what the server says: tool call ids, and tokens for signed thoughts. */
export function named<Delta extends AnswerDelta>(
  delta: Delta,
  names: Names,
  { principal, streamId }: Owner,
): Delta {
  if (delta.kind === "thought")
    return { ...delta, token: names.thoughts.seal(principal, streamId, delta.thought) };
  if (delta.kind !== "calls") return delta;
  const calls = delta.calls.map((call) => ({ ...call, callId: names.toolId(streamId, call.execId) }));
  return { ...delta, calls };
}

async function* given(deltas: readonly AnswerDelta[]): AsyncGenerator<AnswerDelta, void> {
  yield* deltas;
}

/** Made once: every response leaves its answer, and the platform's own reason would cost a stack each time. */
const LEFT = new Error("the response has left its answer");

/** One response's way through an answer. Leaving takes effect at once, whatever the model does meanwhile: the session's clock depends on it. */
export class AnswerReader implements AsyncIterableIterator<AnswerDelta, undefined> {
  readonly #deltas: AsyncGenerator<AnswerDelta, void>;
  /** Of the response, and of the reader itself. */
  readonly #stop = new AbortController();
  readonly #leave: () => void;
  #hasLeft = false;

  constructor(
    deltasOf: (signal: AbortSignal) => AsyncGenerator<AnswerDelta, void>,
    { signal, memory }: Pick<AnswerRead, "signal" | "memory">,
  ) {
    const stop = (): void => this.#stop.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    this.#deltas = deltasOf(this.#stop.signal);
    const leave = memory?.attend();
    this.#leave = () => {
      signal.removeEventListener("abort", stop);
      leave?.();
    };
  }

  async next(): Promise<IteratorResult<AnswerDelta, undefined>> {
    if (this.#hasLeft) return { done: true, value: undefined };
    try {
      const { done, value } = await this.#deltas.next();
      if (done !== true && !isPauseDelta(value)) return { done: false, value };
      await this.return();
      return done === true ? { done, value: undefined } : { done: false, value };
    } catch (cause) {
      if (this.#hasLeft) return { done: true, value: undefined };
      await this.return();
      throw cause;
    }
  }

  async return(): Promise<IteratorResult<AnswerDelta, undefined>> {
    if (this.#hasLeft) return { done: true, value: undefined };
    this.#hasLeft = true;
    this.#stop.abort(LEFT);
    this.#leave();
    // Not waited for: what is under way in there may take its time.
    this.#deltas.return().catch(() => undefined);
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
