/**
 * What changes between two texts, line by line, with a few unchanged lines around it.
 *
 * The shortest edit script (Myers, "An O(ND) Difference Algorithm", 1986) of what is left when the common beginning and end are
 * taken away. Its cost grows with the square of the number of changes, so there is a bound: beyond it everything in between is
 * one change, which is longer to read and just as true.
 *
 * Invariant: the context and the removed lines of a hunk stand in the old text as they are, the context and the added ones in the new.
 */

export interface DiffLine {
  readonly kind: "context" | "added" | "removed" | "hunk";
  readonly text: string;
}

const CONTEXT_LINES = 3;
/** Removed and added lines together. */
const CHANGES_MAX = 500;

/** Empty when the texts are the same. */
export function diffLines(before: string, after: string): readonly DiffLine[] {
  return inHunks(changesOf(before.split("\n"), after.split("\n")));
}

type Change = DiffLine & { readonly kind: "context" | "added" | "removed" };

function changesOf(before: readonly string[], after: readonly string[]): readonly Change[] {
  const shorter = Math.min(before.length, after.length);
  let begin = 0;
  while (begin < shorter && before[begin] === after[begin]) begin++;
  let end = 0;
  while (end < shorter - begin && before.at(-1 - end) === after.at(-1 - end)) end++;
  const between = shortestScript(
    before.slice(begin, before.length - end),
    after.slice(begin, after.length - end),
  );
  const same = (text: string): Change => ({ kind: "context", text });
  return [
    ...before.slice(0, begin).map(same),
    ...between,
    ...before.slice(before.length - end, before.length).map(same),
  ];
}

/** `x` counts lines of the old text, `y` of the new one, and a diagonal is x - y. */
function shortestScript(before: readonly string[], after: readonly string[]): readonly Change[] {
  /** For each number of changes: how far each diagonal came with one change less. */
  const rounds: Map<number, number>[] = [];
  let reached = new Map([[1, 0]]);
  for (let changes = 0; changes <= Math.min(CHANGES_MAX, before.length + after.length); changes++) {
    rounds.push(reached);
    const next = new Map(reached);
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      let x = startOf(reached, diagonal, changes);
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x++;
      next.set(diagonal, x);
      if (x >= before.length && x - diagonal >= after.length) return wayBack(rounds, before, after);
    }
    reached = next;
  }
  return [
    ...before.map((text): Change => ({ kind: "removed", text })),
    ...after.map((text): Change => ({ kind: "added", text })),
  ];
}

function startOf(reached: ReadonlyMap<number, number>, diagonal: number, changes: number): number {
  const isAdded = comesByAdding(reached, diagonal, changes);
  return isAdded ? (reached.get(diagonal + 1) ?? 0) : (reached.get(diagonal - 1) ?? 0) + 1;
}

function comesByAdding(reached: ReadonlyMap<number, number>, diagonal: number, changes: number): boolean {
  if (diagonal === -changes) return true;
  if (diagonal === changes) return false;
  return (reached.get(diagonal - 1) ?? 0) < (reached.get(diagonal + 1) ?? 0);
}

function wayBack(
  rounds: readonly ReadonlyMap<number, number>[],
  before: readonly string[],
  after: readonly string[],
): readonly Change[] {
  const backwards: Change[] = [];
  let x = before.length;
  let y = after.length;
  for (const [back, reached] of rounds.toReversed().entries()) {
    const changes = rounds.length - 1 - back;
    const diagonal = x - y;
    const isAdded = comesByAdding(reached, diagonal, changes);
    const start = startOf(reached, diagonal, changes);
    while (x > Math.max(0, start) && y > 0 && x > 0 && y > start - diagonal) {
      backwards.push({ kind: "context", text: before[--x] ?? "" });
      y--;
    }
    if (changes === 0) break;
    if (isAdded) backwards.push({ kind: "added", text: after[--y] ?? "" });
    else backwards.push({ kind: "removed", text: before[--x] ?? "" });
  }
  return backwards.toReversed();
}

function inHunks(changes: readonly Change[]): readonly DiffLine[] {
  const lines: DiffLine[] = [];
  let at = 0;
  let [oldLine, newLine] = [1, 1];
  const pass = (until: number, into?: DiffLine[]): void => {
    for (; at < until; at++) {
      const change = changes[at];
      if (change === undefined) return;
      if (change.kind !== "added") oldLine++;
      if (change.kind !== "removed") newLine++;
      into?.push(change);
    }
  };
  for (let changed = nextChange(changes, 0); changed !== -1; changed = nextChange(changes, at)) {
    pass(changed - CONTEXT_LINES);
    const [oldFirst, newFirst] = [oldLine, newLine];
    const hunk: DiffLine[] = [];
    let last = changed;
    // Changes that are near each other share their context.
    for (let next = changed; next !== -1 && next - last <= 2 * CONTEXT_LINES + 1;) {
      last = next;
      next = nextChange(changes, next + 1);
    }
    pass(last + 1 + CONTEXT_LINES, hunk);
    lines.push({
      kind: "hunk",
      text: `@@ -${oldFirst},${oldLine - oldFirst} +${newFirst},${newLine - newFirst} @@`,
    });
    for (const line of hunk) lines.push(line);
  }
  return lines;
}

function nextChange(changes: readonly Change[], from: number): number {
  for (let at = from; at < changes.length; at++) if (changes[at]?.kind !== "context") return at;
  return -1;
}
