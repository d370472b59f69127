/**
 * Derived sealing keys by incarnation and direction, a few of them.
 *
 * A log holds one incarnation per process that wrote it, in runs: reading it in order asks for the
 * same key many times and then never again. So the last answer is looked at first, without building
 * a name for it, and the oldest key is the one to go.
 *
 * Invariant: at most `KEYS_MAX` entries, however many incarnations a log names (F2).
 */
import type { SealedDirection } from "./sealer.ts";

export const KEYS_MAX = 16;

interface Entry<Key> {
  readonly incarnation: Uint8Array<ArrayBuffer>;
  readonly direction: SealedDirection;
  readonly key: Key;
}

type Derive<Key> = (incarnation: Uint8Array<ArrayBuffer>, direction: SealedDirection) => Key;

export class KeyCache<Key> {
  readonly #entries = new Map<string, Entry<Key>>();
  readonly #derive: Derive<Key>;
  #last: Entry<Key> | undefined;

  constructor(derive: Derive<Key>) {
    this.#derive = derive;
  }

  get(incarnation: Uint8Array, direction: SealedDirection): Key {
    const last = this.#last;
    if (last !== undefined && last.direction === direction && same(last.incarnation, incarnation)) {
      return last.key;
    }
    const name = direction + String.fromCharCode(...incarnation);
    const entry = this.#entries.get(name) ?? this.#add(name, new Uint8Array(incarnation), direction);
    this.#last = entry;
    return entry.key;
  }

  #add(name: string, incarnation: Uint8Array<ArrayBuffer>, direction: SealedDirection): Entry<Key> {
    const entry = { incarnation, direction, key: this.#derive(incarnation, direction) };
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size < KEYS_MAX) break;
      this.#entries.delete(oldest);
    }
    this.#entries.set(name, entry);
    return entry;
  }
}

/** An incarnation is no secret, so this may stop at the first difference. */
function same(a: Uint8Array, b: Uint8Array): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return a.length === b.length;
}
