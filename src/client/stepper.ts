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

interface Item {
  readonly input: Input;
  readonly event: EventFrame | undefined;
}

export function stepper(state: State, outputs: StepperOutputs) {
  const items: Item[] = [];
  let isStepping = false;

  function take({ input, event }: Item): void {
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

  /** What is to be taken: the item, or what came of its event where that took the short way. */
  function follow(item: Item): Item | undefined {
    const { input, event } = item;
    const next = event && followed(state, input);
    if (event === undefined || next === undefined) return item;
    state = next;
    isStepping = true;
    try {
      outputs.deliver(event);
    } catch (bug) {
      failed(bug);
    }
    isStepping = false;
    return items.shift();
  }

  function failed(bug: unknown): void {
    outputs.onBug(bug);
    items.push({ input: { kind: "leave" }, event: undefined });
  }

  return {
    // No getters in what is made for each stream: the engine keeps their functions, and all that those lead to, with the old objects (decision 240).
    state: (): State => state,
    isStepping: (): boolean => isStepping,
    put(input: Input, event?: EventFrame): void {
      const item = { input, event };
      if (isStepping) return void items.push(item);
      let next = follow(item);
      if (next === undefined) return;
      isStepping = true;
      for (; next !== undefined; next = items.shift()) take(next);
      isStepping = false;
      outputs.afterSteps();
    },
  };
}
