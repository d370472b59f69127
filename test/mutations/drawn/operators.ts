/**
 * Small changes of a program, by rule: each gives a program that is probably wrong.
 *
 * They work on tokens, so none of them needs to understand the program: a comparison is turned, a literal is another one, a
 * call on a line of its own does not happen. Imports and types are left alone.
 */
import { SyntaxKind } from "typescript/unstable/ast";
import { type Token, tokensOf } from "../../tidy/tokens.ts";

/** Replaces the text from `start` to `end`. */
export interface Change {
  readonly start: number;
  readonly end: number;
  readonly to: string;
}

const TURNED: ReadonlyMap<SyntaxKind, string> = new Map([
  [SyntaxKind.LessThanEqualsToken, "<"],
  [SyntaxKind.GreaterThanEqualsToken, ">"],
  [SyntaxKind.EqualsEqualsEqualsToken, "!=="],
  [SyntaxKind.ExclamationEqualsEqualsToken, "==="],
  [SyntaxKind.AmpersandAmpersandToken, "||"],
  [SyntaxKind.BarBarToken, "&&"],
  [SyntaxKind.TrueKeyword, "false"],
  [SyntaxKind.FalseKeyword, "true"],
  [SyntaxKind.PlusEqualsToken, "-="],
  [SyntaxKind.PlusPlusToken, "--"],
]);

export function changesOf(text: string): readonly Change[] {
  const tokens = tokensOf(text);
  return [...tokens.flatMap((token, at) => changesOfToken(token, at, tokens)), ...missingCalls(text)];
}

function changesOfToken(token: Token, at: number, tokens: readonly Token[]): readonly Change[] {
  const { kind, start, end, text } = token;
  const turned = TURNED.get(kind);
  if (turned !== undefined && !isType(at, tokens)) return [{ start, end, to: turned }];
  if (kind === SyntaxKind.NumericLiteral && !isType(at, tokens) && !isKey(at, tokens))
    return [{ start, end, to: `(${text} + 1)` }];
  // `!isOpen` becomes `isOpen`; `!==` is a token of its own.
  if (kind === SyntaxKind.ExclamationToken) return [{ start, end, to: "" }];
  // Only with blanks on both sides: without them `<` and `>` are around types.
  if (kind === SyntaxKind.LessThanToken && isSpaced(token, at, tokens)) return [{ start, end, to: "<=" }];
  if (kind === SyntaxKind.GreaterThanToken && isSpaced(token, at, tokens)) return [{ start, end, to: ">=" }];
  if (kind === SyntaxKind.IfKeyword) return neverTaken(at, tokens);
  return [];
}

/** `if (condition)` becomes `if (false)`. */
function neverTaken(at: number, tokens: readonly Token[]): readonly Change[] {
  const open = tokens[at + 1];
  let depth = 0;
  for (const token of tokens.slice(at + 1)) {
    if (token.kind === SyntaxKind.OpenParenToken) depth += 1;
    else if (token.kind === SyntaxKind.CloseParenToken) depth -= 1;
    if (depth === 0 && open !== undefined) return [{ start: open.start, end: token.end, to: "(false)" }];
  }
  return [];
}

function isSpaced(token: Token, at: number, tokens: readonly Token[]): boolean {
  return (tokens[at - 1]?.end ?? 0) < token.start && token.end < (tokens[at + 1]?.start ?? 0);
}

/** `readonly isOpen: true;` and the members of a union are types: they do not run. */
function isType(at: number, tokens: readonly Token[]): boolean {
  const before = tokens[at - 1]?.kind;
  const after = tokens[at + 1]?.kind;
  const isMember = before === SyntaxKind.ColonToken && after === SyntaxKind.SemicolonToken;
  return isMember || before === SyntaxKind.BarToken || after === SyntaxKind.BarToken;
}

/** The name of a property cannot be a sum. */
function isKey(at: number, tokens: readonly Token[]): boolean {
  const before = tokens[at - 1]?.kind;
  const isFirst = before === SyntaxKind.OpenBraceToken || before === SyntaxKind.CommaToken;
  return isFirst && tokens[at + 1]?.kind === SyntaxKind.ColonToken;
}

/** A call that is a statement of its own, on one line. */
function missingCalls(text: string): readonly Change[] {
  const calls = /^[ \t]+((?:await |void )?(?:this|[a-z]\w*)[.#\w?]*\(.*\);)$/gm;
  return [...text.matchAll(calls)].flatMap(({ index, 0: line, 1: statement = "" }) => {
    if (/^(?:super|return|throw|assert)\b/.test(statement)) return [];
    const start = index + line.indexOf(statement);
    return [{ start, end: start + statement.length, to: ";" }];
  });
}
