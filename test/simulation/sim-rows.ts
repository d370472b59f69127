/**
 * The rows of small tables and the blobs that a simulated database has beside its streams: what the production store sends as SQL is carried out here, statement by statement, by the
 * names that the statements have. A statement that no simulated node sends is a failure of the world, not an empty answer.
 */
import type { WriteAct } from "../../src/store/postgres/acts.ts";
import type { Row, Statement, Value } from "../../src/store/postgres/driver.ts";
import type { SealedBlob } from "../../src/store/blob-store.ts";
import { byCodePoint } from "../../src/store/key-order.ts";
import { NO_ROW, type TableKey } from "../../src/store/table-store.ts";

interface StoredRow extends TableKey {
  readonly value: Uint8Array;
  readonly version: number;
  readonly expiresMs: number | undefined;
}

interface StoredBlob {
  readonly space: string;
  readonly upload: string;
  readonly storedBytes: number;
}

export interface Written {
  readonly rowVersion: number;
  /** As `Outcome` of `verdicts.ts` has it. */
  readonly failedWrites: ReadonlyMap<WriteAct, readonly number[]>;
}

export class SimRows {
  readonly #now: () => number;
  readonly #rows = new Map<string, StoredRow>();
  readonly #blobs = new Map<string, StoredBlob>();
  readonly #parts = new Map<string, Uint8Array>();
  readonly #ends = new Map<string, number>();
  #version = 0;
  #uploads = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The batches of a group: each all or none, under one version. */
  write(acts: readonly WriteAct[]): Written {
    const rowVersion = ++this.#version;
    const failedWrites = new Map<WriteAct, readonly number[]>();
    for (const act of acts) {
      const failed = act.writes.flatMap(({ table, key, expectedVersion }, place) =>
        expectedVersion === undefined || (this.#live(table, key)?.version ?? NO_ROW) === expectedVersion
          ? []
          : [place],
      );
      if (failed.length > 0) {
        failedWrites.set(act, failed);
        continue;
      }
      for (const write of act.writes) {
        const { table, key } = write;
        if (write.kind === "delete") this.#rows.delete(nameOf(table, key));
        else {
          const expiresMs = write.ttlMs === undefined ? undefined : this.#now() + write.ttlMs;
          const row = { table, key, value: write.value, version: rowVersion, expiresMs };
          this.#rows.set(nameOf(table, key), row);
        }
      }
    }
    return { rowVersion, failedWrites };
  }

  /** Those of rows that have ended as well. */
  versionsOf(acts: readonly WriteAct[]): ReadonlyMap<string, number> {
    const names = acts.flatMap(({ writes }) => writes.map(({ table, key }) => nameOf(table, key)));
    return new Map(
      names.flatMap((name) => {
        const version = this.#rows.get(name)?.version;
        return version === undefined ? [] : [[name, version] as const];
      }),
    );
  }

  /** Of a commit: it has its name with the commit that brings it. */
  readonly storeBlob = ({ space, id, sealed, keepMs }: SealedBlob): void => {
    const upload = `commit ${++this.#uploads}`;
    this.#parts.set(nameOf(upload, 0), new Uint8Array(sealed));
    this.#nameBlob(space, id, upload, sealed.byteLength, keepMs ?? null);
  };

  carryOut({ name = "", values = [] }: Statement): readonly Row[] {
    const [first, second] = [String(values[0]), String(values[1])];
    switch (name) {
      case "holdfast-get-row": {
        const row = this.#live(first, second);
        return row === undefined ? [] : [rowOf(row)];
      }
      case "holdfast-list-rows":
        return this.#list(first, second, values[2] ?? null, Number(values[3]));
      case "holdfast-delete-row": {
        const wasLive = this.#live(first, second) !== undefined;
        this.#rows.delete(nameOf(first, second));
        return counted(wasLive ? 1 : 0);
      }
      case "holdfast-sweep-rows":
        return counted(this.#sweep(Number(first)));
      case "holdfast-find-blob": {
        const blob = this.#blobs.get(nameOf(first, second));
        return blob === undefined ? [] : [{ upload: blob.upload, stored_bytes: blob.storedBytes }];
      }
      case "holdfast-read-part": {
        const part = this.#parts.get(nameOf(first, second));
        return part === undefined ? [] : [{ bytes: part }];
      }
      case "holdfast-put-part":
        this.#parts.set(nameOf(first, second), bytesIn(values[2]));
        return [];
      case "holdfast-name-blob":
        return counted(
          this.#nameBlob(first, second, String(values[2]), Number(values[3]), values[4] ?? null),
        );
      case "holdfast-stored-bytes":
        return [{ bytes: this.#storedBytes(first) }];
      case "holdfast-list-spaces": {
        const spaces = new Set([...this.#blobs.values()].map(({ space }) => space));
        const behind = [...spaces].filter((space) => values[0] === null || byCodePoint(space, first) > 0);
        return behind
          .toSorted(byCodePoint)
          .slice(0, Number(second))
          .map((space) => ({ space }));
      }
      case "holdfast-clear-space":
        return [{ spaces: 1, count: this.#clear(first) }];
      case "holdfast-sweep-parts":
        return [];
      case "holdfast-sweep-spaces": {
        const over = [...this.#ends].filter(([, endMs]) => endMs <= this.#now()).slice(0, Number(first));
        return [{ spaces: over.length, count: over.reduce((sum, [space]) => sum + this.#clear(space), 0) }];
      }
      default:
        throw new Error(`no simulated node sends the statement ${JSON.stringify(name)}`);
    }
  }

  #live(table: string, key: string): StoredRow | undefined {
    const row = this.#rows.get(nameOf(table, key));
    return row?.expiresMs !== undefined && row.expiresMs <= this.#now() ? undefined : row;
  }

  #list(table: string, prefix: string, after: Value, countMax: number): readonly Row[] {
    return [...this.#rows.values()]
      .filter((row) => row.table === table && row.key.startsWith(prefix))
      .filter(({ key }) => this.#live(table, key) !== undefined)
      .filter(({ key }) => after === null || byCodePoint(key, String(after)) > 0)
      .toSorted((a, b) => byCodePoint(a.key, b.key))
      .slice(0, countMax)
      .map(rowOf);
  }

  #sweep(countMax: number): number {
    const over = [...this.#rows].filter(([, { table, key }]) => this.#live(table, key) === undefined);
    for (const [name] of over.slice(0, countMax)) this.#rows.delete(name);
    return Math.min(over.length, countMax);
  }

  #nameBlob(space: string, id: string, upload: string, storedBytes: number, keepMs: Value): number {
    const before = this.#blobs.get(nameOf(space, id));
    if (before !== undefined && before.upload !== upload) this.#removeParts(before.upload);
    this.#blobs.set(nameOf(space, id), { space, upload, storedBytes });
    if (keepMs !== null) this.#ends.set(space, this.#now() + Number(keepMs));
    return before === undefined ? 0 : 1;
  }

  #clear(space: string): number {
    const gone = [...this.#blobs].filter(([, blob]) => blob.space === space);
    for (const [name, { upload }] of gone) {
      this.#blobs.delete(name);
      this.#removeParts(upload);
    }
    this.#ends.delete(space);
    return gone.length;
  }

  #removeParts(upload: string): void {
    for (const name of this.#parts.keys()) if (name.startsWith(nameOf(upload, ""))) this.#parts.delete(name);
  }

  #storedBytes(prefix: string): number {
    const blobs = [...this.#blobs.values()].filter(({ space }) => space.startsWith(prefix));
    return blobs.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  }
}

/** As `rowKey` of `verdicts.ts` joins them. */
function nameOf(one: string, other: string | number): string {
  return `${one}\0${other}`;
}

function rowOf({ key, value, version, expiresMs }: StoredRow): Row {
  return { key, value, version, expires_ms: expiresMs ?? null };
}

function counted(count: number): readonly Row[] {
  return [{ count }];
}

function bytesIn(value: Value | undefined): Uint8Array {
  if (!(value instanceof Uint8Array)) throw new Error("a body is bytes");
  return new Uint8Array(value);
}
