/**
 * Runs the variants of a row in turns, A B C A B C ..., so that whatever else the machine does meets
 * all of them, and keeps what each round measured.
 */
import type { Measured } from "./numbers.ts";
import { numberOf } from "./numbers.ts";
import type { Progress } from "./progress.ts";
import { type Spread, spreadOf } from "./statistics.ts";
import { stopAllPeers } from "./peer.ts";
import { temporaryDirectories } from "./temporary.ts";

export interface RoundsOptions {
  readonly count: number;
  /** Small and short: shows that the row works, says nothing about speed. */
  readonly quick: boolean;
  readonly progress: Progress;
  readonly row: string;
}

export type Variant = (directory: string) => Promise<Measured>;

export class Rounds {
  readonly quick: boolean;
  readonly #options: RoundsOptions;

  constructor(options: RoundsOptions) {
    this.quick = options.quick;
    this.#options = options;
  }

  /** `full` in a real run, `small` in a quick one. */
  size(full: number, small: number): number {
    return this.quick ? small : full;
  }

  async run(variants: Readonly<Record<string, Variant>>): Promise<Results> {
    const { count, progress, row } = this.#options;
    const results = new Map<string, Measured[]>();
    for (let round = 1; round <= count; round++) {
      for (const [name, variant] of Object.entries(variants)) {
        progress.step(`${row}: ${name}, round ${round} of ${count}`);
        const measured = await isolated(variant);
        results.set(name, [...(results.get(name) ?? []), measured]);
      }
    }
    return new Results(results);
  }
}

/** With a directory of its own, and without leaving a process or a file behind. */
async function isolated(variant: Variant): Promise<Measured> {
  const directories = temporaryDirectories();
  try {
    return await variant(await directories.make());
  } finally {
    await stopAllPeers();
    await directories.remove();
  }
}

export class Results {
  readonly #rounds: ReadonlyMap<string, readonly Measured[]>;

  constructor(rounds: ReadonlyMap<string, readonly Measured[]>) {
    this.#rounds = rounds;
  }

  spread(variant: string, name: string): Spread {
    return spreadOf(this.#of(variant).map((measured) => numberOf(measured, name)));
  }

  median(variant: string, name: string): number {
    return this.spread(variant, name).median;
  }

  /** The median of the ratios of neighbouring rounds: what disturbs both at a time cancels out. */
  ratio(variant: string, other: string, name: string, otherName: string = name): number {
    return spreadOf(this.#pairs(variant, other, name, otherName).map(([one, against]) => one / against))
      .median;
  }

  /** How much more, by neighbouring rounds. */
  difference(variant: string, other: string, name: string): Spread {
    return spreadOf(this.#pairs(variant, other, name, name).map(([one, against]) => one - against));
  }

  #pairs(
    variant: string,
    other: string,
    name: string,
    otherName: string,
  ): readonly (readonly [number, number])[] {
    const others = this.#of(other);
    return this.#of(variant).map((measured, round) => {
      const against = others[round];
      return [numberOf(measured, name), against === undefined ? Number.NaN : numberOf(against, otherName)];
    });
  }

  #of(variant: string): readonly Measured[] {
    const found = this.#rounds.get(variant);
    if (found === undefined) throw new Error(`${variant} was not run`);
    return found;
  }
}
