/**
 * Stops that clients asked for by the Idempotency-Key of a request, remembered for longer than a client asks again.
 *
 *     gateway_stops  by the row's name of the request
 *
 * A stop may overtake its request, or meet a gateway that is killed before it has ended the answer. The row is durable first, so that the request
 * that comes late or again is refused, and a start ends what the process before it did not: nothing is generated for a client that wants it no longer.
 */
import type { SealedRows } from "./sealed-rows.ts";

const STOPS = "gateway_stops";

export class Stops {
  readonly #rows: SealedRows;
  readonly #ttlMs: number;

  constructor(rows: SealedRows, ttlMs: number) {
    this.#rows = rows;
    this.#ttlMs = ttlMs;
  }

  async remember(name: string): Promise<void> {
    await this.#rows.batch([await this.#rows.put(STOPS, name, new Uint8Array(1), this.#ttlMs)]);
  }

  /** Whether one of these requests was stopped. */
  async has(names: readonly string[]): Promise<boolean> {
    const rows = names.map((name) => this.#rows.read(STOPS, name, () => true));
    return (await Promise.all(rows)).includes(true);
  }
}
