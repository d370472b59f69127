/**
 * A set of numbers as ranges.
 *
 * The numbers of forgotten streams are nearly all numbers up to some point, so as ranges they stay
 * small for ever and can be restated whole whenever they grow.
 *
 * Invariant: ranges are sorted, not empty, and do not touch each other.
 */
export interface NumberRange {
  readonly first: number;
  readonly last: number;
}

export function hasNumber(ranges: readonly NumberRange[], number: number): boolean {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const range = ranges[middle];
    if (range !== undefined && range.last < number) low = middle + 1;
    else high = middle;
  }
  const found = ranges[low];
  return found !== undefined && found.first <= number;
}

export function addNumbers(
  ranges: readonly NumberRange[],
  numbers: readonly number[],
): readonly NumberRange[] {
  const all = [...ranges, ...numbers.map((number) => ({ first: number, last: number }))];
  all.sort((a, b) => a.first - b.first);
  const joined: NumberRange[] = [];
  for (const range of all) {
    const before = joined.at(-1);
    if (before === undefined || range.first > before.last + 1) joined.push(range);
    else joined[joined.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
  }
  return joined;
}
