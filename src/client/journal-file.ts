/**
 * One stream's journal: typed records above, sealed bytes below.
 *
 * Appends go to disk one at a time, and whatever is asked for meanwhile shares the next sync. Each
 * record is sealed under its place in the list, so records can be neither moved nor left out.
 * Grown long, the journal is folded and written anew, shorter.
 *
 * The machine says what each record needs (`core/record-needs.ts`): a sync, its place in the order of the disk, or nothing. Records
 * that share an append have the strongest of their needs. A store that cannot keep the order of another log syncs instead.
 *
 * Invariant: a record counts as written when it has what it needs, and so has each one before it.
 */
import { AssertionFailed } from "../protocol/assert.ts";
import { compact, type JournalRecord, recover, type Recovered } from "../core/journal.ts";
import type { RecordNeed } from "../core/record-needs.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { Sealer } from "../sealing/index.ts";
import { decodeJournalRecord, encodeJournalRecord } from "./journal-codec.ts";
import type { JournalStore } from "./journal-store.ts";

export interface JournalFileOptions {
  /** So many records have what they need, in order. */
  readonly written: (count: number) => void;
  readonly failed: (error: HoldfastError) => void;
  /** A journal this long is folded. */
  readonly recordsMax: number;
}

interface Ordered {
  readonly record: JournalRecord;
  readonly needs: RecordNeed;
}

export class JournalFile {
  readonly #store: JournalStore;
  readonly #sealer: Sealer;
  readonly #idempotencyKey: string;
  readonly #options: JournalFileOptions;
  #queue: Ordered[] = [];
  #isHeld = true;
  #isWriting = false;
  #writing: Promise<void> = Promise.resolve();
  /** The last write: with journals on the server's disk it may still be on its way. */
  #synced: Promise<void> = Promise.resolve();
  #hasFailed = false;
  #length: number;
  #compactAt: number;

  constructor(
    store: JournalStore,
    sealer: Sealer,
    idempotencyKey: string,
    length: number,
    options: JournalFileOptions,
  ) {
    this.#store = store;
    this.#sealer = sealer;
    this.#idempotencyKey = idempotencyKey;
    this.#length = length;
    this.#options = options;
    this.#compactAt = options.recordsMax;
  }

  /** `written` is called with the number of records once they have what they need, in order. */
  append(record: JournalRecord, needs: RecordNeed): void {
    this.#queue.push({ record, needs });
    if (needs !== "nothing") this.#begin();
  }

  /** Writes the records that wait for others. */
  flush(): void {
    if (this.#queue.length > 0) this.#begin();
  }

  /**
   * Begins to write. Until then records only gather, so that the opening and the first chunk are one
   * append: a crash keeps both or neither, and no seqno is used twice (A5).
   */
  release(): void {
    this.#isHeld = false;
    this.#begin();
  }

  /** Resolves when everything is on the disk, or nothing can be written any more. */
  async quiet(): Promise<void> {
    await this.#writing;
    this.flush();
    await this.#writing;
    await this.#synced.catch(() => undefined);
  }

  #begin(): void {
    if (!this.#isHeld && !this.#isWriting && !this.#hasFailed) this.#writing = this.#write();
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    try {
      do {
        // One write at a time, and none behind one that failed.
        await this.#synced;
        const batch = this.#queue.splice(0);
        if (batch.length > 0) await this.#writeBatch(batch);
      } while (this.#queue.some(({ needs }) => needs !== "nothing"));
    } catch (cause) {
      this.#fail(cause);
    }
    this.#isWriting = false;
  }

  async #writeBatch(batch: readonly Ordered[]): Promise<void> {
    const records = batch.map(({ record }) => record);
    const sealed = await this.#sealAll(records, this.#length);
    const needsSync = batch.some(({ needs }) => needs === "sync");
    const way = needsSync ? undefined : this.#store.handOver?.(this.#idempotencyKey, sealed);
    if (way === undefined) {
      await this.#store.append(this.#idempotencyKey, sealed);
    } else {
      this.#synced = way.synced;
      way.synced.catch((cause: unknown) => this.#fail(cause));
      await way.handedOver;
    }
    this.#length += batch.length;
    this.#options.written(batch.length);
    if (this.#length >= this.#compactAt) await this.#compact();
  }

  /** Nothing is retried on a disk that failed; what was not synced is not promised (F5). */
  #fail(cause: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    this.#options.failed(HoldfastError.from(cause, "unavailable"));
  }

  async #compact(): Promise<void> {
    const read = await readJournal(this.#store, this.#sealer, this.#idempotencyKey);
    if (read.journal === undefined) return;
    const records = compact(read.journal);
    // What helps little is not tried again before the journal has doubled.
    this.#compactAt = Math.max(this.#options.recordsMax, 2 * records.length);
    if (records.length > this.#length / 2) return;
    await this.#store.replace(this.#idempotencyKey, await this.#sealAll(records, 0));
    this.#length = records.length;
  }

  async #sealAll(records: readonly JournalRecord[], first: number): Promise<readonly Uint8Array[]> {
    const sealed: Uint8Array[] = [];
    for (const [at, record] of records.entries()) {
      sealed.push(
        await this.#sealer.seal(labelOf(this.#idempotencyKey, first + at), encodeJournalRecord(record)),
      );
    }
    return sealed;
  }
}

export interface JournalContents {
  readonly journal: Recovered | undefined;
  /** How many records there are: where the next one goes. */
  readonly length: number;
}

/** Rejects with `stream_failed` when anything about the journal is not as it was written. */
export async function readJournal(
  store: JournalStore,
  sealer: Sealer,
  idempotencyKey: string,
): Promise<JournalContents> {
  const sealed = await store.read(idempotencyKey);
  const records: JournalRecord[] = [];
  for (const [at, bytes] of sealed.entries()) {
    records.push(decodeJournalRecord(await sealer.open(labelOf(idempotencyKey, at), bytes)));
  }
  try {
    return { journal: recover(records), length: records.length };
  } catch (cause) {
    if (!(cause instanceof AssertionFailed)) throw cause;
    throw new HoldfastError("stream_failed", `this journal is damaged: ${cause.message}`, { cause });
  }
}

/** Adds a record to a journal that nobody holds open. */
export async function appendRecord(
  store: JournalStore,
  sealer: Sealer,
  idempotencyKey: string,
  at: number,
  record: JournalRecord,
): Promise<void> {
  const sealed = await sealer.seal(labelOf(idempotencyKey, at), encodeJournalRecord(record));
  await store.append(idempotencyKey, [sealed]);
}

function labelOf(idempotencyKey: string, at: number) {
  return { stream: idempotencyKey, direction: "journal", first: at, count: 1, kind: "record" } as const;
}
