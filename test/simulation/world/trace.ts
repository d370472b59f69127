/**
 * What happened, twice: the last lines for people, and a hash of everything for machines.
 *
 * One idea: a line is kept as its parts (time, actor, text, up to three values) in slots that are
 * reused, and turned into text only when somebody looks. Recording therefore costs little enough to
 * be always on, and a failure shows its trace without being run again.
 *
 * Invariant: two runs with equal hashes recorded the same lines at the same times.
 */
export type TraceValue = string | number | undefined;

interface Slot {
  atMs: number;
  actor: string;
  text: string;
  a: TraceValue;
  b: TraceValue;
  c: TraceValue;
}

export interface TraceOptions {
  /** How many of the last lines are kept. Default 400: a screenful or two of context for a failure. */
  readonly linesMax?: number;
  /** Gets every line as text: `--trace`. */
  readonly print?: ((line: string) => void) | undefined;
}

export class Trace {
  readonly #slots: Slot[] = [];
  readonly #linesMax: number;
  readonly #print: ((line: string) => void) | undefined;
  #next = 0;
  #low = 0x811c9dc5 | 0;
  #high = 0x2545f491 | 0;

  constructor(options: TraceOptions = {}) {
    this.#linesMax = options.linesMax ?? 400;
    this.#print = options.print;
  }

  record(atMs: number, actor: string, text: string, a?: TraceValue, b?: TraceValue, c?: TraceValue): void {
    this.mix(atMs);
    this.#mixText(actor);
    this.#mixText(text);
    if (a !== undefined) this.#mixValue(a);
    if (b !== undefined) this.#mixValue(b);
    if (c !== undefined) this.#mixValue(c);

    const slot = this.#slots[this.#next];
    if (slot === undefined) {
      this.#slots.push({ atMs, actor, text, a, b, c });
    } else {
      slot.atMs = atMs;
      slot.actor = actor;
      slot.text = text;
      slot.a = a;
      slot.b = b;
      slot.c = c;
    }
    this.#next = (this.#next + 1) % this.#linesMax;
    if (this.#print !== undefined) this.#print(render({ atMs, actor, text, a, b, c }));
  }

  /** Adds a number to the hash without making a line of it. */
  mix(value: number): void {
    // Whole numbers above 32 bits (times) go in as two halves; fractions keep 2^-20 of themselves.
    const low = value | 0;
    const high = Math.floor(value / 4294967296) ^ ((value % 1) * 1048576);
    this.#low = Math.imul(this.#low ^ low, 0x01000193) ^ high;
    this.#high = Math.imul(this.#high ^ low, 0x5bd1e995) + high;
    this.#high ^= this.#high >>> 13;
  }

  /** Of every line since the beginning, as 16 hex digits. */
  get hash(): string {
    return hex(this.#high) + hex(this.#low);
  }

  /** The last lines, oldest first. */
  lines(): readonly string[] {
    const split = this.#slots.length < this.#linesMax ? 0 : this.#next;
    return [...this.#slots.slice(split), ...this.#slots.slice(0, split)].map(render);
  }

  #mixValue(value: string | number): void {
    if (typeof value === "number") this.mix(value);
    else this.#mixText(value);
  }

  #mixText(text: string): void {
    let low = this.#low;
    let high = this.#high;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      low = Math.imul(low ^ code, 0x01000193);
      high = Math.imul(high ^ code, 0x5bd1e995);
    }
    // The length keeps ("ab", "c") and ("a", "bc") apart.
    this.#low = Math.imul(low ^ text.length, 0x01000193);
    this.#high = high ^ (high >>> 15);
  }
}

function render(slot: Slot): string {
  const values = [slot.a, slot.b, slot.c].filter((value) => value !== undefined).join(" ");
  return `${String(slot.atMs).padStart(9)} ms  ${slot.actor.padEnd(12)} ${slot.text}${values === "" ? "" : ` ${values}`}`;
}

function hex(word: number): string {
  return (word >>> 0).toString(16).padStart(8, "0");
}
