/**
 * One answer as it is told: a list of deltas that grows, and readers, each at a place of its own.
 *
 * A reader counts from the moment it is made until it has the last delta or leaves, and leaving takes effect at once, whatever the model does
 * meanwhile: on that hang the clock that gives up what nobody reads, and what counts as a retry.
 *
 * A long answer does not take up more than its text: all but the newest deltas are joined (F2).
 */
import { type Inside, joinDeltas } from "./joined-deltas.ts";
import type { AnswerDelta } from "./openai/index.ts";

/** So many are kept one by one, for those who come back to a place that is not long past. */
const NEWEST_KEPT = 512;

export class ToldAnswer {
  #deltas: AnswerDelta[];
  #inside: readonly Inside[];
  readonly #readers = new Set<AnswerReader>();
  #end: { readonly failure: Error | undefined } | undefined;
  readonly #onReaders: () => void;

  /** `onReaders` is called when one comes and when one leaves. */
  constructor(onReaders: () => void, told: readonly AnswerDelta[] = [], inside: readonly Inside[] = []) {
    this.#onReaders = onReaders;
    this.#deltas = [...told];
    this.#inside = inside;
  }

  /** Places inside of what was joined. */
  get inside(): readonly Inside[] {
    return this.#inside;
  }

  get deltas(): readonly AnswerDelta[] {
    return this.#deltas;
  }

  get readers(): number {
    return this.#readers.size;
  }

  tell(delta: AnswerDelta): void {
    this.#deltas.push(delta);
    if (this.#deltas.length > 2 * NEWEST_KEPT) this.#join();
    for (const reader of this.#readers) reader.wake();
  }

  #join(): void {
    const old = this.#deltas.slice(0, -NEWEST_KEPT);
    const places = new Map([...this.#readers].map((reader) => [reader, reader.place()]));
    const joined = joinDeltas(old, new Set(places.values()));
    const gone = old.length - joined.deltas.length;
    for (const [reader, at] of places) reader.move(joined.places.get(at) ?? at - gone);
    this.#deltas = [...joined.deltas, ...this.#deltas.slice(old.length)];
    this.#inside = withRanges(this.#inside, joined.inside);
  }

  /** Nothing follows; who waits for more is told the failure. */
  finish(failure: Error | undefined): void {
    this.#end = { failure };
    for (const reader of this.#readers) reader.wake();
  }

  get end(): { readonly failure: Error | undefined } | undefined {
    return this.#end;
  }

  /** What there is after that event, and what will be, up to the pause or the end. */
  read(seenThrough: number): AnswerReader {
    const reader = new AnswerReader(this, seenThrough, () => {
      this.#readers.delete(reader);
      this.#onReaders();
    });
    this.#readers.add(reader);
    this.#onReaders();
    return reader;
  }
}

export class AnswerReader implements AsyncIterableIterator<AnswerDelta, undefined> {
  readonly #answer: ToldAnswer;
  readonly #seenThrough: number;
  readonly #onLeft: () => void;
  #at = 0;
  #hasLeft = false;
  #wake: (() => void) | undefined;

  constructor(answer: ToldAnswer, seenThrough: number, onLeft: () => void) {
    this.#answer = answer;
    this.#seenThrough = seenThrough;
    this.#onLeft = onLeft;
  }

  /** The delta that it reads next. */
  place(): number {
    const { deltas } = this.#answer;
    while ((deltas[this.#at]?.eventId ?? Infinity) <= this.#seenThrough) this.#at++;
    return this.#at;
  }

  /** That delta is elsewhere now. */
  move(at: number): void {
    this.#at = at;
  }

  wake(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  async next(): Promise<IteratorResult<AnswerDelta, undefined>> {
    while (!this.#hasLeft) {
      const delta = this.#answer.deltas[this.#at];
      if (delta !== undefined) {
        this.#at++;
        if (delta.eventId <= this.#seenThrough) continue;
        if (isLast(delta)) this.#leave();
        return { done: false, value: delta };
      }
      const { end } = this.#answer;
      if (end === undefined) {
        await new Promise<void>((resolve) => (this.#wake = resolve));
        continue;
      }
      this.#leave();
      if (end.failure !== undefined) throw end.failure;
    }
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<AnswerDelta, undefined>> {
    this.#leave();
    return { done: true, value: undefined };
  }

  #leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#onLeft();
    this.wake();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** A run that went on is one with what it was before. */
function withRanges(before: readonly Inside[], more: readonly Inside[]): readonly Inside[] {
  const all = [...before];
  for (const run of more) {
    const place = all.findIndex((old) => old.before === run.after + 1);
    const [old = run] = place === -1 ? [] : all.splice(place, 1);
    all.push({ after: old.after, before: run.before });
  }
  return all;
}

function isLast({ kind }: AnswerDelta): boolean {
  return kind === "calls" || kind === "ended";
}
