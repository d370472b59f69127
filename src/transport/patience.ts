/**
 * Gives up a call in which nothing moves any more: neither TCP nor HTTP says by itself that the other end has vanished.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Environment } from "./environment.ts";

export class Patience {
  readonly #environment: Environment;
  readonly #limitMs: number;
  readonly #abort = new AbortController();
  #cancel: () => void;

  constructor(environment: Environment, limitMs: number) {
    this.#environment = environment;
    this.#limitMs = limitMs;
    this.#cancel = this.#wait();
  }

  /** Fires when it has run out. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Something moved. */
  renew(): void {
    this.#cancel();
    this.#cancel = this.#wait();
  }

  end(): void {
    this.#cancel();
  }

  #wait(): () => void {
    return this.#environment.after(this.#limitMs, () =>
      this.#abort.abort(new HoldfastError("connection_lost", "the server does not answer")),
    );
  }
}
