/**
 * Which tests can notice a change of a file, the likeliest first.
 *
 * A test can notice it when the file is among what it loads: what it imports, what that imports, and what processes and workers are started
 * with, which a text names. The nearer the file, the likelier; a test of the file's own room goes first, and there one whose name has a word of the file's name.
 *
 * Left out are tests that cannot load the file, and those of other rooms that load it with a whole server around it.
 */
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path/posix";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** These only start other tests, each with a change in place: what they would notice is what those notice. */
const STARTS_TESTS = /^test\/(?:mutations|simulation\/mutants)\//;
const NAMED = /["'`]((?:\.{1,2}\/|src\/|test\/|bin\/|bench\/|scripts\/)?[\w./-]+\.(?:ts|js))["'`]/g;

const named = new Map<string, readonly string[]>();

/** Tests of the file's room, those of several rooms at once, and whatever test is so near that it is about the file. */
const NEAR = 3;
const OF_SEVERAL = /^test\/(?:e2e|simulation)\//;

export function likelyTests(file: string, tests: readonly string[]): readonly string[] {
  const folder = dirname(file).replace("src/", "test/");
  const room = file.split("/").slice(1, 2).join("");
  const placed = tests.flatMap((test) => {
    const distance = distanceTo(file, test);
    if (distance === undefined) return [];
    if (distance === 1) return [{ test, rank: 0, distance }];
    const isOfRoom = test.startsWith(`test/${room}/`);
    if (isOfRoom && isNamesake(file, test)) return [{ test, rank: 1, distance }];
    if (dirname(test) === folder) return [{ test, rank: 2, distance }];
    if (isOfRoom) return [{ test, rank: 3, distance }];
    return distance <= NEAR || OF_SEVERAL.test(test) ? [{ test, rank: 4, distance }] : [];
  });
  return placed.toSorted((a, b) => a.rank - b.rank || a.distance - b.distance).map(({ test }) => test);
}

/** `anthropic-prompt.ts` and `anthropic.test.ts` have a word in common; a plural is the same word. */
function isNamesake(file: string, test: string): boolean {
  const [ofFile, ofTest] = [file, test].map((path) =>
    basename(path)
      .replace(/(?:\.test)?\.ts$/, "")
      .split("-")
      .map((word) => word.replace(/s$/, "")),
  );
  return ofFile?.some((word) => ofTest?.includes(word)) === true;
}

/** How many imports the file is away from the test; undefined when the test does not load it. */
export function distanceTo(file: string, test: string): number | undefined {
  const seen = new Set([test]);
  let edge = [test];
  for (let distance = 1; edge.length > 0; distance++) {
    edge = edge.flatMap(namedBy).filter((path) => !seen.has(path) && !STARTS_TESTS.test(path));
    if (edge.includes(file)) return distance;
    for (const path of edge) seen.add(path);
  }
  return undefined;
}

function namedBy(path: string): readonly string[] {
  const known = named.get(path);
  if (known !== undefined) return known;
  const text = readFileSync(join(root, path), "utf8");
  const found = [...text.matchAll(NAMED)].flatMap(([, name = ""]) =>
    [normalize(join(dirname(path), name)), normalize(name)].filter(
      (one) => !one.startsWith("..") && existsSync(join(root, one)),
    ),
  );
  named.set(path, [...new Set(found)]);
  return found;
}
