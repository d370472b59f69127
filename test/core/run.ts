/**
 * Feeds a machine a list of inputs, the way every test here does.
 */
export type Step<S, E> = readonly [S, readonly E[]];

/** The state after all inputs, and everything that was wanted on the way, in order. */
export function run<S, I, E>(
  step: (state: S, input: I) => Step<S, E>,
  start: S,
  inputs: readonly NoInfer<I>[],
): Step<S, E> {
  let state = start;
  const all: E[] = [];
  for (const input of inputs) {
    const [next, effects] = step(state, input);
    state = next;
    all.push(...effects);
  }
  return [state, all];
}

/** What the last of the inputs led to; the ones before only prepare. */
export function last<S, I, E>(
  step: (state: S, input: I) => Step<S, E>,
  start: S,
  inputs: readonly NoInfer<I>[],
): Step<S, E> {
  const [prepared] = run(step, start, inputs.slice(0, -1));
  return run(step, prepared, inputs.slice(-1));
}

/** The effects of one kind. */
export function only<E extends { readonly kind: string }, K extends E["kind"]>(
  effects: readonly E[],
  kind: K,
): readonly Extract<E, { readonly kind: K }>[] {
  return effects.filter((effect): effect is Extract<E, { readonly kind: K }> => effect.kind === kind);
}

export function kinds(effects: readonly { readonly kind: string }[]): readonly string[] {
  return effects.map((effect) => effect.kind);
}
