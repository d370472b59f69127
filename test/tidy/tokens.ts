/**
 * How much code there is, in tokens of TypeScript: comments and line breaks cost nothing, so neither short names nor dense
 * lines make it less.
 *
 * The scanner alone cannot tell a template's end from a block's, or a regular expression from a division. Both follow
 * from the tokens before them, so this file keeps count of them.
 */
import { SyntaxKind } from "typescript/unstable/ast";
import { createScanner } from "typescript/unstable/ast/scanner";

export interface Token {
  readonly kind: SyntaxKind;
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Behind one of these a slash divides. */
const VALUES: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.Identifier,
  SyntaxKind.PrivateIdentifier,
  SyntaxKind.NumericLiteral,
  SyntaxKind.BigIntLiteral,
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateTail,
  SyntaxKind.CloseParenToken,
  SyntaxKind.CloseBracketToken,
  SyntaxKind.ThisKeyword,
]);

export function tokensOf(text: string): readonly Token[] {
  const scanner = createScanner(true, undefined, text);
  const tokens: Token[] = [];
  /** For each template that is open: how many braces are open within its expression. */
  const templates: number[] = [];
  for (;;) {
    let kind = scanner.scan();
    if (kind === SyntaxKind.EndOfFile) return tokens;
    const depth = templates.at(-1);
    if (kind === SyntaxKind.SlashToken || kind === SyntaxKind.SlashEqualsToken) {
      const before = tokens.at(-1)?.kind;
      // In JSX it closes an element.
      const isElement = before === SyntaxKind.LessThanToken || text.charAt(scanner.getTokenEnd()) === ">";
      if (!isElement && (before === undefined || !VALUES.has(before))) kind = scanner.reScanSlashToken();
    } else if (kind === SyntaxKind.CloseBraceToken && depth === 0) {
      kind = scanner.reScanTemplateToken(false);
      if (kind === SyntaxKind.TemplateTail) templates.pop();
    } else if (depth !== undefined) {
      if (kind === SyntaxKind.OpenBraceToken) templates[templates.length - 1] = depth + 1;
      else if (kind === SyntaxKind.CloseBraceToken) templates[templates.length - 1] = depth - 1;
    }
    if (kind === SyntaxKind.TemplateHead) templates.push(0);
    tokens.push({
      kind,
      text: scanner.getTokenText(),
      start: scanner.getTokenStart(),
      end: scanner.getTokenEnd(),
    });
  }
}
