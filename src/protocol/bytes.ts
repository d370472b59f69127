/** Bytes put together, and compared. */

/** Memory of its own: what is cut out of it keeps none of the pieces alive. */
export function joinedBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const piece of pieces) {
    bytes.set(piece, filled);
    filled += piece.length;
  }
  return bytes;
}

export function isSameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}

const PAIRS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** In lower-case hexadecimal digits. */
export function hexOf(bytes: Uint8Array): string {
  let digits = "";
  for (let at = 0; at < bytes.length; at++) digits += PAIRS[bytes[at] ?? 0];
  return digits;
}

/** Of digits that come from this code; what is no digit is not noticed. */
export function bytesOfHex(digits: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(digits.length >>> 1);
  for (let at = 0; at < bytes.length; at++)
    bytes[at] = (nibbleOf(digits.charCodeAt(2 * at)) << 4) | nibbleOf(digits.charCodeAt(2 * at + 1));
  return bytes;
}

/** The low half of a digit's code is its value; that of a letter lacks nine. */
function nibbleOf(code: number): number {
  return (code & 0xf) + (code >>> 6) * 9;
}
