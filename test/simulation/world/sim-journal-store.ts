/**
 * A `JournalStore` on the simulated disk: one file per journal.
 *
 * One idea: all records of one `append` are one checksummed row, and a `replace` is one change of
 * the file (as with a synced temporary file and a rename), so both are there whole or not at all.
 *
 * Invariant: what was reported as written survives every crash; what was not is a lost suffix.
 */
import type { JournalStore } from "../../../src/client/journal-store.ts";
import { encodeRecord, joinRecords, numberRecord, splitRecords } from "./disk-frame.ts";
import { appending, changing, readRows, submit, submitRead } from "./disk-operations.ts";
import type { DiskFile, DiskHandle, SimDisk } from "./disk.ts";

const PREFIX = "journal/";

export class SimJournalStore implements JournalStore {
  readonly #disk: SimDisk;
  readonly #handle: DiskHandle;

  constructor(disk: SimDisk, handle: DiskHandle) {
    this.#disk = disk;
    this.#handle = handle;
  }

  static fileOf(idempotencyKey: string): string {
    return PREFIX + idempotencyKey;
  }

  list(): Promise<readonly string[]> {
    return submitRead(this.#disk, PREFIX, this.#handle, () => {
      const names: string[] = [];
      for (const [name, file] of this.#disk.files) {
        if (name.startsWith(PREFIX) && hasRecords(file)) names.push(name.slice(PREFIX.length));
      }
      return names;
    });
  }

  read(idempotencyKey: string): Promise<readonly Uint8Array[]> {
    return submitRead(this.#disk, SimJournalStore.fileOf(idempotencyKey), this.#handle, (file) =>
      readRows(this.#disk, file).flatMap(({ record }) => splitRecords(record)),
    );
  }

  append(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void> {
    if (records.length === 0) return Promise.resolve();
    const work = appending(joinRecords(records), nothing);
    return submit(
      this.#disk,
      "disk.append",
      SimJournalStore.fileOf(idempotencyKey),
      this.#handle,
      work,
      nothing,
    );
  }

  replace(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void> {
    const bytes = records.length === 0 ? undefined : encodeRecord(joinRecords(records));
    const work = changing((file) => {
      clear(file);
      if (bytes === undefined) return;
      const row = file.nextRow++;
      file.rows.set(row, numberRecord(bytes, row));
    }, true);
    return submit(
      this.#disk,
      "disk.replace",
      SimJournalStore.fileOf(idempotencyKey),
      this.#handle,
      work,
      nothing,
    );
  }

  remove(idempotencyKey: string): Promise<void> {
    const fileName = SimJournalStore.fileOf(idempotencyKey);
    return submit(this.#disk, "disk.remove", fileName, this.#handle, changing(clear, false), nothing);
  }
}

/** A torn first row is no journal yet: its append was never reported as written. */
function hasRecords(file: DiskFile): boolean {
  return file.rows.size > (file.tornRow === undefined ? 0 : 1);
}

function clear(file: DiskFile): void {
  file.rows.clear();
  file.tornRow = undefined;
}

function nothing(): void {}
