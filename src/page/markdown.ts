/**
 * Markdown as a tree: what models write of it, and no more.
 *
 * Its one idea: there is no way from a text to markup. The tree has kinds, and the page makes one element of each; HTML is text like any other. Every search
 * within a line is bounded, so a hostile megabyte costs what an honest one does.
 *
 * A text is cut into sections first, at blank lines. While an answer grows, only its last section changes; the others are drawn once.
 */

export type Inline =
  | { readonly kind: "text" | "code"; readonly text: string }
  | { readonly kind: "strong" | "em" | "del"; readonly inner: readonly Inline[] }
  | { readonly kind: "link"; readonly href: string; readonly inner: readonly Inline[] };

export type Block =
  | { readonly kind: "heading"; readonly level: number; readonly text: string }
  | { readonly kind: "paragraph"; readonly text: string }
  | { readonly kind: "code"; readonly language: string; readonly text: string }
  | {
      readonly kind: "list";
      readonly isOrdered: boolean;
      readonly start: number;
      readonly items: readonly (readonly Block[])[];
    }
  | { readonly kind: "quote"; readonly inner: readonly Block[] }
  | {
      readonly kind: "table";
      readonly head: readonly string[];
      readonly rows: readonly (readonly string[])[];
    }
  | { readonly kind: "rule" };

const FENCE = /^ {0,3}(?<fence>`{3,}|~{3,})\s*(?<language>[\w+#.-]*)/;
const HEADING = /^ {0,3}(?<marks>#{1,6})\s+(?<text>.*?)\s*#*\s*$/;
const ITEM = /^(?<indent> {0,8})(?:[-*+]|(?<number>\d{1,9})[.)])\s+(?<text>.*)$/;
const QUOTE = /^ {0,3}> ?(?<text>.*)$/;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const TABLE_ROW = /^\s*\|.*\|\s*$/;
const TABLE_LINE = /^\s*\|(?:\s*:?-+:?\s*\|)+\s*$/;

/** Deeper nesting is shown as text. */
const DEPTH_MAX = 6;

/** The text between blank lines; code keeps its own. Joined by nothing, the sections are the text again. */
export function sectionsOf(text: string): readonly string[] {
  const sections: string[] = [];
  let begin = 0;
  let at = 0;
  let fence = "";
  let isBlank = false;
  while (at < text.length) {
    const found = text.indexOf("\n", at);
    const end = found === -1 ? text.length : found + 1;
    // What decides stands at the beginning of a line.
    const line = text.slice(at, Math.min(end, at + 200)).trimEnd();
    if (isBlank && fence === "" && line !== "" && at > begin) {
      sections.push(text.slice(begin, at));
      begin = at;
    }
    const mark = FENCE.exec(line)?.groups?.["fence"] ?? "";
    if (fence === "") fence = mark;
    else if (closes(line, fence)) fence = "";
    isBlank = line === "";
    at = end;
  }
  if (begin < text.length) sections.push(text.slice(begin));
  return sections;
}

function closes(line: string, fence: string): boolean {
  const bare = line.trim();
  return bare.length >= fence.length && bare === fence.charAt(0).repeat(bare.length);
}

export function blocksOf(text: string, depth = 0): readonly Block[] {
  const lines = text.split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at++;
      continue;
    }
    const [block, next] = blockAt(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function blockAt(lines: readonly string[], at: number, depth: number): readonly [Block, number] {
  const line = lines[at] ?? "";
  const fence = FENCE.exec(line)?.groups;
  if (fence !== undefined) return codeAt(lines, at, fence["fence"] ?? "", fence["language"] ?? "");
  const heading = HEADING.exec(line)?.groups;
  if (heading !== undefined)
    return [{ kind: "heading", level: (heading["marks"] ?? "").length, text: heading["text"] ?? "" }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (isTable(lines, at)) return tableAt(lines, at);
  if (depth < DEPTH_MAX) {
    if (QUOTE.test(line)) return quoteAt(lines, at, depth);
    if (ITEM.test(line)) return listAt(lines, at, depth);
  }
  return paragraphAt(lines, at);
}

function codeAt(
  lines: readonly string[],
  at: number,
  fence: string,
  language: string,
): readonly [Block, number] {
  let end = at + 1;
  while (end < lines.length && !closes(lines[end] ?? "", fence)) end++;
  return [{ kind: "code", language, text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function quoteAt(lines: readonly string[], at: number, depth: number): readonly [Block, number] {
  const inner: string[] = [];
  let end = at;
  for (; end < lines.length; end++) {
    const found = QUOTE.exec(lines[end] ?? "")?.groups?.["text"];
    if (found === undefined) break;
    inner.push(found);
  }
  return [{ kind: "quote", inner: blocksOf(inner.join("\n"), depth + 1) }, end];
}

function listAt(lines: readonly string[], at: number, depth: number): readonly [Block, number] {
  const first = ITEM.exec(lines[at] ?? "")?.groups;
  const indent = (first?.["indent"] ?? "").length;
  const isOrdered = first?.["number"] !== undefined;
  const items: string[][] = [];
  let end = at;
  for (; end < lines.length; end++) {
    const line = lines[end] ?? "";
    const found = ITEM.exec(line)?.groups;
    const isSibling = found !== undefined && (found["indent"] ?? "").length <= indent + 1;
    if (isSibling && (found["number"] !== undefined) !== isOrdered) break;
    if (isSibling) items.push([found["text"] ?? ""]);
    else if (line.trim() === "" || found !== undefined || line.startsWith(" ".repeat(indent + 2)))
      items.at(-1)?.push(line.slice(Math.min(indent + 2, leading(line))));
    else break;
  }
  const inner = items.map((item) => blocksOf(item.join("\n"), depth + 1));
  return [{ kind: "list", isOrdered, start: Number(first?.["number"] ?? 1), items: inner }, end];
}

function leading(line: string): number {
  return line.length - line.trimStart().length;
}

function isTable(lines: readonly string[], at: number): boolean {
  return TABLE_ROW.test(lines[at] ?? "") && TABLE_LINE.test(lines[at + 1] ?? "");
}

function tableAt(lines: readonly string[], at: number): readonly [Block, number] {
  let end = at + 2;
  while (end < lines.length && TABLE_ROW.test(lines[end] ?? "")) end++;
  const rows = lines.slice(at + 2, end).map(cellsOf);
  return [{ kind: "table", head: cellsOf(lines[at] ?? ""), rows }, end];
}

function cellsOf(line: string): readonly string[] {
  const bare = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return bare.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function paragraphAt(lines: readonly string[], at: number): readonly [Block, number] {
  let end = at + 1;
  while (end < lines.length && !interrupts(lines[end] ?? "") && !isTable(lines, end)) end++;
  return [{ kind: "paragraph", text: lines.slice(at, end).join("\n") }, end];
}

function interrupts(line: string): boolean {
  return line.trim() === "" || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line);
}

/** A longer text is shown as it is. */
const INLINE_CHARS_MAX = 20_000;
/** Of a paragraph. What follows is shown as it is. */
const READ_CHARS_MAX = 100_000;
/** A long text is drawn in passages of about this size, so that a growing paragraph changes in its last one alone. */
const PASSAGE_CHARS = 2_000;
/** So far the end of an emphasis, a code or a link is looked for. */
const REACH = 1_000;
const BARE_LINK = /https?:\/\/[^\s<>"'`]{0,500}[^\s<>"'`.,;:!?()[\]{}*_~]/y;
const ESCAPED = /[!-/:-@[-`{-~]/;
const PAIRS = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
] as const;

export function inlineOf(text: string, depth = 0): readonly Inline[] {
  if (text.length > INLINE_CHARS_MAX || depth > DEPTH_MAX) return [{ kind: "text", text }];
  const found: Inline[] = [];
  let plain = "";
  let at = 0;
  const put = (inline: Inline, end: number): void => {
    if (plain !== "") found.push({ kind: "text", text: plain });
    plain = "";
    found.push(inline);
    at = end;
  };
  while (at < text.length) {
    const char = text.charAt(at);
    if (char === "\\" && ESCAPED.test(text.charAt(at + 1))) {
      plain += text.charAt(at + 1);
      at += 2;
      continue;
    }
    const next = inlineAt(text, at, depth);
    if (next !== undefined) {
      put(next[0], next[1]);
      continue;
    }
    const end = Math.max(at + 1, plainEnd(text, at));
    plain += text.slice(at, end);
    at = end;
  }
  if (plain !== "") found.push({ kind: "text", text: plain });
  return found;
}

/** A piece of a text that is read by itself. */
export interface Passage {
  readonly text: string;
  /** To be shown as it is. */
  readonly isPlain: boolean;
}

/**
 * The passages of a text, which joined are the text again. They end at a space between the pieces of `inlineOf`, and so far before the end of the text that
 * whatever is written there changes nothing in them. `before`: the passages of a text that this one begins with.
 */
export function passagesOf(text: string, before: readonly Passage[] = []): readonly Passage[] {
  const passages = before.slice(0, -1);
  let begin = passages.reduce((sum, passage) => sum + passage.text.length, 0);
  for (;;) {
    const isPlain = begin >= READ_CHARS_MAX;
    const end = passageEnd(text, begin, isPlain);
    passages.push({ text: text.slice(begin, end), isPlain });
    if (end === text.length) return passages;
    begin = end;
  }
}

/** How far the end of anything that begins before a place may be looked for behind it. */
const AHEAD = REACH + 100;

/** What no mark begins with. */
const PLAIN = /[^\\`[!*_~h]*/y;

function plainEnd(text: string, at: number): number {
  PLAIN.lastIndex = at;
  PLAIN.test(text);
  return PLAIN.lastIndex;
}

function passageEnd(text: string, begin: number, isPlain: boolean): number {
  const settled = text.length - AHEAD;
  let at = begin;
  while (at < settled) {
    if (at - begin >= PASSAGE_CHARS && /\s/.test(text.charAt(at - 1))) return at;
    // Without any space it ends anywhere, but not within a character.
    if (at - begin >= INLINE_CHARS_MAX && !/[\udc00-\udfff]/.test(text.charAt(at))) return at;
    const isEscape = text.charAt(at) === "\\" && ESCAPED.test(text.charAt(at + 1));
    if (isPlain) at++;
    else at = inlineAt(text, at, 0)?.[1] ?? at + (isEscape ? 2 : 1);
    // Most of a text is plain, and read in one go up to where the passage may end.
    if (at - begin < PASSAGE_CHARS)
      at = Math.max(at, Math.min(plainEnd(text, at), begin + PASSAGE_CHARS, settled));
  }
  return text.length;
}

function inlineAt(text: string, at: number, depth: number): readonly [Inline, number] | undefined {
  switch (text.charAt(at)) {
    case "`":
      return codeIn(text, at);
    case "[":
      return linkIn(text, at, depth);
    case "!":
      // A picture is fetched from somewhere: its link is shown instead.
      return text.charAt(at + 1) === "[" ? linkIn(text, at + 1, depth) : undefined;
    case "*":
    case "_":
    case "~":
      return emphasisIn(text, at, depth);
    case "h":
      return bareLinkIn(text, at);
    default:
      return undefined;
  }
}

function codeIn(text: string, at: number): readonly [Inline, number] | undefined {
  let ticks = 1;
  while (text.charAt(at + ticks) === "`") ticks++;
  const mark = "`".repeat(ticks);
  const window = text.slice(at + ticks, at + ticks + REACH);
  const end = window.indexOf(mark);
  if (end <= 0) return undefined;
  return [{ kind: "code", text: window.slice(0, end) }, at + ticks + end + ticks];
}

function emphasisIn(text: string, at: number, depth: number): readonly [Inline, number] | undefined {
  for (const [mark, kind] of PAIRS) {
    if (!text.startsWith(mark, at)) continue;
    const begin = at + mark.length;
    const isWord = mark.startsWith("_") && /[\p{L}\p{N}]/u.test(text.charAt(at - 1));
    if (isWord || /^[\s*_~]?$/.test(text.charAt(begin))) continue;
    const window = text.slice(begin, begin + REACH);
    const end = window.indexOf(mark);
    if (end <= 0 || /\s/.test(window.charAt(end - 1))) continue;
    if (mark.startsWith("_") && /[\p{L}\p{N}]/u.test(window.charAt(end + mark.length))) continue;
    return [{ kind, inner: inlineOf(window.slice(0, end), depth + 1) }, begin + end + mark.length];
  }
  return undefined;
}

function linkIn(text: string, at: number, depth: number): readonly [Inline, number] | undefined {
  const window = text.slice(at, at + REACH);
  const middle = window.indexOf("](");
  const end = middle === -1 ? -1 : window.indexOf(")", middle);
  if (end === -1 || window.slice(1, middle).includes("[")) return undefined;
  const href = safeHref(
    window
      .slice(middle + 2, end)
      .trim()
      .split(/\s/)[0] ?? "",
  );
  if (href === undefined) return undefined;
  return [{ kind: "link", href, inner: inlineOf(window.slice(1, middle), depth + 1) }, at + end + 1];
}

function bareLinkIn(text: string, at: number): readonly [Inline, number] | undefined {
  if (at > 0 && /[\w/]/.test(text.charAt(at - 1))) return undefined;
  BARE_LINK.lastIndex = at;
  const found = BARE_LINK.exec(text)?.[0];
  const href = found === undefined ? undefined : safeHref(found);
  if (found === undefined || href === undefined) return undefined;
  return [{ kind: "link", href, inner: [{ kind: "text", text: found }] }, at + found.length];
}

const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"]);

/** The address, if it is one that a person may follow: no scripts, no data, nothing relative to this page. */
export function safeHref(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && SCHEMES.has(url.protocol) ? url.href : undefined;
}

/** What turns the direction of the text around it. It is shown, not obeyed. */
const OVERRIDES = /[\u202d\u202e]/g;
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

const shown = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Prose: joiners and isolates are a part of many scripts. */
export function proseText(text: string): string {
  return text.replaceAll(OVERRIDES, shown);
}

/** Code, arguments and what a person is asked to allow: what is there is seen. */
export function plainText(text: string): string {
  return text.replaceAll(INVISIBLE, shown);
}
