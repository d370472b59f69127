/**
 * A commit log whose appends a test holds, lets go and makes fail.
 *
 * It keeps its rows in a real memory log; only the moment and the outcome of an append are the test's.
 */
import assert from "node:assert/strict";
import type { SealedBlob } from "../../src/store/blob-store.ts";
import type { CommitLog, LogRow } from "../../src/store/index.ts";
import { MemoryLog } from "../../src/store/index.ts";

interface Append {
  readonly record: Uint8Array;
  readonly body: Uint8Array | undefined;
  readonly freed: readonly number[];
  readonly blobs: readonly SealedBlob[];
  readonly answer: PromiseWithResolvers<number>;
}

export class ScriptedLog implements CommitLog {
  readonly durability = "fsync";
  readonly rows: MemoryLog;
  readonly dropped: number[] = [];
  /** How often rows were dropped in a write of their own. */
  drops = 0;
  /** While true, appends wait for `finish` or `fail`. */
  holding = false;
  /** What every read waits for. */
  reading: Promise<void> = Promise.resolve();
  readonly #held: Append[] = [];

  constructor(rows: MemoryLog = new MemoryLog()) {
    this.rows = rows;
  }

  get heldCount(): number {
    return this.#held.length;
  }

  /** Lets the oldest held append become durable. */
  async finish(): Promise<void> {
    const { record, body, freed, blobs, answer } = this.#held.shift() ?? assert.fail("no append is held");
    answer.resolve(await this.rows.append(record, body, freed, blobs));
    await turn();
  }

  /** Lets the oldest held append fail. */
  async fail(error: Error): Promise<void> {
    const { answer } = this.#held.shift() ?? assert.fail("no append is held");
    answer.reject(error);
    await turn();
  }

  scan(): AsyncIterable<LogRow> {
    return this.rows.scan();
  }

  append(
    record: Uint8Array,
    body?: Uint8Array,
    freed: readonly number[] = [],
    blobs: readonly SealedBlob[] = [],
  ): Promise<number> {
    this.dropped.push(...freed);
    if (!this.holding) return this.rows.append(record, body, freed, blobs);
    const answer = Promise.withResolvers<number>();
    this.#held.push({ record, body, freed, blobs, answer });
    return answer.promise;
  }

  async read(row: number): Promise<Uint8Array> {
    await this.reading;
    return this.rows.read(row);
  }

  async readBody(row: number): Promise<Uint8Array> {
    await this.reading;
    return this.rows.readBody(row);
  }

  async drop(rows: readonly number[]): Promise<void> {
    this.drops++;
    this.dropped.push(...rows);
    await this.rows.drop(rows);
  }

  close(): Promise<void> {
    return this.rows.close();
  }
}

/** Everything that can happen without another event has happened. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export type Progress = "waiting" | "resolved" | "rejected";

/** How far a promise has come. */
export async function progressOf(promise: Promise<unknown>): Promise<Progress> {
  let progress: Progress = "waiting";
  promise.then(
    () => (progress = "resolved"),
    () => (progress = "rejected"),
  );
  await turn();
  return progress;
}
