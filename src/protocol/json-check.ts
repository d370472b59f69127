/**
 * Refuses JSON that is small as text and huge once parsed, before it is parsed (E8, F2).
 *
 * One pass over the bytes: how deep, and how many values. Whether it is JSON at all is left to the parser.
 */
import { HoldfastError } from "./errors.ts";
import { LIMITS } from "./limits.ts";

/** Many times what the largest append has; a parser is done with so many in milliseconds. */
const VALUES_MAX = 64 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

export function checkJson(bytes: Uint8Array, valuesMax = VALUES_MAX): void {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) {
      at = endOfText(bytes, at);
    } else if (OPENING.has(byte)) {
      values++;
      if (++depth > LIMITS.jsonDepthMax) throw tooMuch(`is nested deeper than ${LIMITS.jsonDepthMax}`);
    } else if (CLOSING.has(byte)) {
      depth--;
    } else if (byte === COMMA) {
      values++;
    }
    if (values > valuesMax) throw tooMuch(`has more than ${valuesMax} values`);
  }
}

/** Of the closing quote. Long bodies are long texts: they are searched up to the first quote, and walked only behind one that is escaped. */
function endOfText(bytes: Uint8Array, from: number): number {
  const first = bytes.indexOf(QUOTE, from + 1);
  if (first === -1) return bytes.length;
  let backslashes = 0;
  while (bytes[first - 1 - backslashes] === BACKSLASH) backslashes++;
  if (backslashes % 2 === 0) return first;
  let at = first + 1;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
}

function tooMuch(what: string): HoldfastError {
  return new HoldfastError("invalid_frame", `the JSON ${what}`);
}
