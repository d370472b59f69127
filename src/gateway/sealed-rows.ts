/**
 * Rows of the gateway's tables, sealed under its home key.
 *
 * A row that cannot be read is as good as none: the request that it was for begins anew.
 */
import type { Sealer } from "../sealing/index.ts";
import type { TableRow, TableStore, TableWrite } from "../store/table-store.ts";

const PAGE_ROWS = 256;

export interface SealedRowsOptions {
  readonly tables: TableStore;
  readonly sealer: Sealer;
  readonly onDamaged: (cause: unknown) => void;
}

export class SealedRows {
  readonly #options: SealedRowsOptions;

  constructor(options: SealedRowsOptions) {
    this.#options = options;
  }

  async put(table: string, key: string, value: Uint8Array, ttlMs: number): Promise<TableWrite> {
    const sealed = await this.#options.sealer.seal(labelOf(table, key), value);
    return { kind: "put", table, key, value: new Uint8Array(sealed), ttlMs };
  }

  async batch(writes: readonly TableWrite[]): Promise<void> {
    await this.#options.tables.batch(writes);
  }

  async read<Row>(table: string, key: string, decode: (bytes: Uint8Array) => Row): Promise<Row | undefined> {
    const row = await this.#options.tables.get({ table, key });
    if (row === undefined) return undefined;
    try {
      return decode(await this.#options.sealer.open(labelOf(table, key), row.value));
    } catch (cause) {
      this.#options.onDamaged(cause);
      return undefined;
    }
  }

  /** As they lie there. */
  async *list(table: string): AsyncGenerator<TableRow> {
    for (let after: string | undefined; ;) {
      const page = await this.#options.tables.list(table, "", { after, countMax: PAGE_ROWS });
      yield* page;
      after = page.at(-1)?.key;
      if (page.length < PAGE_ROWS || after === undefined) return;
    }
  }
}

/** A row that is moved elsewhere does not open. */
function labelOf(table: string, key: string) {
  return { stream: `${table}/${key}`, direction: "journal", first: 0, count: 1, kind: "gateway" } as const;
}
