/**
 * How wide a text is on a terminal, by the cell, without a library for it.
 *
 * Counted by grapheme, since that is what a cell shows: an emoji of five code points is one picture of
 * two cells. Terminals disagree about rare ones; a wrong guess moves a line by a cell and does no more.
 */
let segmenter: Intl.Segmenter | undefined;

/** Made when it is needed: that takes longer than most commands have to do. */
function graphemesOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter("en");
  return segmenter.segment(text);
}

/** Everything here is one cell: the case that is not worth a segmenter. */
const PLAIN = /^[\u0020-\u007e]*$/;
const NOTHING = /^[\p{Mn}\p{Me}\p{Cf}\u200b]+$/u;
const EMOJI = /\p{Emoji_Presentation}|\p{Extended_Pictographic}\ufe0f|\p{RI}/u;
/** East Asian Wide and Fullwidth, in ranges as coarse as they can be without touching narrow letters. */
const WIDE =
  /^[\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18aff}\u{1b000}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]/u;

export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemesOf(text)) width += cellWidth(segment);
  return width;
}

function cellWidth(grapheme: string): number {
  if (PLAIN.test(grapheme)) return grapheme.length;
  if (NOTHING.test(grapheme)) return 0;
  return WIDE.test(grapheme) || EMOJI.test(grapheme) ? 2 : 1;
}

/** At most so many cells; an ellipsis shows that something was cut off. */
export function cutToWidth(text: string, cells: number): string {
  if (cells <= 0) return "";
  if (text.length <= cells && PLAIN.test(text)) return text;
  if (textWidth(text) <= cells) return text;
  let width = 0;
  let kept = "";
  for (const { segment } of graphemesOf(text)) {
    width += cellWidth(segment);
    if (width > cells - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** The text in rows of at most so many cells; at least one row. */
export function wrapToWidth(text: string, cells: number): readonly string[] {
  if (text.length <= cells && PLAIN.test(text)) return [text];
  const rows: string[] = [];
  let row = "";
  let width = 0;
  for (const { segment } of graphemesOf(text)) {
    const next = cellWidth(segment);
    if (width + next > cells && row !== "") {
      rows.push(row);
      [row, width] = ["", 0];
    }
    row += segment;
    width += next;
  }
  return [...rows, row];
}

/** In which column (from 0) the cursor stands after a text, on a screen that wraps; `columns` when it waits to wrap. */
export function columnAfter(column: number, text: string, columns: number): number {
  const lastBreak = text.lastIndexOf("\n");
  let at = lastBreak === -1 ? column : 0;
  const rest = lastBreak === -1 ? text : text.slice(lastBreak + 1);
  for (const { segment } of graphemesOf(rest)) {
    const width = cellWidth(segment);
    at = at + width > columns ? width : at + width;
  }
  return at;
}
