/**
 * A search pattern as a JavaScript regular expression.
 *
 * Patterns are written for ripgrep. The two languages agree on nearly everything; what is spelled differently is
 * translated: flags at the beginning, `(?P<name>`, `\A` and `\z`, `\h`, POSIX classes, escaped punctuation.
 */
import { messageOf } from "../protocol/errors.ts";
import { fault } from "./faults.ts";

const POSIX: Readonly<Record<string, string>> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\x00-\\x7F",
  blank: "\\t ",
  cntrl: "\\x00-\\x1F\\x7F",
  digit: "0-9",
  graph: "!-~",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`\\{-~",
  space: "\\t\\n\\v\\f\\r ",
  upper: "A-Z",
  word: "0-9A-Za-z_",
  xdigit: "0-9A-Fa-f",
};

interface PatternFlags {
  readonly ignoreCase: boolean;
  readonly multiline: boolean;
}

/** Global: it is used with `lastIndex`. `^` and `$` are the ends of lines. */
export function compilePattern(pattern: string, { ignoreCase, multiline }: PatternFlags): RegExp {
  const leading = /^\(\?([imsux]+)\)/.exec(pattern);
  const said = leading?.[1] ?? "";
  if (said.includes("x"))
    throw fault("EINVAL", "the flag x is not supported in patterns here; write the pattern without it");
  const body = translate(leading === null ? pattern : pattern.slice(leading[0].length));
  const flags = `gm${ignoreCase || said.includes("i") ? "i" : ""}${multiline && said.includes("s") ? "s" : ""}`;
  try {
    return new RegExp(body, `${flags}u`);
  } catch {
    // With u an escape that is none is an error; without, it is the character.
    return withoutUnicode(body, flags);
  }
}

function withoutUnicode(body: string, flags: string): RegExp {
  try {
    return new RegExp(body, flags);
  } catch (cause) {
    throw fault("EINVAL", `the pattern is no regular expression: ${messageOf(cause)}`);
  }
}

function translate(pattern: string): string {
  return pattern.replace(
    /\\([\s\S])|\[:([a-z]+):\]|\(\?P</g,
    (whole, escaped: string | undefined, posix: string | undefined) => {
      if (escaped !== undefined) return translateEscape(escaped);
      return posix === undefined ? "(?<" : (POSIX[posix] ?? whole);
    },
  );
}

const ESCAPES: Readonly<Record<string, string>> = {
  A: "(?<![\\s\\S])",
  z: "(?![\\s\\S])",
  h: "[\\t ]",
  "<": "\\b(?=\\w)",
  ">": "\\b(?<=\\w)",
};

/** Escaped punctuation that u does not know (a quote, a slash, a hash) is itself. */
function translateEscape(char: string): string {
  return ESCAPES[char] ?? (/[^\w\s^$\\.*+?()[\]{}|/-]/.test(char) ? char : `\\${char}`);
}
