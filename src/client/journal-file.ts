/**
 * One stream's journal: typed records above, sealed bytes below.
 *
 * Appends go to disk one at a time, and whatever is asked for meanwhile shares the next sync. Each
 * record is sealed under its place in the list, so records can be neither moved nor left out.
 * Grown long, the journal is folded and written anew, shorter.
 *
 * The machine says what each record needs (`core/record-needs.ts`): a sync, or nothing. One that needs nothing waits for the next that
 * needs a sync, or for `flush`.
 *
 * Invariant: a record counts as written when it is on the disk, and so is each one before it.
 */
import { AssertionFailed } from "../protocol/assert.ts";
import { compact, type JournalRecord, recover, type Recovered } from "../core/journal.ts";
import type { RecordNeed } from "../core/record-needs.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { Sealer } from "../sealing/index.ts";
import { decodeJournalRecord, encodeJournalRecord } from "./journal-codec.ts";
import type { JournalStore } from "./journal-store.ts";

interface JournalFileOptions {
  /** So many of the appended records are on the disk, in order. */
  readonly written: (count: number) => void;
  readonly failed: (error: HoldfastError) => void;
  /** A journal this long is folded. */
  readonly recordsMax: number;
}

interface Ordered {
  readonly record: JournalRecord;
  readonly needs: RecordNeed;
}

export function journalFile(
  store: JournalStore,
  sealer: Sealer,
  idempotencyKey: string,
  { journal, length }: { readonly journal: Recovered; readonly length: number },
  options: JournalFileOptions,
) {
  const queue: Ordered[] = [];
  /** 1 while the record that begins the journal waits: this file adds it, so `written` does not count it. */
  let unordered = 0;
  let isHeld = true;
  let isWriting = false;
  let writing: Promise<void> = Promise.resolve();
  let hasFailed = false;
  let compactAt = options.recordsMax;

  /** Writes the records that wait for others. */
  function flush(): void {
    if (queue.length > 0) begin();
  }

  function begin(): void {
    if (!isHeld && !isWriting && !hasFailed) writing = write();
  }

  async function write(): Promise<void> {
    isWriting = true;
    try {
      do {
        // Records that are ordered in one go share a sync.
        await Promise.resolve();
        const batch = queue.splice(0);
        if (batch.length > 0) await writeBatch(batch);
      } while (queue.some(({ needs }) => needs !== "nothing"));
    } catch (cause) {
      fail(cause);
    }
    isWriting = false;
  }

  async function writeBatch(batch: readonly Ordered[]): Promise<void> {
    const records = batch.map(({ record }) => record);
    const sealed = await sealAll(records, length);
    await store.append(idempotencyKey, sealed);
    length += batch.length;
    options.written(batch.length - unordered);
    unordered = 0;
    if (length >= compactAt) await fold();
  }

  /** Nothing is retried on a disk that failed; what was not synced is not promised (F5). */
  function fail(cause: unknown): void {
    hasFailed = true;
    options.failed(HoldfastError.from(cause, "unavailable"));
  }

  async function fold(): Promise<void> {
    const read = await readJournal(store, sealer, idempotencyKey);
    if (read.journal === undefined) return;
    const records = compact(read.journal);
    // What helps little is not tried again before the journal has doubled.
    compactAt = Math.max(options.recordsMax, 2 * records.length);
    if (records.length > length / 2) return;
    await store.replace(idempotencyKey, await sealAll(records, 0));
    length = records.length;
  }

  async function sealAll(records: readonly JournalRecord[], first: number): Promise<readonly Uint8Array[]> {
    const sealed: Uint8Array[] = [];
    for (const [at, record] of records.entries()) {
      sealed.push(await sealer.seal(labelOf(idempotencyKey, first + at), encodeJournalRecord(record)));
    }
    return sealed;
  }

  if (length === 0) {
    const { journalId, takesOver, createdMs } = journal;
    unordered = 1;
    queue.push({ record: { kind: "opened", journalId, takesOver, createdMs }, needs: "sync" });
  }
  return {
    /** `written` is called with the number of records once they are on the disk, in order. */
    append(record: JournalRecord, needs: RecordNeed): void {
      queue.push({ record, needs });
      if (needs !== "nothing") begin();
    },
    flush,
    /**
     * Begins to write. Until then records only gather, so that the opening and the first chunk are one
     * append: a crash keeps both or neither, and no seqno is used twice (A5).
     */
    release(): void {
      isHeld = false;
      begin();
    },
    /** Resolves when everything is on the disk, or nothing can be written any more. */
    async quiet(): Promise<void> {
      await writing;
      flush();
      await writing;
    },
  };
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

/** Adds a record to a journal that no stream holds open. */
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
