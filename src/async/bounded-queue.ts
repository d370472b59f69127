/**
 * Values on their way from a writer to its readers: in order, and measured.
 *
 * The bound is not kept by dropping: the writer looks at `size` and writes no more for a while, until `onDrained` says that the readers have
 * taken everything. Several may read; each value goes to one of them.
 */
import { ChangeSignal } from "./change-signal.ts";

interface BoundedQueueOptions<Value> {
  readonly sizeOf: (value: Value) => number;
  /** Called when a reader has taken the last value. */
  readonly onDrained?: () => void;
}

export class BoundedQueue<Value extends object> implements AsyncIterableIterator<Value, undefined> {
  readonly #options: BoundedQueueOptions<Value>;
  readonly #changes = new ChangeSignal();
  readonly #values: Value[] = [];
  #size = 0;
  #end: { readonly failure: Error | undefined } | undefined;

  constructor(options: BoundedQueueOptions<Value>) {
    this.#options = options;
  }

  /** Of everything that waits. */
  get size(): number {
    return this.#size;
  }

  push(value: Value): void {
    this.#values.push(value);
    this.#size += this.#options.sizeOf(value);
    this.#changes.notify();
  }

  /** What waits is still read; then the iteration ends, or throws the failure. */
  finish(failure?: Error): void {
    this.#end = { failure };
    this.#changes.notify();
  }

  async next(): Promise<IteratorResult<Value, undefined>> {
    for (;;) {
      const value = this.#values.shift();
      if (value !== undefined) {
        this.#size -= this.#options.sizeOf(value);
        if (this.#values.length === 0) this.#options.onDrained?.();
        return { done: false, value };
      }
      if (this.#end?.failure !== undefined) throw this.#end.failure;
      if (this.#end !== undefined) return { done: true, value: undefined };
      await this.#changes.until(() => this.#values.length > 0 || this.#end !== undefined);
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
