/**
 * Rows of the gateway's tables, sealed under its home key.
 *
 * A row that cannot be read is as good as none: the request that it was for begins anew.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Sealer } from "../sealing/index.ts";
import type { NO_ROW as STORED, TableRow, TableStore, TableWrite } from "../store/table-store.ts";

const PAGE_ROWS = 256;

/** The version of no row, as the store counts. */
export const NO_ROW: number = 0 satisfies typeof STORED;

export interface SealedRowsOptions {
  readonly tables: TableStore;
  readonly sealer: Sealer;
  readonly onDamaged: (cause: unknown) => void;
}

export interface Looked<Row> {
  readonly row: Row | undefined;
  readonly version: number;
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

  /** All or none; the version of what was put. Rejects with `fenced` when a row is not what a write expects: another node was first. */
  async batch(writes: readonly TableWrite[]): Promise<number> {
    const result = await this.#options.tables.batch(writes);
    if (result.kind === "written") return result.version;
    throw new HoldfastError("fenced", "another node has changed what this request is about");
  }

  async read<Row>(table: string, key: string, decode: (bytes: Uint8Array) => Row): Promise<Row | undefined> {
    return (await this.look(table, key, decode)).row;
  }

  /** The row, and the version that a write over it expects. */
  async look<Row>(table: string, key: string, decode: (bytes: Uint8Array) => Row): Promise<Looked<Row>> {
    const row = await this.#options.tables.get({ table, key });
    if (row === undefined) return { row, version: NO_ROW };
    return { row: await this.open(table, row, decode), version: row.version };
  }

  /** Undefined when it cannot be read. */
  async open<Row>(
    table: string,
    { key, value }: TableRow,
    decode: (bytes: Uint8Array) => Row,
  ): Promise<Row | undefined> {
    try {
      return decode(await this.#options.sealer.open(labelOf(table, key), value));
    } catch (cause) {
      this.#options.onDamaged(cause);
      return undefined;
    }
  }

  /** As they lie there. */
  async *list(table: string, prefix = ""): AsyncGenerator<TableRow> {
    for (let after: string | undefined; ;) {
      const page = await this.#options.tables.list(table, prefix, { after, countMax: PAGE_ROWS });
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
