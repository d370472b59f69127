/**
 * Rows of the gateway's tables, sealed under its home key.
 *
 * A row that cannot be read is as good as none: the request that it was for begins anew.
 *
 * Most rows are written before a client learns what they say. Those that follow an answer say what the log says as well, or what nothing is promised by: they wait for
 * the next batch and share its commit (decision 165). A crash may lose them; a read never misses them.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Sealer } from "../sealing/index.ts";
import type { NO_ROW as STORED, TableRow, TableStore, TableWrite } from "../store/table-store.ts";
import type { Environment } from "../transport/environment.ts";

const PAGE_ROWS = 256;
/** Longer than a busy client takes to its next request, and shorter than a person takes to restart a server. */
const BEHIND_MS = 100;

/** The version of no row, as the store counts. */
export const NO_ROW: number = 0 satisfies typeof STORED;

export interface SealedRowsOptions {
  readonly tables: TableStore;
  readonly sealer: Sealer;
  readonly onDamaged: (cause: unknown) => void;
  readonly environment: Pick<Environment, "after">;
}

export interface Looked<Row> {
  readonly row: Row | undefined;
  readonly version: number;
}

export class SealedRows {
  readonly #options: SealedRowsOptions;
  /** Rows that wait for the next batch, by table and key. */
  #waiting = new Map<string, TableWrite>();
  #stopClock = (): void => undefined;

  constructor(options: SealedRowsOptions) {
    this.#options = options;
  }

  async put(table: string, key: string, value: Uint8Array, ttlMs: number): Promise<TableWrite> {
    const sealed = await this.#options.sealer.seal(labelOf(table, key), value);
    return { kind: "put", table, key, value: sealed, ttlMs };
  }

  /** All or none; the version of what was put. Rejects with `fenced` when a row is not what a write expects: another node was first. */
  async batch(writes: readonly TableWrite[]): Promise<number> {
    // One commit with what follows it, and in a batch of its own: it expects nothing, so it is written whatever becomes of the others.
    const waited = this.flush();
    const [result] = await Promise.all([this.#options.tables.batch(writes), waited]);
    if (result.kind === "written") return result.version;
    throw new HoldfastError("fenced", "another node has changed what this request is about");
  }

  /** With the next batch, or alone after a short while. Where other nodes read the tables, nothing may wait. */
  behind(writes: readonly TableWrite[]): void {
    if (this.#waiting.size === 0) {
      const flush = (): void => void this.flush().catch(this.#options.onDamaged);
      this.#stopClock = this.#options.environment.after(BEHIND_MS, flush);
    }
    for (const write of writes) this.#waiting.set(placeOf(write.table, write.key), write);
  }

  /** Resolves when nothing waits any more that waited when it was called. */
  async flush(): Promise<void> {
    const writes = [...this.#waiting.values()];
    if (writes.length === 0) return;
    this.#waiting = new Map();
    this.#stopClock();
    await this.#options.tables.batch(writes);
  }

  async read<Row>(table: string, key: string, decode: (bytes: Uint8Array) => Row): Promise<Row | undefined> {
    const waiting = this.#waiting.get(placeOf(table, key));
    if (waiting?.kind === "put") return this.open(table, waiting, decode);
    if (waiting?.kind === "delete") return undefined;
    return (await this.look(table, key, decode)).row;
  }

  /** The row, and the version that a write over it expects. */
  async look<Row>(table: string, key: string, decode: (bytes: Uint8Array) => Row): Promise<Looked<Row>> {
    if (this.#waiting.has(placeOf(table, key))) await this.flush();
    const row = await this.#options.tables.get({ table, key });
    if (row === undefined) return { row, version: NO_ROW };
    return { row: await this.open(table, row, decode), version: row.version };
  }

  /** Undefined when it cannot be read. */
  async open<Row>(
    table: string,
    { key, value }: Pick<TableRow, "key" | "value">,
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
    await this.flush();
    for (let after: string | undefined; ;) {
      const page = await this.#options.tables.list(table, prefix, { after, countMax: PAGE_ROWS });
      yield* page;
      after = page.at(-1)?.key;
      if (page.length < PAGE_ROWS || after === undefined) return;
    }
  }
}

function placeOf(table: string, key: string): string {
  return `${table}/${key}`;
}

/** A row that is moved elsewhere does not open. */
function labelOf(table: string, key: string) {
  return { stream: placeOf(table, key), direction: "journal", first: 0, count: 1, kind: "gateway" } as const;
}
