/**
 * Where the rows of streams are, as far as this process has met them: name to id.
 *
 * An id belongs to one stream for ever, so what is remembered is never wrong, only over: then its row is not found, and the name is looked up again.
 */
import type { StreamName } from "../../core/stream-state.ts";
import { putLast } from "../../protocol/put-last.ts";
import { nameKey } from "../stream-index.ts";
import type { Absent, Gone } from "../stream-store.ts";
import type { StreamPlace } from "./acts.ts";
import type { StoredStream } from "./stream-rows.ts";

/** Some hundred bytes each. */
const PLACES_MAX = 100_000;

type FoundPlace = { readonly kind: "live"; readonly place: StreamPlace } | Gone | Absent;

export class StreamPlaces {
  readonly #known = new Map<string, StreamPlace>();
  readonly #lookingUp = new Map<string, Promise<FoundPlace>>();
  readonly #load: (name: StreamName) => Promise<StoredStream | Gone | undefined>;

  constructor(load: (name: StreamName) => Promise<StoredStream | Gone | undefined>) {
    this.#load = load;
  }

  /** Without waiting, when it is known. */
  known(name: StreamName): StreamPlace | undefined {
    return this.#known.get(nameKey(name));
  }

  learn(name: StreamName, { id, period, state }: StoredStream): StreamPlace {
    const { keyCheck, conversationCheck, createdMs } = state;
    const place = { id, period, origin: { keyCheck, conversationCheck, createdMs } };
    putLast(this.#known, nameKey(name), place, PLACES_MAX);
    return place;
  }

  forget(name: StreamName): void {
    this.#known.delete(nameKey(name));
  }

  /** Callers that ask at the same time share one look-up, and continue in the order in which they asked. */
  find(name: StreamName): Promise<FoundPlace> {
    const key = nameKey(name);
    const place = this.#known.get(key);
    if (place !== undefined) return Promise.resolve({ kind: "live", place });
    const underWay = this.#lookingUp.get(key);
    if (underWay !== undefined) return underWay;
    const looking = this.#lookUp(name).finally(() => this.#lookingUp.delete(key));
    this.#lookingUp.set(key, looking);
    return looking;
  }

  async #lookUp(name: StreamName): Promise<FoundPlace> {
    const found = await this.#load(name);
    if (found === undefined) return { kind: "absent" };
    if ("kind" in found) return found;
    return { kind: "live", place: this.learn(name, found) };
  }
}
