/**
 * `.gitignore` files, as git reads them: the last rule that matches decides, a deeper file comes later, and what lies
 * in an ignored directory cannot be brought back, because no walk looks there.
 */
import { codeOf } from "./faults.ts";
import { compileGlob, type Glob, GLOB_CHARS_MAX } from "./glob-pattern.ts";
import { type Held, holdEntry, readHeldFile } from "./held.ts";

interface Rule {
  readonly matches: Glob;
  readonly negated: boolean;
  readonly directoriesOnly: boolean;
}

/** The rules of one directory. Paths given to it are relative to that directory. */
interface RuleFile {
  /** Relative to the workspace; "" is the workspace. */
  readonly directory: string;
  readonly rules: readonly Rule[];
}

const FILE_BYTES_MAX = 1024 * 1024;

/** The rules that hold in a directory: its own and those of every directory above it within the workspace. */
export class IgnoreRules {
  static readonly NONE = new IgnoreRules([]);
  readonly #files: readonly RuleFile[];

  constructor(files: readonly RuleFile[]) {
    this.#files = files;
  }

  /** With those of the directory's `.gitignore`, if it has one. `path` is relative to the workspace. */
  within(dir: Held, path: string): IgnoreRules {
    const text = readIgnoreFile(dir);
    const rules = text === undefined ? [] : parseIgnoreFile(text);
    return rules.length === 0 ? this : new IgnoreRules([...this.#files, { directory: path, rules }]);
  }

  /** `path` is relative to the workspace. */
  ignores(path: string, isDirectory: boolean): boolean {
    for (const { directory, rules } of this.#files.toReversed()) {
      const relative = directory === "" ? path : path.slice(directory.length + 1);
      const rule = rules.findLast((each) => (isDirectory || !each.directoriesOnly) && each.matches(relative));
      if (rule !== undefined) return !rule.negated;
    }
    return false;
  }
}

/** A symlink is not followed, as git does not. */
function readIgnoreFile(dir: Held): string | undefined {
  try {
    const entry = holdEntry(dir, ".gitignore");
    if (entry.kind !== "held") return undefined;
    using held = entry.held;
    if (!held.stats.isFile() || held.stats.size > FILE_BYTES_MAX) return undefined;
    return readHeldFile(held, ".gitignore").toString("utf8");
  } catch (cause) {
    // Rules that may not be read are no rules.
    if (codeOf(cause) === "EACCES") return undefined;
    throw cause;
  }
}

export function parseIgnoreFile(text: string): readonly Rule[] {
  return text
    .replace(/^\u{feff}/u, "")
    .split(/\r?\n/)
    .flatMap(parseLine);
}

function parseLine(line: string): readonly Rule[] {
  const trimmed = trimBlanks(line);
  if (trimmed === "" || trimmed.startsWith("#")) return [];
  const negated = trimmed.startsWith("!");
  const body = negated ? trimmed.slice(1) : trimmed;
  const directoriesOnly = body.endsWith("/");
  const name = directoriesOnly ? body.slice(0, -1) : body;
  // What is longer than every path matches none.
  if (name === "" || name.length > GLOB_CHARS_MAX - "**/".length) return [];
  // A slash at the beginning or in the middle ties the rule to this directory.
  const pattern = name.includes("/") ? name.replace(/^\//, "") : `**/${name}`;
  return [{ matches: compileGlob(pattern, { hidden: true, braces: false }), negated, directoriesOnly }];
}

/** At the end, but for one behind a backslash. By hand: a regular expression would take the square of the blanks. */
function trimBlanks(line: string): string {
  let end = line.length;
  while (line[end - 1] === " " || line[end - 1] === "\t") end--;
  return line.slice(0, line[end - 1] === "\\" ? end + 1 : end);
}
