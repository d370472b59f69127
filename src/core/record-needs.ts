/**
 * How durable each record of a client's journal has to be before anything may follow from it. The machine decides it here; a
 * journal only does what it is told.
 *
 * - `sync`: it survives a power cut. For what reaches beyond the stream's two logs: an exec has effects outside of it (C2), and a
 *   person was told that a wish to stop is safe (D3).
 * - `order`: the server's log cannot keep anything that follows from it and lose the record itself. For what only the two logs
 *   depend on. On the server's own disk that is the case once the disk has been given the record; everywhere else it takes a sync.
 * - `nothing`: nothing follows from it. Losing it costs a restarted client some work, so it may wait for other records.
 *
 * Invariant: the machine acts on no record that needs `nothing`, and a tool or a promise waits for `sync` (A5, C2, D3).
 */
import type { RecordOrder } from "./client-state.ts";

export type RecordNeed = "sync" | "order" | "nothing";

/** Of the record that begins a journal. With the first chunk it is one append: a crash keeps both or neither (A5). */
export const OPENING_NEEDS: RecordNeed = "order";

export function needOf({ kind }: RecordOrder, isOnServersDisk: boolean): RecordNeed {
  switch (kind) {
    case "exec":
    case "exec_aborted":
    case "exec_conflict":
    case "abort":
      return "sync";
    case "said":
    case "snapshot":
    case "degraded":
    case "ended":
      return "order";
    case "acked":
      // Chunks that are sent again are known again (A6).
      return "nothing";
    case "attached":
      // Opening a stream again attaches to it (D4). But a client that looks at its start for what was cut off must know how old that is
      // (D7). One beside its server does not look: its streams are named elsewhere.
      return isOnServersDisk ? "nothing" : "order";
  }
}
