/**
 * Base64 for small values in headers and JSON, in Node and browsers alike.
 *
 * Neither platform has one that the other has too and that knows both alphabets. Written without padding, in
 * the alphabet that the place asks for; read from either alphabet, with or without padding.
 */
const STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE = `${STANDARD.slice(0, 62)}-_`;

const VALUE_OF: ReadonlyMap<string, number> = new Map(
  Array.from(STANDARD + URL_SAFE, (letter, at) => [letter, at % 64]),
);

export function encodeBase64(bytes: Uint8Array): string {
  return encode(bytes, STANDARD);
}

export function encodeBase64Url(bytes: Uint8Array): string {
  return encode(bytes, URL_SAFE);
}

function encode(bytes: Uint8Array, alphabet: string): string {
  let text = "";
  let bits = 0;
  let bitCount = 0;
  for (const byte of bytes) {
    bits = (bits << 8) | byte;
    bitCount += 8;
    while (bitCount >= 6) {
      bitCount -= 6;
      text += alphabet[(bits >> bitCount) & 63];
    }
    bits &= 255;
  }
  return bitCount === 0 ? text : text + alphabet[(bits << (6 - bitCount)) & 63];
}

/** Undefined when it is not base64; bits that are left over must be zero, so that a value has one spelling. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const letters = text.replace(/={1,2}$/, "");
  if (letters.length % 4 === 1) return undefined;
  const bytes = new Uint8Array(Math.floor((letters.length * 3) / 4));
  let bits = 0;
  let bitCount = 0;
  let at = 0;
  for (const letter of letters) {
    const value = VALUE_OF.get(letter);
    if (value === undefined) return undefined;
    bits = ((bits << 6) | value) & 0xffff;
    bitCount += 6;
    if (bitCount >= 8) {
      bitCount -= 8;
      bytes[at++] = (bits >> bitCount) & 255;
    }
  }
  return (bits & ((1 << bitCount) - 1)) === 0 ? bytes : undefined;
}
