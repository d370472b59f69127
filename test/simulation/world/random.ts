/**
 * The only source of chance in the simulator: sfc32 (Chris Doty-Humphrey's "small fast counter",
 * 128 bits of state, passes PractRand), seeded from a number and a path of labels.
 *
 * One idea: `fork(label)` derives an independent stream from the *seed* and the label, not from how
 * many draws were made. Adding a draw in one place therefore does not shift all the others, and a
 * failing seed stays close to itself while somebody adds a trace line or a new fault.
 *
 * Invariant: equal seed and equal labels give equal draws, on every machine.
 */
export class Random {
  readonly #path: string;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number | string) {
    this.#path = String(seed);
    const [a, b, c] = digest(this.#path);
    this.#a = a;
    this.#b = b;
    this.#c = c;
    // The author's advice: twelve rounds mix the seed into every bit of the state.
    for (let round = 0; round < 12; round++) this.uint32();
  }

  /** The same label gives the same stream again: forks that must differ need labels that differ. */
  fork(label: string | number): Random {
    return new Random(`${this.#path}/${label}`);
  }

  uint32(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return sum >>> 0;
  }

  /** At least 0 and below 1, with 32 bits of it random. */
  float(): number {
    return this.uint32() / 4294967296;
  }

  /** A whole number, at least 0 and below `max`. */
  int(max: number): number {
    if (!(max >= 1)) throw new RangeError(`int(${max}): there is no whole number below it`);
    return Math.floor(this.float() * max);
  }

  /** A whole number between the two, both included. */
  between(min: number, max: number): number {
    return min + this.int(max - min + 1);
  }

  /** Draws nothing when the answer is certain, so faults that are off cost nothing. */
  chance(probability: number): boolean {
    if (probability <= 0) return false;
    return probability >= 1 || this.float() < probability;
  }

  pick<T>(list: readonly T[]): T {
    const index = this.int(list.length);
    const item = list[index];
    if (item === undefined) throw new RangeError(`pick: item ${index} of the list is undefined`);
    return item;
  }

  bytes(length: number): Uint8Array {
    const result = new Uint8Array(length);
    let word = 0;
    for (let i = 0; i < length; i++) {
      word = i % 4 === 0 ? this.uint32() : word >>> 8;
      result[i] = word & 0xff;
    }
    return result;
  }
}

/** Three 32-bit hashes of the text with different multipliers: 96 bits tell all forks apart. */
function digest(text: string): readonly [number, number, number] {
  let a = 0x9e3779b9;
  let b = 0x243f6a88;
  let c = 0xb7e15162;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 0x85ebca6b);
    b = Math.imul(b ^ code, 0xc2b2ae35);
    c = Math.imul(c ^ code, 0x27d4eb2f);
    a ^= a >>> 15;
    b ^= b >>> 13;
    c ^= c >>> 16;
  }
  return [a | 0, b | 0, c | 0];
}
