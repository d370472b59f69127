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

function changesOf(before: readonly string[], after: readonly string[]): readonly DiffLine[] {
  const shorter = Math.min(before.length, after.length);
  let begin = 0;
  while (begin < shorter && before[begin] === after[begin]) begin++;
  let end = 0;
  while (end < shorter - begin && before.at(-1 - end) === after.at(-1 - end)) end++;
  const [old, young] = [before.slice(begin, before.length - end), after.slice(begin, after.length - end)];
  const lines: DiffLine[] = [];
  let passed = 0;
  const pass = (until: number): void => {
    for (; passed < until; passed++) lines.push({ kind: "context", text: before[passed] ?? "" });
  };
  for (const { kind, x, y } of shortestScript(old, young) ?? everything(old, young)) {
    pass(begin + x);
    lines.push({ kind, text: (kind === "added" ? young[y] : old[x]) ?? "" });
    if (kind === "removed") passed++;
  }
  pass(before.length);
  return lines;
}

/** One line that is added or removed, and how many lines of the old (`x`) and of the new text (`y`) come before it. */
interface Edit {
  readonly kind: "added" | "removed";
  readonly x: number;
  readonly y: number;
  readonly earlier?: Edit | undefined;
}

/** Undefined when there are too many changes. A diagonal is x - y. */
function shortestScript(before: readonly string[], after: readonly string[]): readonly Edit[] | undefined {
  if (before.length + after.length === 0) return [];
  /** How far each diagonal came with one change less, and by which edits. */
  let reached = new Map<number, { readonly x: number; readonly last?: Edit }>([[0, { x: 0 }]]);
  for (let changes = 1; changes <= CHANGES_MAX; changes++) {
    const next: typeof reached = new Map();
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      const [below, above] = [reached.get(diagonal - 1), reached.get(diagonal + 1)];
      const isAdded = below === undefined || (above !== undefined && below.x < above.x);
      const from = isAdded ? above : below;
      if (from === undefined) continue;
      const last: Edit = isAdded
        ? { kind: "added", x: from.x, y: from.x - diagonal - 1, earlier: from.last }
        : { kind: "removed", x: from.x, y: from.x - diagonal + 1, earlier: from.last };
      let x = isAdded ? from.x : from.x + 1;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x++;
      if (x >= before.length && x - diagonal >= after.length) return inOrder(last);
      next.set(diagonal, { x, last });
    }
    reached = next;
  }
  return undefined;
}

function inOrder(last: Edit): readonly Edit[] {
  const edits: Edit[] = [];
  for (let edit: Edit | undefined = last; edit !== undefined; edit = edit.earlier) edits.push(edit);
  return edits.toReversed();
}

function everything(before: readonly string[], after: readonly string[]): readonly Edit[] {
  return [
    ...before.map((_, x): Edit => ({ kind: "removed", x, y: 0 })),
    ...after.map((_, y): Edit => ({ kind: "added", x: before.length, y })),
  ];
}

/** Changes that are near each other share their context. */
function inHunks(changes: readonly DiffLine[]): readonly DiffLine[] {
  const isShown = changes.map((_, at) =>
    changes
      .slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1)
      .some(({ kind }) => kind !== "context"),
  );
  const hunks: (readonly DiffLine[])[] = [];
  let [oldLine, newLine] = [1, 1];
  for (let at = 0, end = 0; at < changes.length; at = end) {
    while (end < changes.length && isShown[end] === isShown[at]) end++;
    const run = changes.slice(at, end);
    const oldCount = run.filter(({ kind }) => kind !== "added").length;
    const newCount = run.filter(({ kind }) => kind !== "removed").length;
    const text = `@@ -${oldLine},${oldCount} +${newLine},${newCount} @@`;
    if (isShown[at] === true) hunks.push([{ kind: "hunk", text }, ...run]);
    oldLine += oldCount;
    newLine += newCount;
  }
  return hunks.flat();
}
