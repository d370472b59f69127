/**
 * How large the source is, and how large it may be. `npm run tokens` prints the count of each folder.
 *
 * Tokens are what a reader has to take in: a count of lines would fall when lines get longer.
 */
import { tokensOf } from "./tokens.ts";
import { readSource, repositoryFiles, type Source, type Violation } from "./source.ts";

/**
 * The bound only falls. It rises for new behaviour alone, and the commit that raises it names the behaviour.
 * Code that does the same as before has to fit.
 */
export const TOKENS_MAX = 640_779;

const isCounted = ({ path }: Pick<Source, "path">): boolean =>
  /^src\/.*\.tsx?$/.test(path) && !path.startsWith("src/protocol/gen/");

/** The source, without generated code, has at most `max` tokens. */
export function checkCodeSize(files: readonly Source[], max = TOKENS_MAX): Violation[] {
  const count = sum(tokensByFolder(files).values());
  if (count <= max) return [];
  const message = `${shown(count)} tokens, at most ${shown(max)}: npm run tokens shows where they are`;
  return [{ path: "src", line: 1, message }];
}

/** Tokens of each folder directly below `src`, generated code left out. */
export function tokensByFolder(files: readonly Source[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const file of files.filter(isCounted)) {
    const folder = file.path.split("/").slice(0, 2).join("/");
    counts.set(folder, (counts.get(folder) ?? 0) + tokensOf(file.text).length);
  }
  return counts;
}

function sum(counts: Iterable<number>): number {
  return [...counts].reduce((total, count) => total + count, 0);
}

function shown(count: number): string {
  return count.toLocaleString("en");
}

if (import.meta.main) {
  const root = `${import.meta.dirname}/../..`;
  const paths = repositoryFiles(root).filter((path) => isCounted({ path }));
  const counts = tokensByFolder(paths.map((path) => readSource(root, path)));
  const rows = [...counts].toSorted(([, a], [, b]) => b - a);
  for (const [folder, count] of [
    ...rows,
    [`src, at most ${shown(TOKENS_MAX)}`, sum(counts.values())] as const,
  ]) {
    process.stdout.write(`${shown(count).padStart(9)}  ${folder}\n`);
  }
}
