/**
 * Reads JSON in slices, so that a body of many megabytes never holds up the other requests.
 *
 * It walks the structure itself and leaves numbers, and texts with escapes, to `JSON.parse`, a piece of a long text at a time. What it gives is
 * what `JSON.parse` gives for the whole; depth and count of values are bounded on the way, before anything is built from them (E8).
 */
import { isUtf8 } from "node:buffer";
import { HoldfastError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** An object or a list that is not closed yet. */
type Open =
  | { readonly kind: "list"; readonly items: unknown[] }
  | { readonly kind: "object"; readonly fields: Record<string, unknown>; key: string };

/** What may come next. */
type Expected = "value" | "value_or_close" | "key" | "key_or_close" | "colon" | "comma_or_close" | "end";

const [SPACE, TAB, LINE_FEED, RETURN] = [0x20, 0x09, 0x0a, 0x0d] as const;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LOWER_U = 0x75;
const COMMA = 0x2c;
const COLON = 0x3a;
const [LIST_OPENS, LIST_CLOSES, OBJECT_OPENS, OBJECT_CLOSES] = [0x5b, 0x5d, 0x7b, 0x7d] as const;
/** No client sends a longer number; it would be parsed in one piece. */
const WORD_BYTES_MAX = 1_024;

export class JsonReader {
  readonly #bytes: Buffer;
  readonly #valuesMax: number;
  readonly #open: Open[] = [];
  #at = 0;
  #values = 0;
  #expected: Expected = "value";
  /** The text that is being read, as far as it was read. */
  #text: string | undefined;
  #root: unknown;

  /** Throws a `SyntaxError` when the bytes are not UTF-8: that takes a few milliseconds for the largest body. */
  constructor(bytes: Uint8Array, valuesMax: number) {
    if (!isUtf8(bytes)) throw new SyntaxError("the JSON is not UTF-8");
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#valuesMax = valuesMax;
  }

  /** Reads about so many bytes more; true when all are read. Throws a `SyntaxError` for what is not JSON, a `HoldfastError` for too much of it. */
  step(byteCount: number): boolean {
    const until = Math.min(this.#bytes.length, this.#at + byteCount);
    while (this.#at < until) {
      if (this.#text === undefined) this.#token();
      else this.#readText(until);
    }
    return this.#at >= this.#bytes.length;
  }

  /** The value, once all is read. */
  get value(): unknown {
    if (this.#expected !== "end" || this.#text !== undefined) throw new SyntaxError("the JSON is cut off");
    return this.#root;
  }

  #token(): void {
    const byte = this.#bytes[this.#at] ?? 0;
    if (isSpace(byte)) this.#at++;
    else if (byte === QUOTE) this.#beginText();
    else if (byte === LIST_OPENS) this.#begin({ kind: "list", items: [] }, "value_or_close");
    else if (byte === OBJECT_OPENS) this.#begin({ kind: "object", fields: {}, key: "" }, "key_or_close");
    else if (byte === LIST_CLOSES || byte === OBJECT_CLOSES) this.#close(byte);
    else if (byte === COMMA) this.#comma();
    else if (byte === COLON) this.#colon();
    else this.#word();
  }

  #beginText(): void {
    this.#expectValue(true);
    this.#text = "";
    this.#at++;
  }

  /** To the closing quote, or to the end of this slice: never within an escape or a character. */
  #readText(until: number): void {
    const bytes = this.#bytes;
    const from = this.#at;
    let at = from;
    let isPlain = true;
    while (at < until && bytes[at] !== QUOTE) {
      const byte = bytes[at] ?? 0;
      isPlain &&= byte >= SPACE && byte !== BACKSLASH;
      if (byte === BACKSLASH) at += bytes[at + 1] === LOWER_U ? 6 : 2;
      else at++;
    }
    const isWhole = bytes[at] === QUOTE;
    while (((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
    const raw = bytes.toString("utf8", from, at);
    const piece: unknown = isPlain ? raw : JSON.parse(`"${raw}"`);
    const text = (this.#text ?? "") + String(piece);
    this.#at = isWhole ? at + 1 : at;
    this.#text = isWhole ? undefined : text;
    if (isWhole) this.#put(text);
  }

  /** A number, true, false or null. */
  #word(): void {
    this.#expectValue(false);
    const from = this.#at;
    const end = Math.min(this.#bytes.length, from + WORD_BYTES_MAX + 1);
    let to = from;
    while (to < end && !isDelimiter(this.#bytes[to] ?? 0)) to++;
    if (to - from > WORD_BYTES_MAX) throw new SyntaxError("the JSON has a number that is too long");
    const value: unknown = JSON.parse(this.#bytes.toString("utf8", from, to));
    this.#at = to;
    this.#put(value);
  }

  #expectValue(isText: boolean): void {
    const isKey = this.#expected === "key" || this.#expected === "key_or_close";
    const isValue = this.#expected === "value" || this.#expected === "value_or_close";
    if (!isValue && !(isKey && isText)) throw unexpected();
  }

  #begin(open: Open, expected: Expected): void {
    this.#expectValue(false);
    this.#count();
    this.#open.push(open);
    if (this.#open.length > LIMITS.jsonDepthMax)
      throw tooMuch(`is nested deeper than ${LIMITS.jsonDepthMax}`);
    this.#expected = expected;
    this.#at++;
  }

  #close(byte: number): void {
    const open = this.#open.pop();
    const isEmpty = this.#expected === "value_or_close" || this.#expected === "key_or_close";
    const isRight = open?.kind === (byte === LIST_CLOSES ? "list" : "object");
    if (open === undefined || !isRight || !(isEmpty || this.#expected === "comma_or_close"))
      throw unexpected();
    this.#at++;
    this.#expected = "value";
    this.#put(open.kind === "list" ? open.items : open.fields);
  }

  #comma(): void {
    if (this.#expected !== "comma_or_close") throw unexpected();
    this.#count();
    this.#expected = this.#open.at(-1)?.kind === "list" ? "value" : "key";
    this.#at++;
  }

  #colon(): void {
    if (this.#expected !== "colon") throw unexpected();
    this.#expected = "value";
    this.#at++;
  }

  /** A whole value, or a key, to where it belongs. */
  #put(value: unknown): void {
    const open = this.#open.at(-1);
    if (open?.kind === "object" && (this.#expected === "key" || this.#expected === "key_or_close")) {
      open.key = String(value);
      this.#expected = "colon";
      return;
    }
    if (open === undefined) this.#root = value;
    else if (open.kind === "list") open.items.push(value);
    else setField(open.fields, open.key, value);
    this.#expected = open === undefined ? "end" : "comma_or_close";
  }

  #count(): void {
    if (++this.#values > this.#valuesMax) throw tooMuch(`has more than ${this.#valuesMax} values`);
  }
}

function isSpace(byte: number): boolean {
  return byte === SPACE || byte === LINE_FEED || byte === RETURN || byte === TAB;
}

function isDelimiter(byte: number): boolean {
  return (
    isSpace(byte) ||
    byte === COMMA ||
    byte === LIST_CLOSES ||
    byte === OBJECT_CLOSES ||
    byte === COLON ||
    byte === QUOTE ||
    byte === LIST_OPENS ||
    byte === OBJECT_OPENS
  );
}

/** As `JSON.parse` does: a field that is called so, not another prototype. */
function setField(fields: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") fields[key] = value;
  else Object.defineProperty(fields, key, { value, enumerable: true, configurable: true, writable: true });
}

function unexpected(): SyntaxError {
  return new SyntaxError("the JSON is not well-formed");
}

function tooMuch(what: string): HoldfastError {
  return new HoldfastError("invalid_frame", `the JSON ${what}`);
}
