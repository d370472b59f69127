/**
 * A source file as the tidy rules see it: its text, and the same text with everything that is not
 * code blanked out.
 *
 * `code` has comments and the inside of strings, templates and regular expressions replaced by
 * spaces, so a rule can look for a word and never find it in prose; `${...}` in a template stays,
 * because it is code. Both texts have equal length and equal line breaks: a position in one is a
 * position in the other.
 */
import { readdirSync, readFileSync } from "node:fs";

export interface Source {
  /** Relative to the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly code: string;
}

export interface Violation {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

export function source(path: string, text: string): Source {
  return { path, text, code: blank(text) };
}

/** A violation at a character position of the file. */
export function violation({ path, text }: Source, position: number, message: string): Violation {
  return { path, line: text.slice(0, position).split("\n").length, message };
}

export function describeViolation({ path, line, message }: Violation): string {
  return `${path}:${String(line)}: ${message}`;
}

/** Every match of a pattern in the code, or in the text, as a violation. */
export function matches(
  file: Source,
  where: "code" | "text",
  pattern: RegExp,
  message: (found: string) => string,
): Violation[] {
  return [...file[where].matchAll(pattern)].map((match) =>
    violation(file, match.index, message(match[0].trim())),
  );
}

const notOurs = new Set([".git", ".holdfast", "node_modules", "dist", "coverage"]);

/** Every file of the repository that is not installed, built or ignored; sorted. */
export function repositoryFiles(root: string): string[] {
  const found: string[] = [];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(`${root}/${folder}`, { withFileTypes: true })) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (notOurs.has(entry.name) || entry.name.endsWith(".tgz")) continue;
      if (entry.isDirectory()) walk(path);
      else if (entry.isFile()) found.push(path);
    }
  };
  walk("");
  return found.toSorted();
}

export function readSource(root: string, path: string): Source {
  return source(path, readFileSync(`${root}/${path}`, "utf8"));
}

/** A slash begins a regular expression, not a division, after one of these. */
const regexMayFollow = /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|of|in|yield|await|void))\s*$/;

/** See the top of the file. */
export function blank(text: string): string {
  let code = "";
  let at = 0;
  // One entry for each open `${`: the depth of plain braces inside it.
  const templates: number[] = [];

  const keep = (length: number): void => {
    code += text.slice(at, at + length);
    at += length;
  };
  const hide = (end: number): void => {
    code += text.slice(at, end).replaceAll(/[^\n]/g, " ");
    at = end;
  };
  /** Where an unescaped terminator stands, or the end of the text. */
  const find = (from: number, ends: (position: number) => boolean): number => {
    let position = from;
    while (position < text.length && !ends(position)) position += text[position] === "\\" ? 2 : 1;
    return Math.min(position, text.length);
  };
  const quoted = (quote: string): void => {
    keep(1);
    hide(find(at, (position) => text[position] === quote || text[position] === "\n"));
    keep(1);
  };
  /** From just inside a template, or just after a `}`, up to the next `${` or the end. */
  const template = (): void => {
    hide(find(at, (position) => text[position] === "`" || text.startsWith("${", position)));
    if (text[at] === "$") {
      templates.push(0);
      keep(2);
    } else {
      keep(1);
    }
  };
  const regex = (): void => {
    keep(1);
    let inClass = false;
    const end = find(at, (position) => {
      if (text[position] === "[") inClass = true;
      if (text[position] === "]") inClass = false;
      return text[position] === "\n" || (text[position] === "/" && !inClass);
    });
    hide(end);
    keep(1);
  };

  while (at < text.length) {
    const character = text[at];
    const depth = templates.at(-1);
    if (text.startsWith("//", at)) {
      hide(find(at, (position) => text[position] === "\n"));
    } else if (text.startsWith("/*", at)) {
      const end = text.indexOf("*/", at + 2);
      hide(end === -1 ? text.length : end + 2);
    } else if (character === '"' || character === "'") {
      quoted(character);
    } else if (character === "`") {
      keep(1);
      template();
    } else if (character === "/" && regexMayFollow.test(code.slice(-80))) {
      regex();
    } else if (character === "}" && depth === 0) {
      templates.pop();
      keep(1);
      template();
    } else {
      if (depth !== undefined && character === "{") templates[templates.length - 1] = depth + 1;
      if (depth !== undefined && character === "}") templates[templates.length - 1] = depth - 1;
      keep(1);
    }
  }
  return code;
}
