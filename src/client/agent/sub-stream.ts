/**
 * One of the streams that a turn's events are split into: an async iterable with a bounded buffer.
 *
 * It has one reader. Until that one comes, messages are kept up to the bound and then let go, so that a
 * sub-stream without a reader costs nothing and holds up no other. A reader that came and is slow makes the
 * writer wait, and may be cut: what it still gets then is an error that says how much is missing.
 *
 * Invariant: what is buffered never exceeds the bound by more than one message; a reader gets every
 * message in order, or an error at the first one that is missing.
 */
import { ChangeSignal } from "../../async/change-signal.ts";
import { HoldfastError } from "../../protocol/errors.ts";

export interface SubStreamBounds {
  /** Messages that wait to be read. */
  readonly countMax: number;
  /** The same in bytes as they came. */
  readonly bytesMax: number;
}

interface Waiting<Message> {
  readonly message: Message;
  readonly bytes: number;
}

export class SubStream<Message> implements AsyncIterableIterator<Message> {
  readonly name: string;
  readonly #bounds: SubStreamBounds;
  #messages: Waiting<Message>[] = [];
  #bytes = 0;
  #dropped = 0;
  #isRead = false;
  /** The reader has left: nothing is kept for it any more. */
  #isLeft = false;
  #isCut = false;
  #isOver = false;
  #failure: Error | undefined;
  readonly #changes = new ChangeSignal();

  constructor(name: string, bounds: SubStreamBounds) {
    this.name = name;
    this.#bounds = bounds;
  }

  /** A reader is behind by the whole buffer: the next message should wait for it. */
  get isFull(): boolean {
    const { countMax, bytesMax } = this.#bounds;
    const isBehind = this.#messages.length >= countMax || this.#bytes >= bytesMax;
    return isBehind && this.#isRead && !this.#isLeft && !this.#isCut;
  }

  push(message: Message, bytes: number): void {
    if (this.#isLeft) return;
    const { countMax, bytesMax } = this.#bounds;
    if (!this.#isCut && !this.#isRead && (this.#messages.length >= countMax || this.#bytes >= bytesMax)) {
      this.cut();
    }
    if (this.#isCut) {
      this.#dropped++;
      return;
    }
    this.#messages.push({ message, bytes });
    this.#bytes += bytes;
    this.#changes.notify();
  }

  /** Gives up on the reader: what it has not read is gone, and it gets an error. */
  cut(): void {
    this.#isCut = true;
    this.#dropped += this.#messages.length;
    this.#messages = [];
    this.#bytes = 0;
    this.#changes.notify();
  }

  /** What is buffered is still read; then it ends, or fails. */
  finish(failure: Error | undefined): void {
    this.#isOver = true;
    this.#failure = failure;
    this.#changes.notify();
  }

  /** Resolves once the reader has made room, or is gone. */
  async room(): Promise<void> {
    await this.#changes.until(() => !this.isFull);
  }

  async next(): Promise<IteratorResult<Message, undefined>> {
    this.#isRead = true;
    for (;;) {
      const next = this.#messages.shift();
      if (next !== undefined) {
        this.#bytes -= next.bytes;
        this.#changes.notify();
        return { done: false, value: next.message };
      }
      if (this.#isCut) throw this.#tooSlow();
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isOver || this.#isLeft) return { done: true, value: undefined };
      await this.#changes.until(
        () => this.#messages.length > 0 || this.#isCut || this.#isOver || this.#isLeft,
      );
    }
  }

  return(): Promise<IteratorResult<Message, undefined>> {
    this.#isLeft = true;
    this.#messages = [];
    this.#bytes = 0;
    this.#changes.notify();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    this.#isRead = true;
    return this;
  }

  #tooSlow(): HoldfastError {
    return new HoldfastError(
      "overloaded",
      `the ${this.name} sub-stream was read too slowly or too late, and ${this.#dropped} messages of it were let go; ` +
        "the turn itself continues: take its view for what was missed, and read faster",
    );
  }
}
