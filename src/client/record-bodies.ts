/**
 * From what the machine orders to what the journal keeps: the same record, with the body it is about.
 *
 * The machine holds numbers only; whoever drives it has the bodies.
 */
import type { RecordOrder } from "../core/client-state.ts";
import type { JournalRecord } from "../core/journal.ts";

export interface RecordBodies {
  said(seqno: number): Uint8Array;
  /** What the oldest snapshot that was not recorded yet holds. */
  snapshot(): Uint8Array;
  exec(order: Extract<RecordOrder, { kind: "exec" }>): JournalRecord;
}

export function recordOf(order: RecordOrder, bodies: RecordBodies): JournalRecord {
  switch (order.kind) {
    case "said":
      return { ...order, body: bodies.said(order.seqno) };
    case "snapshot":
      return { ...order, state: bodies.snapshot() };
    case "exec":
      return bodies.exec(order);
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
