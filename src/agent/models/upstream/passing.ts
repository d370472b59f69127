/** Statuses that say "later", as opposed to "not so". */
const PASSING: ReadonlySet<number> = new Set([0, 408, 409, 429]);

export function isPassing(status: number): boolean {
  return PASSING.has(status) || status >= 500;
}
