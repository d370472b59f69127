/**
 * From what the machine orders to what the journal keeps: the same record, with the body it is about.
 *
 * The machine holds numbers only; its driver has the bodies. Those of snapshots wait here, in the order in which they were taken.
 */
import { assert } from "../protocol/assert.ts";
import type { RecordOrder } from "../core/client-state.ts";
import type { JournalRecord } from "../core/journal.ts";

interface RecordSources {
  said(seqno: number): Uint8Array;
  exec(order: Extract<RecordOrder, { kind: "exec" }>): JournalRecord;
}

export class RecordBodies {
  readonly #sources: RecordSources;
  readonly #snapshots: Uint8Array[] = [];

  constructor(sources: RecordSources) {
    this.#sources = sources;
  }

  /** For the next snapshot that the machine orders. */
  keepSnapshot(state: Uint8Array): void {
    this.#snapshots.push(state);
  }

  recordOf(order: RecordOrder): JournalRecord {
    switch (order.kind) {
      case "said":
        return { ...order, body: this.#sources.said(order.seqno) };
      case "snapshot": {
        const state = this.#snapshots.shift();
        assert(state !== undefined, "a snapshot comes with its state");
        return { ...order, state };
      }
      case "exec":
        return this.#sources.exec(order);
      case "attached":
      case "degraded":
      case "acked":
      case "exec_aborted":
      case "exec_conflict":
      case "abort":
      case "ended":
        return order;
    }
  }
}
