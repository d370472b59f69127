/**
 * What each API key has used of its rate, on tables that several nodes share: one row a key, spent by compare-and-swap, so that a rate holds over all nodes.
 *
 *     gateway_rates  by API key
 *
 * Nodes' clocks differ a little, and so does what they let in. Which requests are open at once is counted by each node.
 */
import { z } from "zod";
import type { Environment } from "../transport/environment.ts";
import { type Rate, type RateUse, spent } from "./http/allowances.ts";
import type { Names } from "./names.ts";
import { uncontested } from "./neighbours.ts";
import type { SealedRows } from "./sealed-rows.ts";

const RATES = "gateway_rates";
/** A rate is whole again after a minute of silence. */
const KEPT_MS = 2 * 60_000;

const RATE = z.object({ tokens: z.number(), returns: z.number(), atMs: z.number() });

interface SharedRatesParts {
  readonly rows: SealedRows;
  readonly names: Names;
  readonly now: Environment["now"];
}

export class SharedRates {
  readonly #parts: SharedRatesParts;

  constructor(parts: SharedRatesParts) {
    this.#parts = parts;
  }

  /** Takes one of what the API key may send in a minute; rejects when there is none left. */
  async spend(apiKeyId: string, use: RateUse): Promise<void> {
    const { rows, names, now } = this.#parts;
    const key = names.row("rate", apiKeyId);
    await uncontested(async () => {
      const { row, version: expectedVersion } = await rows.look(RATES, key, decode);
      const left = new TextEncoder().encode(JSON.stringify(spent(row, use, now())));
      await rows.batch([{ ...(await rows.put(RATES, key, left, KEPT_MS)), expectedVersion }]);
    });
  }
}

function decode(bytes: Uint8Array): Rate {
  return RATE.parse(JSON.parse(new TextDecoder().decode(bytes)));
}
