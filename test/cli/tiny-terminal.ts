/**
 * A terminal of a few rows that knows the sequences the chat uses, and fails on every other: so a test sees what a
 * person would see. It wraps late, as real ones do: only when there is more to write.
 */
import assert from "node:assert/strict";
import { textWidth } from "../../src/cli/chat/text-width.ts";

const GRAPHEMES = new Intl.Segmenter("en");

export class TinyTerminal {
  readonly isTTY = true;
  readonly columns: number;
  readonly #height: number;
  /** Everything, also what has scrolled away. */
  #rows: string[][] = [[]];
  #row = 0;
  #column = 0;
  #mustWrap = false;

  constructor(columns: number, height: number) {
    this.columns = columns;
    this.#height = height;
  }

  get lines(): readonly string[] {
    return this.#rows.map((cells) =>
      Array.from(cells, (cell) => cell ?? " ")
        .join("")
        .trimEnd(),
    );
  }

  get cursor(): readonly [number, number] {
    return [this.#row, this.#column];
  }

  write(text: string): void {
    // oxlint-disable-next-line no-control-regex
    for (const [piece] of text.matchAll(/\u001b\[[?0-9;]*[A-Za-z]|[^\u001b]+|\u001b/g)) {
      if (piece.startsWith("\u001b")) this.#sequence(piece);
      else for (const { segment } of GRAPHEMES.segment(piece)) this.#put(segment);
    }
  }

  #sequence(sequence: string): void {
    const { count = "", name = "" } =
      /^\u001b\[(?<count>[?0-9;]*)(?<name>[A-Za-z])$/.exec(sequence)?.groups ?? {};
    this.#mustWrap = false;
    switch (name) {
      case "m":
      // Bracketed paste.
      case "h":
      case "l":
        return;
      case "C":
        this.#column = Math.min(this.columns - 1, this.#column + Number(count));
        return;
      case "A":
        this.#row = Math.max(this.#top, this.#row - Number(count));
        return;
      case "G":
        this.#column = Math.min(this.columns, Number(count)) - 1;
        return;
      case "J":
        this.#rows.length = this.#row + 1;
        this.#cells().length = Math.min(this.#cells().length, this.#column);
        return;
      default:
        assert.fail(`the chat wrote ${JSON.stringify(sequence)}`);
    }
  }

  get #top(): number {
    return Math.max(0, this.#rows.length - this.#height);
  }

  #cells(): string[] {
    const cells = this.#rows[this.#row];
    assert.ok(cells !== undefined);
    return cells;
  }

  #put(grapheme: string): void {
    // A carriage return and a line feed are one grapheme.
    if (grapheme === "\n" || grapheme === "\r\n") this.#newLine();
    else if (grapheme === "\r") this.#column = 0;
    else {
      const width = textWidth(grapheme);
      if (this.#mustWrap || this.#column + width > this.columns) this.#newLine();
      this.#cells()[this.#column] = grapheme;
      for (let more = 1; more < width; more++) this.#cells()[this.#column + more] = "";
      this.#column += width;
      this.#mustWrap = this.#column >= this.columns;
      if (this.#mustWrap) this.#column = this.columns - 1;
      return;
    }
    this.#mustWrap = false;
  }

  #newLine(): void {
    this.#row++;
    this.#column = 0;
    this.#mustWrap = false;
    if (this.#row === this.#rows.length) this.#rows.push([]);
  }
}
