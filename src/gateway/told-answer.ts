/**
 * One answer as it is told: a list of deltas that grows, and readers, each at a place of its own.
 *
 * A reader counts from the moment it is made until it has the last delta or leaves, and leaving takes effect at once, whatever the model does
 * meanwhile: on that hang the clock that gives up what nobody reads, and what counts as a retry.
 */
import type { AnswerDelta } from "./openai/index.ts";

export class ToldAnswer {
  readonly #deltas: AnswerDelta[];
  readonly #readers = new Set<AnswerReader>();
  #end: { readonly failure: Error | undefined } | undefined;
  readonly #onReaders: () => void;

  /** `onReaders` is called when one comes and when one leaves. */
  constructor(onReaders: () => void, told: readonly AnswerDelta[] = []) {
    this.#onReaders = onReaders;
    this.#deltas = [...told];
  }

  get deltas(): readonly AnswerDelta[] {
    return this.#deltas;
  }

  get readers(): number {
    return this.#readers.size;
  }

  tell(delta: AnswerDelta): void {
    this.#deltas.push(delta);
    for (const reader of this.#readers) reader.wake();
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

function isLast({ kind }: AnswerDelta): boolean {
  return kind === "calls" || kind === "ended";
}
