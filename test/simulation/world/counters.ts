/**
 * How often each fault kind and each "sometimes" condition was hit.
 *
 * A simulator that never reaches a situation proves nothing about it. Kinds are announced before
 * the run, counted in every seed, and merged over a campaign; one that stays at zero is a failure.
 *
 * Invariant: merging is addition, so the order of seeds, and the workers they ran in, do not matter.
 */
export class Counters {
  readonly #counts = new Map<string, number>();

  /** Announces kinds that the campaign must reach at least once. */
  expect(kinds: Iterable<string>): void {
    for (const kind of kinds) if (!this.#counts.has(kind)) this.#counts.set(kind, 0);
  }

  hit(kind: string, times = 1): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + times);
  }

  of(kind: string): number {
    return this.#counts.get(kind) ?? 0;
  }

  neverHit(): readonly string[] {
    return [...this.#counts].filter(([, count]) => count === 0).map(([kind]) => kind);
  }

  merge(other: Counters | Readonly<Record<string, number>>): void {
    const counts = other instanceof Counters ? other.#counts : Object.entries(other);
    for (const [kind, count] of counts) this.hit(kind, count);
  }

  /** Sorted by kind; plain data, so that it can cross a process boundary. */
  toJSON(): Record<string, number> {
    return Object.fromEntries([...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}
