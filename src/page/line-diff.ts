/**
 * What changes between two texts, line by line.
 */

export interface DiffLine {
  readonly kind: "same" | "gone" | "new";
  readonly text: string;
}

/** Beyond this many lines on both sides together everything between what is equal at the ends counts as changed. */
const LINES_MAX = 2_000;

export function lineDiff(before: string, after: string): readonly DiffLine[] {
  const [old, fresh] = [linesOf(before), linesOf(after)];
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < fresh.length - head && old.at(-1 - tail) === fresh.at(-1 - tail))
    tail++;
  const middle = between(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail));
  const same = (text: string): DiffLine => ({ kind: "same", text });
  return [...old.slice(0, head).map(same), ...middle, ...old.slice(old.length - tail).map(same)];
}

function linesOf(text: string): readonly string[] {
  return text === "" ? [] : text.split("\n");
}

/** The longest common lines stay; `lengths` has how many there are from each place on. */
function between(old: readonly string[], fresh: readonly string[]): readonly DiffLine[] {
  const gone = (text: string): DiffLine => ({ kind: "gone", text });
  const added = (text: string): DiffLine => ({ kind: "new", text });
  if (old.length + fresh.length > LINES_MAX) return [...old.map(gone), ...fresh.map(added)];
  const width = fresh.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row--)
    for (let column = fresh.length - 1; column >= 0; column--)
      lengths[row * width + column] =
        old[row] === fresh[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
  const lines: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < fresh.length) {
    const [mine = "", theirs = ""] = [old[row], fresh[column]];
    if (row < old.length && column < fresh.length && mine === theirs) {
      lines.push({ kind: "same", text: mine });
      row++;
      column++;
    } else if (row < old.length && (column >= fresh.length || at(row + 1, column) >= at(row, column + 1))) {
      lines.push(gone(mine));
      row++;
    } else {
      lines.push(added(theirs));
      column++;
    }
  }
  return lines;
}
