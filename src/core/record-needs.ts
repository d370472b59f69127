/**
 * How durable each record of a client's journal has to be before anything may follow from it. The machine decides it here; a
 * journal only carries it out.
 *
 * - `sync`: it survives a power cut. For everything that a chunk, a tool, a promise or a restart depends on.
 * - `nothing`: nothing follows from it. Losing it costs a restarted client some work, so it may wait for other records.
 *
 * Invariant: the machine acts on no record that needs `nothing` (A5, C2, D3).
 */
import type { RecordOrder } from "./client-state.ts";

export type RecordNeed = "sync" | "nothing";

/** Chunks that are sent again are known again (A6). */
export function needOf({ kind }: RecordOrder): RecordNeed {
  return kind === "acked" ? "nothing" : "sync";
}
