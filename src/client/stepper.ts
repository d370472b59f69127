/**
 * Steps the machine of one stream and hands over what it orders, in order.
 *
 * Steps never nest: what happens while one is being carried out waits its turn. A failed assertion is our own bug: it is told,
 * and the stream is left, which loses nothing.
 */
import type { Effect, State } from "../core/client-state.ts";
import { type Input, step } from "../core/client-stream.ts";
import type { EventFrame } from "../protocol/frames.ts";

export interface StepperOutputs {
  /** The event is the one that came with the input. */
  carryOut(effect: Effect, event: EventFrame | undefined): void;
  /** Nothing waits any more. */
  afterSteps(): void;
  onBug(bug: unknown): void;
}

export class Stepper {
  readonly #outputs: StepperOutputs;
  readonly #inputs: { readonly input: Input; readonly event: EventFrame | undefined }[] = [];
  #state: State;
  #isStepping = false;

  constructor(state: State, outputs: StepperOutputs) {
    this.#state = state;
    this.#outputs = outputs;
  }

  get state(): State {
    return this.#state;
  }

  get isStepping(): boolean {
    return this.#isStepping;
  }

  put(input: Input, event?: EventFrame): void {
    this.#inputs.push({ input, event });
    if (this.#isStepping) return;
    this.#isStepping = true;
    for (let next = this.#inputs.shift(); next !== undefined; next = this.#inputs.shift()) {
      this.#step(next.input, next.event);
    }
    this.#isStepping = false;
    this.#outputs.afterSteps();
  }

  #step(input: Input, event: EventFrame | undefined): void {
    try {
      const [next, effects] = step(this.#state, input);
      this.#state = next;
      for (const effect of effects) this.#attempt(() => this.#outputs.carryOut(effect, event));
    } catch (bug) {
      this.#failed(bug);
    }
  }

  /** One failing order must not swallow the next ones: the last may be `stopped`. */
  #attempt(run: () => void): void {
    try {
      run();
    } catch (bug) {
      this.#failed(bug);
    }
  }

  #failed(bug: unknown): void {
    this.#outputs.onBug(bug);
    this.#inputs.push({ input: { kind: "leave" }, event: undefined });
  }
}
