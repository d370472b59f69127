/**
 * The member `model` of a JSON object, found byte by byte.
 *
 * Only the outermost object is looked at, and of its members only the names and that one value; everything else is passed over by counting
 * brackets. Some servers read names without regard to case, so `Model` is no name for anything else.
 */
import {
  malformed,
  type ModelField,
  type ModelFinder,
  NAME_CHARS_MAX,
  noModelNamed,
  twoModels,
} from "./model-field.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPENING: ReadonlyMap<number, number> = new Map([
  [0x7b, 0x7d],
  [0x5b, 0x5d],
]);
const CLOSING: ReadonlySet<number> = new Set(OPENING.values());
const SPACES: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d]);

/** As deep as a request's JSON may be anywhere here. */
const DEPTH_MAX = 64;
/** Each character may be written as six bytes. */
const TEXT_BYTES_MAX = NAME_CHARS_MAX * 6;

export class JsonModel implements ModelFinder {
  found: ModelField | undefined;
  /** The brackets that are to come. */
  readonly #open: number[] = [];
  #at = 0;
  #isInString = false;
  #isEscaped = false;
  #isOver = false;
  /** What the string at hand is, in the outermost object. */
  #place: "name" | "value" = "name";
  #name = "";
  #text: number[] = [];
  #textFrom = 0;

  push(piece: Uint8Array): void {
    for (const byte of piece) {
      if (this.#isInString) this.#inString(byte);
      else this.#between(byte);
      this.#at++;
    }
  }

  end(): void {
    if (!this.#isOver) throw malformed("is no JSON object");
    if (this.found === undefined) throw noModelNamed();
  }

  written(name: string): Uint8Array {
    return Buffer.from(JSON.stringify(name));
  }

  #between(byte: number): void {
    if (SPACES.has(byte)) return;
    if (this.#isOver) throw malformed("has something behind its JSON object");
    const depth = this.#open.length;
    const closing = OPENING.get(byte);
    if (depth === 0 && byte !== 0x7b) throw malformed("is no JSON object");
    if (closing !== undefined) {
      if (depth >= DEPTH_MAX) throw malformed(`is more than ${DEPTH_MAX} deep`);
      this.#open.push(closing);
    } else if (CLOSING.has(byte)) {
      if (this.#open.pop() !== byte) throw malformed("has brackets that do not match");
      this.#isOver = this.#open.length === 0;
    } else if (byte === QUOTE) {
      this.#isInString = true;
      this.#text = [];
      this.#textFrom = this.#at;
    } else if (depth === 1 && byte === COMMA) this.#place = "name";
    else if (depth === 1 && byte === COLON) this.#place = "value";
  }

  #inString(byte: number): void {
    if (!this.#isEscaped && byte === QUOTE) {
      this.#isInString = false;
      if (this.#open.length === 1) this.#ended();
      return;
    }
    this.#isEscaped = !this.#isEscaped && byte === BACKSLASH;
    if (this.#open.length === 1 && this.#text.length <= TEXT_BYTES_MAX) this.#text.push(byte);
  }

  #ended(): void {
    if (this.#place === "name") {
      this.#name = this.#spelled() ?? "";
      if (this.#name.toLowerCase() !== "model") return;
      if (this.found !== undefined || this.#name !== "model") throw twoModels();
    } else if (this.#name === "model" && this.found === undefined) {
      const name = this.#spelled();
      if (name === undefined || name === "") throw noModelNamed();
      this.found = { name, from: this.#textFrom, to: this.#at + 1 };
    }
  }

  /** Undefined when it is longer than any name, or no JSON. */
  #spelled(): string | undefined {
    if (this.#text.length > TEXT_BYTES_MAX) return undefined;
    try {
      const text: unknown = JSON.parse(`"${Buffer.from(this.#text).toString()}"`);
      return typeof text === "string" && text.length <= NAME_CHARS_MAX ? text : undefined;
    } catch {
      throw malformed("is not valid JSON");
    }
  }
}
