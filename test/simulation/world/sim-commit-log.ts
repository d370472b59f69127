/**
 * A `CommitLog` on the simulated disk.
 *
 * One idea: each record is one checksummed row of a file, so a torn tail is cut and anything else
 * that does not check out is refused, with nothing changed. A row holds a record and perhaps a body, joined.
 *
 * Invariant: `append` resolves only when the row is durable; after one failed append every call
 * rejects with `unavailable` for ever (F5).
 */
import { HoldfastError } from "../../../src/protocol/errors.ts";
import type { Durability } from "../../../src/protocol/frames.ts";
import type { CommitLog, LogRow } from "../../../src/store/commit-log.ts";
import { decodeRecord, joinRecords, splitRecords } from "./disk-frame.ts";
import { appending, changing, readRows, refuse, submit, submitRead } from "./disk-operations.ts";
import type { DiskHandle, SimDisk } from "./disk.ts";

export class SimCommitLog implements CommitLog {
  readonly durability: Durability = "fsync";
  readonly #disk: SimDisk;
  readonly #handle: DiskHandle;
  readonly #fileName: string;

  constructor(disk: SimDisk, handle: DiskHandle, fileName: string) {
    this.#disk = disk;
    this.#handle = handle;
    this.#fileName = fileName;
  }

  async *scan(): AsyncGenerator<LogRow> {
    const rows = await submitRead(this.#disk, this.#fileName, this.#handle, (file) =>
      readRows(this.#disk, file),
    );
    for (const { row, record } of rows) yield { row, record: partOf(record, 0) };
  }

  async append(record: Uint8Array, body?: Uint8Array, freed: readonly number[] = []): Promise<number> {
    let appended = 0;
    const work = appending(joinRecords(body === undefined ? [record] : [record, body]), (row) => {
      appended = row;
    });
    const done = submit(this.#disk, "disk.append", this.#fileName, this.#handle, work, () => appended);
    // Not in one write, but rows that are dropped late are no error either.
    if (freed.length > 0) await Promise.all([done, this.drop(freed)]);
    return done;
  }

  read(row: number): Promise<Uint8Array> {
    return this.#readPart(row, 0);
  }

  readBody(row: number): Promise<Uint8Array> {
    return this.#readPart(row, 1);
  }

  drop(rows: readonly number[]): Promise<void> {
    const gone = [...rows];
    const work = changing((file) => {
      for (const row of gone) file.rows.delete(row);
    }, false);
    return submit(this.#disk, "disk.drop", this.#fileName, this.#handle, work, nothing);
  }

  close(): Promise<void> {
    this.#handle.failure ??= new HoldfastError("unavailable", "the log is closed");
    return Promise.resolve();
  }

  #readPart(row: number, part: number): Promise<Uint8Array> {
    return submitRead(this.#disk, this.#fileName, this.#handle, (file) => {
      const bytes = file.rows.get(row);
      const record = bytes === undefined ? "damaged" : decodeRecord(row, bytes);
      return typeof record === "string" ? refuse(this.#disk, row) : partOf(record, part);
    });
  }
}

/** The record is the first part of a row, the body the second. */
export function partOf(row: Uint8Array, part: number): Uint8Array {
  return splitRecords(row)[part] ?? new Uint8Array(0);
}

function nothing(): void {}
