/**
 * Steps the machine of one stream and hands over what it orders, in order. An event that only has to be delivered takes the short way: nothing has to be looked
 * at behind it.
 *
 * Steps never nest: what happens while one is being carried out waits its turn. A failed assertion is our own bug: it is
 * reported, and the stream is left, which loses nothing.
 */
import type { Effect, State } from "../core/client-state.ts";
import { followed, type Input, step } from "../core/client-stream.ts";
import type { EventFrame } from "../protocol/frames.ts";

interface StepperOutputs {
  /** The event is the one that came with the input. */
  carryOut(effect: Effect, event: EventFrame | undefined): void;
  deliver(event: EventFrame): void;
  /** Nothing waits any more. */
  afterSteps(): void;
  onBug(bug: unknown): void;
}

export function stepper(state: State, outputs: StepperOutputs) {
  const inputs: { readonly input: Input; readonly event: EventFrame | undefined }[] = [];
  let isStepping = false;

  function take(input: Input, event: EventFrame | undefined): void {
    try {
      const [next, effects] = step(state, input);
      state = next;
      for (const effect of effects) carryOut(effect, event);
    } catch (bug) {
      failed(bug);
    }
  }

  /** One failing order must not swallow the next ones: the last may be `stopped`. */
  function carryOut(effect: Effect, event: EventFrame | undefined): void {
    try {
      outputs.carryOut(effect, event);
    } catch (bug) {
      failed(bug);
    }
  }

  /** True when the event is delivered and nothing came of it. */
  function follow(input: Input, event: EventFrame): boolean {
    const next = followed(state, input);
    if (next === undefined) {
      inputs.push({ input, event });
      return false;
    }
    state = next;
    isStepping = true;
    try {
      outputs.deliver(event);
    } catch (bug) {
      failed(bug);
    }
    isStepping = false;
    return inputs.length === 0;
  }

  function failed(bug: unknown): void {
    outputs.onBug(bug);
    inputs.push({ input: { kind: "leave" }, event: undefined });
  }

  return {
    // No getters in what is made for each stream: the engine keeps their functions, and all that those lead to, with the old objects (decision 240).
    state: (): State => state,
    isStepping: (): boolean => isStepping,
    put(input: Input, event?: EventFrame): void {
      if (isStepping || event === undefined) inputs.push({ input, event });
      else if (follow(input, event)) return;
      if (isStepping) return;
      isStepping = true;
      for (let next = inputs.shift(); next !== undefined; next = inputs.shift()) {
        take(next.input, next.event);
      }
      isStepping = false;
      outputs.afterSteps();
    },
  };
}
