/**
 * A terminal of a few rows that knows the sequences the chat uses, and fails on every other: so a test sees what a
 * person would see. It wraps late, as real ones do: only when there is more to write.
 */
import assert from "node:assert/strict";
import { textWidth } from "../../src/cli/chat/text-width.ts";

const GRAPHEMES = new Intl.Segmenter("en");
const ESCAPE = "\u001b";
const SEQUENCE = /^\[(?<count>[?0-9;]*)(?<name>[A-Za-z])(?<rest>[^]*)$/;

export class TinyTerminal {
  readonly isTTY = true;
  readonly columns: number;
  readonly #height: number;
  /** Everything, also what has scrolled away. */
  #rows: string[][] = [[]];
  #row = 0;
  #column = 0;
  #mustWrap = false;
  /** A sequence may come in two pieces. */
  #unfinished = "";

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
    const [plain = "", ...sequences] = (this.#unfinished + text).split(ESCAPE);
    this.#unfinished = "";
    this.#print(plain);
    for (const [at, sequence] of sequences.entries()) {
      const { count, name, rest } = SEQUENCE.exec(sequence)?.groups ?? {};
      if (name === undefined && at === sequences.length - 1) this.#unfinished = ESCAPE + sequence;
      else this.#obey(count ?? "", name ?? `no sequence: ${sequence}`);
      this.#print(rest ?? "");
    }
  }

  #print(text: string): void {
    for (const { segment } of GRAPHEMES.segment(text)) this.#put(segment);
  }

  #obey(count: string, name: string): void {
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
      case "H":
        assert.equal(count, "1;1");
        this.#row = this.#top;
        this.#column = 0;
        return;
      case "G":
        this.#column = Math.min(this.columns, Number(count)) - 1;
        return;
      case "J":
        this.#rows.length = this.#row + 1;
        this.#cells().length = Math.min(this.#cells().length, this.#column);
        return;
      default:
        assert.fail(`the chat wrote ${JSON.stringify(`${count}${name}`)}`);
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
