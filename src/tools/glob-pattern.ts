/**
 * Globs: `*`, `?`, `[a-z]`, `{a,b}`, `**`, and backslash.
 *
 * A pattern is matched by hand, name by name, not turned into a regular expression: a star goes back only to
 * itself, so no pattern takes more than (length of the pattern) x (length of the path) steps.
 */
import { firstChars } from "../protocol/characters.ts";
import { fault } from "./faults.ts";

interface GlobRules {
  /** `*`, `?`, `[...]` and `**` take names that begin with a dot. */
  readonly hidden: boolean;
  readonly braces: boolean;
}

export type Glob = (path: string) => boolean;

/** Takes any number of items; every other part is a test that one item has to pass. */
const STAR = Symbol("star");
type Part = typeof STAR | ((item: string) => boolean);

const ALTERNATIVES_MAX = 1000;
/** Reading a pattern takes the square of its length at worst. */
export const GLOB_CHARS_MAX = 1000;

/** Matches whole paths that use "/" and do not begin with it. */
export function compileGlob(pattern: string, { hidden, braces }: GlobRules): Glob {
  checkLength(pattern);
  const alternatives = (braces ? expandBraces(pattern) : [pattern]).map((text) =>
    splitSegments(text).map((name) => segmentOf(name, hidden)),
  );
  const starTakes = (name: string): boolean => hidden || !name.startsWith(".");
  return (path) => {
    const names = path.split("/");
    // As git has it: `a/**` is everything in a, not a itself.
    return alternatives.some((segments) => matches(segments, names, starTakes, true));
  };
}

/** Whether a pattern asks for names with a leading dot, so that a walk must look at them. */
export function asksForHidden(pattern: string): boolean {
  checkLength(pattern);
  return expandBraces(pattern).some((text) => splitSegments(text).some((name) => /^\\?\.[^/]/.test(name)));
}

function checkLength(pattern: string): void {
  if (pattern.length <= GLOB_CHARS_MAX) return;
  throw fault(
    "EINVAL",
    `the glob ${firstChars(pattern, 100, "...")} has more than ${GLOB_CHARS_MAX} characters`,
  );
}

/** `a{b,c{d,e}}` as `ab`, `acd`, `ace`. A brace without its other half, or without a comma, is itself. */
function expandBraces(pattern: string): readonly string[] {
  const done: string[] = [];
  const waiting = [pattern];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const written = expandFirst(next);
    if (written === undefined) done.push(next);
    else waiting.push(...written.toReversed());
    if (done.length + waiting.length > ALTERNATIVES_MAX) {
      throw fault(
        "EINVAL",
        `the glob ${firstChars(pattern, 100)} has more than ${ALTERNATIVES_MAX} alternatives`,
      );
    }
  }
  return done;
}

/** Undefined when there is no brace. */
function expandFirst(text: string): readonly string[] | undefined {
  // What is escaped, or in a class, is no brace.
  for (const { 0: token, index } of text.matchAll(/\\.|\[(?:[!^].|[^!^])[^\]]*\]|\{/gsu)) {
    const brace = token === "{" ? readBrace(text, index) : undefined;
    if (brace === undefined) continue;
    const [head, tail] = [text.slice(0, index), text.slice(brace.end + 1)];
    return brace.parts.map((part) => `${head}${part}${tail}`);
  }
  return undefined;
}

function readBrace(text: string, begin: number): { end: number; parts: string[] } | undefined {
  const parts: string[] = [];
  let depth = 0;
  let from = begin + 1;
  for (let at = begin; at < text.length; at++) {
    const char = text[at];
    if (char === "\\") at++;
    else if (char === "{") depth++;
    else if (char === "," && depth === 1) {
      parts.push(text.slice(from, at));
      from = at + 1;
    } else if (char === "}" && --depth === 0) {
      return parts.length === 0 ? undefined : { end: at, parts: [...parts, text.slice(from, at)] };
    }
  }
  return undefined;
}

function splitSegments(pattern: string): readonly string[] {
  return pattern.split("/").filter((name, at, all) => name !== "" || all.length === 1);
}

/** A `]` directly after the beginning of a class is one of its characters. */
const PARTS = /\\(?<escaped>.)|\[(?<inClass>(?:[!^].|[^!^])[^\]]*)\]|(?<stars>\*+)|(?<any>\?)|(?<plain>.)/gsu;

function segmentOf(text: string, hidden: boolean): Part {
  if (text === "**") return STAR;
  const parts = Array.from(text.matchAll(PARTS), ({ groups = {} }): Part => {
    const { escaped, inClass, stars, any, plain } = groups;
    if (stars !== undefined) return STAR;
    if (any !== undefined) return () => true;
    return inClass === undefined ? (char) => char === (escaped ?? plain) : classOf(inClass);
  });
  const takesDot = hidden || /^\\?\./.test(text);
  return (name) => (takesDot || !name.startsWith(".")) && matches(parts, Array.from(name), () => true, false);
}

function classOf(text: string): (char: string) => boolean {
  const negated = /^[!^]/.test(text);
  const ranges = [...text.slice(negated ? 1 : 0).matchAll(/(?:\\(?=.))?(.)(?:-(.))?/gsu)];
  return (char) => ranges.some(([, from = "", to = from]) => from <= char && char <= to) !== negated;
}

/** Paths and names are the same game. */
function matches(
  parts: readonly Part[],
  items: readonly string[],
  starTakes: (item: string) => boolean,
  lastStarTakesSome: boolean,
): boolean {
  let p = 0;
  let i = 0;
  let star: { p: number; i: number } | undefined;
  for (let item = items[i]; item !== undefined; item = items[i]) {
    const part = parts[p];
    if (part === STAR) {
      if (p === parts.length - 1) return items.slice(i).every(starTakes);
      star = { p, i };
      p++;
    } else if (part?.(item) === true) {
      p++;
      i++;
    } else {
      const taken = star === undefined ? undefined : items[star.i];
      // Only the last star need take more: what an earlier one could gain, the last one has tried.
      if (star === undefined || taken === undefined || !starTakes(taken)) return false;
      star = { p: star.p, i: star.i + 1 };
      p = star.p + 1;
      i = star.i;
    }
  }
  const rest = parts.slice(p);
  return rest.every((part) => part === STAR) && !(lastStarTakesSome && rest.length > 0 && parts.length > 1);
}
