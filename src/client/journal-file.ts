/**
 * One stream's journal: typed records above, sealed bytes below.
 *
 * Appends go to disk one at a time, and whatever is asked for meanwhile shares the next sync. Each
 * record is sealed under its place in the list, so records can be neither moved nor left out.
 * Grown long, the journal is folded and written anew, shorter.
 *
 * Some records only spare a restarted client some work: they wait for company. And where the journals lie on
 * the server's own disk a record counts as written once it is handed over, since nothing that follows from
 * it can be durable earlier; all but those that guard something beyond the stream's two logs.
 */
import { AssertionFailed } from "../core/assert.ts";
import { compact, type JournalRecord, recover, type Recovered } from "../core/journal.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { Sealer } from "../sealing/index.ts";
import { decodeJournalRecord, encodeJournalRecord } from "./journal-codec.ts";
import type { JournalStore } from "./journal-store.ts";

export interface JournalFileOptions {
  /** So many records are synced, in order. */
  readonly written: (count: number) => void;
  readonly failed: (error: HoldfastError) => void;
  /** A journal this long is folded. */
  readonly recordsMax: number;
}

export class JournalFile {
  readonly #store: JournalStore;
  readonly #sealer: Sealer;
  readonly #idempotencyKey: string;
  readonly #options: JournalFileOptions;
  #queue: JournalRecord[] = [];
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

  /** `written` is called with the number of records once they are synced, in order. */
  append(record: JournalRecord): void {
    this.#queue.push(record);
    if (!this.#mayWait(record)) this.#begin();
  }

  /** Writes what waits for company. */
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

  /**
   * Losing these costs a restarted client nothing but work: chunks are sent again and known again (A6), and opening a stream again
   * attaches to it (D4). But how old a stream is that nobody was welcomed to, nobody can tell: a client that looks at its
   * start for what was cut off, as one beside its server does not, must know (D7).
   */
  #mayWait({ kind }: JournalRecord): boolean {
    return kind === "acked" || (kind === "attached" && this.#store.handOver !== undefined);
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    try {
      do {
        // One write at a time, and none behind one that failed.
        await this.#synced;
        const batch = this.#queue.splice(0);
        if (batch.length > 0) await this.#writeBatch(batch);
      } while (!this.#queue.every((record) => this.#mayWait(record)));
    } catch (cause) {
      this.#fail(cause);
    }
    this.#isWriting = false;
  }

  async #writeBatch(batch: readonly JournalRecord[]): Promise<void> {
    const sealed = await this.#sealAll(batch, this.#length);
    const way = batch.some(guardsMore) ? undefined : this.#store.handOver?.(this.#idempotencyKey, sealed);
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

/** An exec has effects outside of the stream, and who wishes to stop is told that the wish is safe: these are on the disk before (C2, D3). */
function guardsMore({ kind }: JournalRecord): boolean {
  return kind === "abort" || kind.startsWith("exec_");
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
