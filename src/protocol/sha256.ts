/**
 * SHA-256 that answers at once, in browsers too: their own hash answers later, and a journal's records must not wait for it.
 *
 * For names and comparisons of bytes that are no secret to a process that measures the time. Seals and MACs use the platform's own (`src/sealing`).
 */

const BLOCK_BYTES = 64;

/** The first 32 bits of the fractional parts of the roots (square: 1/2, cube: 1/3) of the first prime numbers. */
function fractions(count: number, root: number): Int32Array {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate++) {
    let divisor = 2;
    while (candidate % divisor !== 0) divisor++;
    if (divisor === candidate) found.push((candidate ** root % 1) * 2 ** 32);
  }
  return new Int32Array(Uint32Array.from(found));
}

let tables: { readonly start: Int32Array; readonly rounds: Int32Array } | undefined;

export function sha256(...pieces: readonly Uint8Array[]): Uint8Array {
  const { start, rounds } = (tables ??= { start: fractions(8, 1 / 2), rounds: fractions(64, 1 / 3) });
  const message = padded(pieces);
  const view = new DataView(message.buffer);
  const state = start.slice();
  const words = new Int32Array(64);
  for (let at = 0; at < message.length; at += BLOCK_BYTES) {
    for (let word = 0; word < 16; word++) words[word] = view.getInt32(at + word * 4);
    addBlock(state, words, rounds);
  }
  const hash = new DataView(new ArrayBuffer(32));
  state.forEach((word, at) => hash.setInt32(at * 4, word));
  return new Uint8Array(hash.buffer);
}

/** The pieces, a bit, zeros, and how many bits it were. */
function padded(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const bytes = new Uint8Array(Math.ceil((length + 9) / BLOCK_BYTES) * BLOCK_BYTES);
  let filled = 0;
  for (const piece of pieces) {
    bytes.set(piece, filled);
    filled += piece.length;
  }
  bytes[length] = 0x80;
  new DataView(bytes.buffer).setBigUint64(bytes.length - 8, BigInt(length) * 8n);
  return bytes;
}

const turned = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));

function addBlock(state: Int32Array, words: Int32Array, rounds: Int32Array): void {
  for (let at = 16; at < 64; at++) {
    const far = words[at - 15] ?? 0;
    const near = words[at - 2] ?? 0;
    const farMixed = turned(far, 7) ^ turned(far, 18) ^ (far >>> 3);
    const nearMixed = turned(near, 17) ^ turned(near, 19) ^ (near >>> 10);
    words[at] = ((words[at - 16] ?? 0) + farMixed + (words[at - 7] ?? 0) + nearMixed) | 0;
  }
  // One by one: taking them apart as a list is as slow as half of the rounds.
  const word = (at: number): number => state[at] ?? 0;
  let a = word(0);
  let b = word(1);
  let c = word(2);
  let d = word(3);
  let e = word(4);
  let f = word(5);
  let g = word(6);
  let h = word(7);
  for (let at = 0; at < 64; at++) {
    const mixed = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const first = (h + mixed + ((e & f) ^ (~e & g)) + (rounds[at] ?? 0) + (words[at] ?? 0)) | 0;
    const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  state[0] = word(0) + a;
  state[1] = word(1) + b;
  state[2] = word(2) + c;
  state[3] = word(3) + d;
  state[4] = word(4) + e;
  state[5] = word(5) + f;
  state[6] = word(6) + g;
  state[7] = word(7) + h;
}

/** HMAC with SHA-256. */
export function hmacSha256(key: Uint8Array, message: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES);
  block.set(key.length > BLOCK_BYTES ? sha256(key) : key);
  const inner = sha256(
    block.map((byte) => byte ^ 0x36),
    message,
  );
  return sha256(
    block.map((byte) => byte ^ 0x5c),
    inner,
  );
}
