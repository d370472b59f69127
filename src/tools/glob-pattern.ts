/**
 * Globs: `*`, `?`, `[a-z]`, `{a,b}`, `**`, and backslash.
 *
 * A pattern is matched by hand, name by name, not turned into a regular expression: a star goes back only to
 * itself, so no pattern takes more than (length of the pattern) x (length of the path) steps.
 */
import { fault } from "./faults.ts";

export interface GlobRules {
  /** `*`, `?`, `[...]` and `**` take names that begin with a dot. */
  readonly hidden: boolean;
  readonly braces: boolean;
}

type Token =
  | { readonly kind: "star" | "any" }
  | { readonly kind: "char"; readonly char: string }
  | {
      readonly kind: "class";
      readonly negated: boolean;
      readonly ranges: readonly (readonly [string, string])[];
    };

type Segment = "**" | readonly Token[];

export type Glob = (path: string) => boolean;

const ALTERNATIVES_MAX = 1000;
/** Reading a pattern takes the square of its length at worst. */
export const GLOB_CHARS_MAX = 1000;

/** Matches whole paths that use "/" and do not begin with it. */
export function compileGlob(pattern: string, rules: GlobRules): Glob {
  checkLength(pattern);
  const written = rules.braces ? expandBraces(pattern) : [pattern];
  const alternatives = written.map((text) => splitSegments(text).map(parseSegment));
  return (path) => {
    const names = path.split("/");
    return alternatives.some((segments) => matchSegments(segments, names, rules.hidden));
  };
}

/** Whether a pattern asks for names with a leading dot, so that a walk must look at them. */
export function asksForHidden(pattern: string): boolean {
  checkLength(pattern);
  return expandBraces(pattern).some((text) => splitSegments(text).some((name) => /^\\?\.[^/]/.test(name)));
}

function checkLength(pattern: string): void {
  if (pattern.length <= GLOB_CHARS_MAX) return;
  throw fault("EINVAL", `the glob ${pattern.slice(0, 100)}... has more than ${GLOB_CHARS_MAX} characters`);
}

/** `a{b,c{d,e}}` as `ab`, `acd`, `ace`. A brace without its other half, or without a comma, is itself. */
function expandBraces(pattern: string): readonly string[] {
  const done: string[] = [];
  const waiting = [pattern];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const brace = findBrace(next);
    if (brace === undefined) done.push(next);
    else {
      const { begin, end, parts } = brace;
      const [head, tail] = [next.slice(0, begin), next.slice(end + 1)];
      waiting.push(...parts.toReversed().map((part) => `${head}${part}${tail}`));
    }
    if (done.length + waiting.length > ALTERNATIVES_MAX) {
      throw fault(
        "EINVAL",
        `the glob ${pattern.slice(0, 100)} has more than ${ALTERNATIVES_MAX} alternatives`,
      );
    }
  }
  return done;
}

function findBrace(text: string): { begin: number; end: number; parts: string[] } | undefined {
  for (let begin = 0; begin < text.length; begin++) {
    if (text[begin] === "\\") begin++;
    else if (text[begin] === "[") begin = classEnd(text, begin) ?? begin;
    else if (text[begin] === "{") {
      const found = readBrace(text, begin);
      if (found !== undefined) return { begin, ...found };
    }
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

function parseSegment(text: string): Segment {
  if (text === "**") return "**";
  const tokens: Token[] = [];
  for (let at = 0; at < text.length; at++) {
    const char = String.fromCodePoint(text.codePointAt(at) ?? 0);
    const end = char === "[" ? classEnd(text, at) : undefined;
    if (end !== undefined) {
      tokens.push(parseClass(text.slice(at + 1, end)));
      at = end;
    } else if (char === "*") {
      if (tokens.at(-1)?.kind !== "star") tokens.push({ kind: "star" });
    } else if (char === "?") tokens.push({ kind: "any" });
    else if (char === "\\" && at + 1 < text.length) {
      const escaped = String.fromCodePoint(text.codePointAt(at + 1) ?? 0);
      tokens.push({ kind: "char", char: escaped });
      at += escaped.length;
    } else {
      tokens.push({ kind: "char", char });
      at += char.length - 1;
    }
  }
  return tokens;
}

/** Where the class that begins here ends; a `]` directly after the beginning is one of its characters. */
function classEnd(text: string, begin: number): number | undefined {
  const negation = text[begin + 1] === "!" || text[begin + 1] === "^" ? 1 : 0;
  const end = text.indexOf("]", begin + negation + 2);
  return end === -1 ? undefined : end;
}

function parseClass(body: string): Token {
  const negated = body.startsWith("!") || body.startsWith("^");
  const chars = Array.from(negated ? body.slice(1) : body);
  const ranges: [string, string][] = [];
  for (let at = 0; at < chars.length; at++) {
    if (chars[at] === "\\" && at + 1 < chars.length) at++;
    const from = chars[at] ?? "";
    const to = chars[at + 1] === "-" ? chars[at + 2] : undefined;
    ranges.push([from, to ?? from]);
    if (to !== undefined) at += 2;
  }
  return { kind: "class", negated, ranges };
}

function matchSegments(segments: readonly Segment[], names: readonly string[], hidden: boolean): boolean {
  return matchWithStar(
    segments,
    names,
    (segment) => segment === "**",
    (segment, name) => segment !== "**" && matchName(segment, name, hidden),
    (name) => hidden || !name.startsWith("."),
    // As git has it: `a/**` is everything in a, not a itself.
    true,
  );
}

function matchName(tokens: readonly Token[], name: string, hidden: boolean): boolean {
  const first = tokens[0];
  if (!hidden && name.startsWith(".") && !(first?.kind === "char" && first.char === ".")) return false;
  return matchWithStar(
    tokens,
    Array.from(name),
    (token) => token.kind === "star",
    matchChar,
    () => true,
    false,
  );
}

function matchChar(token: Token, char: string): boolean {
  switch (token.kind) {
    case "any":
      return true;
    case "char":
      return token.char === char;
    case "class":
      return token.ranges.some(([from, to]) => from <= char && char <= to) !== token.negated;
    case "star":
      return false;
  }
}

/** Both levels are the same game: a star takes any number of items, everything else takes one that fits. */
function matchWithStar<Pattern, Item>(
  pattern: readonly Pattern[],
  items: readonly Item[],
  isStar: (pattern: Pattern) => boolean,
  fits: (pattern: Pattern, item: Item) => boolean,
  starTakes: (item: Item) => boolean,
  lastStarTakesSome: boolean,
): boolean {
  let p = 0;
  let i = 0;
  let star: { p: number; i: number } | undefined;
  while (i < items.length) {
    const item = items[i];
    const part = pattern[p];
    if (item === undefined) return false;
    if (part !== undefined && isStar(part)) {
      if (p === pattern.length - 1) return items.slice(i).every(starTakes);
      star = { p, i };
      p++;
    } else if (part !== undefined && fits(part, item)) {
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
  const rest = pattern.slice(p);
  return rest.every(isStar) && !(lastStarTakesSome && rest.length > 0 && pattern.length > 1);
}
