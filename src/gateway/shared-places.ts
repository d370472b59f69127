/**
 * Places that several nodes share: of so many under one name, which are taken and by whom. A row a name, changed by compare-and-swap, so a limit holds over all nodes.
 *
 *     gateway_places  by name
 *
 * A holder says when it leaves, or dies before it can. So the holders are looked at when all places are taken: those that are over by then make room.
 *
 * Invariant: requests that are not over hold at most `max` places under a name at once.
 */
import { z } from "zod";
import type { Environment } from "../transport/environment.ts";
import type { Names } from "./names.ts";
import { uncontested } from "./neighbours.ts";
import type { SealedRows } from "./sealed-rows.ts";

const PLACES = "gateway_places";
/** Longer than any request or session that has a place. */
const KEPT_MS = 24 * 60 * 60_000;

const TAKEN = z.object({
  id: z.string(),
  /** The process that took it. */
  owner: z.string(),
  /** What a request reads, as far as it was known when it came. */
  reads: z.array(z.string()),
  atMs: z.number(),
});

export type TakenPlace = z.infer<typeof TAKEN>;

interface SharedPlacesParts {
  readonly rows: SealedRows;
  readonly names: Names;
  /** The name of this process. */
  readonly self: string;
  readonly now: Environment["now"];
}

interface Wish {
  readonly id: string;
  readonly reads?: readonly string[];
  readonly max: number;
  readonly isOver: (taken: TakenPlace) => Promise<boolean>;
}

export class SharedPlaces {
  readonly #parts: SharedPlacesParts;

  constructor(parts: SharedPlacesParts) {
    this.#parts = parts;
  }

  /** Takes a place, or keeps the one that it has. When no place is left it resolves with the holders, oldest first; else with nothing. */
  take(name: readonly string[], { id, reads = [], max, isOver }: Wish): Promise<readonly TakenPlace[]> {
    const { self: owner, now } = this.#parts;
    return this.#change(name, async (before) => {
      let others = before.filter((one) => one.id !== id);
      if (others.length >= max) {
        const over = await Promise.all(others.map(isOver));
        others = others.filter((_, at) => over[at] !== true);
      }
      if (others.length >= max) return { after: undefined, result: others };
      return { after: [...others, { id, owner, reads: [...reads], atMs: now() }], result: [] };
    });
  }

  leave(name: readonly string[], id: string): Promise<void> {
    return this.#change(name, async (before) => {
      const after = before.filter((one) => one.id !== id);
      return { after: after.length < before.length ? after : undefined, result: undefined };
    });
  }

  #change<Result>(
    name: readonly string[],
    look: (
      before: readonly TakenPlace[],
    ) => Promise<{ after: readonly TakenPlace[] | undefined; result: Result }>,
  ): Promise<Result> {
    const { rows, names } = this.#parts;
    const key = names.row("places", ...name);
    return uncontested(async () => {
      const { row = [], version: expectedVersion } = await rows.look(PLACES, key, decode);
      const { after, result } = await look(row);
      if (after === undefined) return result;
      const value = new TextEncoder().encode(JSON.stringify(after));
      await rows.batch([{ ...(await rows.put(PLACES, key, value, KEPT_MS)), expectedVersion }]);
      return result;
    });
  }
}

function decode(bytes: Uint8Array): readonly TakenPlace[] {
  return z.array(TAKEN).parse(JSON.parse(new TextDecoder().decode(bytes)));
}
