/**
 * Work that no request waits for. `close` of the gateway waits for its end: after that the disk may be gone.
 *
 * What a closing gateway could not do any more, such as a stop that the server had not recorded, is no bug: the next start finds it undone. On shared tables it is none either that another
 * node was first, nor that a database was lost under a write and cannot say any more what became of it.
 */
import { HoldfastError } from "../protocol/errors.ts";
import { PassingSet } from "../protocol/passing.ts";

export class BackgroundTasks {
  readonly #onBug: (bug: unknown) => void;
  readonly #isShared: boolean;
  readonly #open = new PassingSet<Promise<unknown>>();
  #isClosing = false;

  constructor(onBug: (bug: unknown) => void, isShared = false) {
    this.#onBug = onBug;
    this.#isShared = isShared;
  }

  run(work: Promise<unknown>): void {
    const over = this.#open.add(work);
    work.then(over, (cause: unknown) => {
      over();
      this.#failed(cause);
    });
  }

  #failed(cause: unknown): void {
    const code = HoldfastError.codeOf(cause);
    if (this.#isShared && code === "fenced") return;
    if (code !== "unavailable" || !(this.#isClosing || this.#isShared)) this.#onBug(cause);
  }

  /** From here on what is let go may fail. */
  closing(): void {
    this.#isClosing = true;
  }

  get isIdle(): boolean {
    return this.#open.size === 0;
  }

  /** Resolves when the tasks that are open now have ended. */
  async done(): Promise<void> {
    await Promise.allSettled(this.#open);
  }
}
