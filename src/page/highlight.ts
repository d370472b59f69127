/**
 * Code cut into comments, strings, numbers and keywords, by tables that the page fetches when it first shows code.
 *
 * A table is data, no script: the policy of the page lets nothing run that was not in its first load. What comes out are pieces of the text as it was, in
 * order; a language that is not known is one piece.
 *
 * Invariant: the pieces joined are the text.
 */
import { fieldsOf } from "../protocol/fields.ts";

const KINDS = ["comment", "string", "number", "keyword", "added", "removed"] as const;
export type Kind = (typeof KINDS)[number];

export interface Piece {
  /** Undefined: nothing in particular. */
  readonly kind: Kind | undefined;
  readonly text: string;
}

interface Language {
  readonly pattern: RegExp;
  readonly keywords: ReadonlySet<string>;
  readonly isCaseless: boolean;
}

/** By every name that models write behind the backticks. */
export type Languages = ReadonlyMap<string, Language>;

/** A longer text is one piece: it is drawn anew with each word that comes. */
const CHARS_MAX = 50_000;

/** What of the fetched file is understood. */
export function languagesIn(file: unknown): Languages {
  const all: readonly unknown[] = Array.isArray(file) ? file : [];
  return new Map(
    all.flatMap((one) => {
      const { names, rules, keywords, isCaseless } = fieldsOf(one);
      const language: Language = {
        pattern: patternOf(Array.isArray(rules) ? rules : []),
        keywords: new Set(typeof keywords === "string" ? keywords.split(" ") : []),
        isCaseless: isCaseless === true,
      };
      return String(names)
        .split(" ")
        .map((name) => [name, language] as const);
    }),
  );
}

/** One alternative for each kind, and one for words, which are looked up. */
function patternOf(rules: readonly unknown[]): RegExp {
  const named = KINDS.flatMap((kind) => {
    const rule = rules.find((one) => Array.isArray(one) && one[0] === kind);
    return Array.isArray(rule) ? [`(?<${kind}>${String(rule[1])})`] : [];
  });
  return new RegExp([...named, "[\\p{L}_$][\\p{L}\\p{N}_$]*"].join("|"), "gmu");
}

export function piecesOf(text: string, name: string, languages: Languages): readonly Piece[] {
  const language = languages.get(name.toLowerCase());
  if (language === undefined || text.length > CHARS_MAX) return [{ kind: undefined, text }];
  const pieces: Piece[] = [];
  let plainFrom = 0;
  for (const match of text.matchAll(language.pattern)) {
    const [said] = match;
    const kind = kindOf(match, language);
    if (kind === undefined || said === "") continue;
    if (match.index > plainFrom) pieces.push({ kind: undefined, text: text.slice(plainFrom, match.index) });
    pieces.push({ kind, text: said });
    plainFrom = match.index + said.length;
  }
  if (plainFrom < text.length) pieces.push({ kind: undefined, text: text.slice(plainFrom) });
  return pieces;
}

function kindOf({ 0: said, groups }: RegExpExecArray, language: Language): Kind | undefined {
  const kind = KINDS.find((one) => groups?.[one] !== undefined);
  if (kind !== undefined) return kind;
  return language.keywords.has(language.isCaseless ? said.toLowerCase() : said) ? "keyword" : undefined;
}
