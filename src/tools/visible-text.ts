/**
 * Text from a model for the eyes of somebody who decides about it: nothing in it is hidden.
 *
 * Control characters, terminal escapes, marks that reverse the direction of writing, characters of no width and blanks that
 * are no space are shown as `\u{202e}`. What looks like such an escape already is told apart by a second backslash.
 */

/** Categories: control, format, surrogate, private, unassigned; separators of lines; what draws nothing though it is a letter or a mark; blanks other than the space. */
const HIDDEN = /\\u\{|[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u{2800}]|(?! )\p{Zs}/gu;

/** Keeps line breaks and tabs. */
export function visibleText(text: string): string {
  return text.replace(HIDDEN, (match) => {
    if (match === "\n" || match === "\t") return match;
    return match === "\\u{" ? "\\\\u{" : escapeOf(match);
  });
}

/** For one line of a list or a title: line breaks and tabs are shown too, a long text is cut. */
export function visibleLine(text: string, charsMax = 160): string {
  const line = visibleText(text).replace(/[\n\t]/g, escapeOf);
  return line.length <= charsMax ? line : `${line.slice(0, charsMax)}...`;
}

function escapeOf(char: string): string {
  return `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;
}
