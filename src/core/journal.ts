/**
 * The client's durable memory of one stream: what its records are and what they add up to.
 *
 * Append-only: a record is never changed, and `recover` folds them, in order, into all that a
 * restarted client needs. `compact` writes the same memory in the fewest records. Whatever cannot be
 * folded means damage and is refused; a gap here would use a seqno twice or run a tool again.
 *
 * Invariant: a snapshot's cursor never stands ahead of the received execs it covers, because those
 * were recorded before it (B3, C4); said seqnos are dense (A5).
 */
import { assert, unreachable } from "../protocol/assert.ts";
import { type Entry, UNTOUCHED } from "./tool-journal.ts";

/** How the stream stands for this client. Only moves forward (D6). */
export type Outcome = "completed" | "aborted" | "failed" | "fenced" | "lost";

export type JournalRecord =
  /** Always the first. `takesOver`: numbering begins where the first welcome says. */
  | {
      readonly kind: "opened";
      readonly journalId: string;
      readonly takesOver: boolean;
      readonly createdMs: number;
    }
  /** Written by compaction: everything below was said and acknowledged. */
  | { readonly kind: "base"; readonly nextSeqno: number; readonly isClosed: boolean }
  /** The server has welcomed this journal: from now on the stream is resumed, never opened. */
  | { readonly kind: "attached"; readonly serverTimeMs: number }
  /** The server could not promise anything: this stream must not be resumed (D5). */
  | { readonly kind: "degraded" }
  | {
      readonly kind: "said";
      readonly seqno: number;
      readonly isClose: boolean;
      readonly body: Uint8Array;
      /** Set when the chunk is an exec's result: then this record is its `done` (C2). */
      readonly execId: string | undefined;
    }
  | { readonly kind: "acked"; readonly nextSeqno: number }
  | { readonly kind: "snapshot"; readonly cursor: number; readonly state: Uint8Array }
  | {
      readonly kind: "exec_received";
      readonly execId: string;
      readonly eventId: number;
      readonly argsHash: string;
      readonly repeatable: boolean;
      readonly needsApproval: boolean;
      readonly request: Uint8Array;
    }
  | {
      readonly kind: "exec_approved";
      readonly execId: string;
      readonly argsHash: string;
      readonly untilMs: number;
    }
  | { readonly kind: "exec_started"; readonly execId: string }
  /** The server has taken the request back. */
  | { readonly kind: "exec_aborted"; readonly execId: string }
  /** Written by compaction: the result went out under this seqno and was acknowledged. */
  | { readonly kind: "exec_acked"; readonly execId: string; readonly seqno: number }
  /** The same exec id came with other arguments: kept as evidence (C5). */
  | { readonly kind: "exec_conflict"; readonly execId: string; readonly argsHash: string }
  | { readonly kind: "abort" }
  | { readonly kind: "ended"; readonly outcome: Outcome };

export interface SaidChunk {
  readonly seqno: number;
  readonly isClose: boolean;
  readonly body: Uint8Array;
}

/** An exec with the request that asked for it. */
interface RecoveredExec {
  readonly entry: Entry;
  readonly request: Uint8Array;
}

export interface Recovered {
  readonly journalId: string;
  readonly takesOver: boolean;
  readonly createdMs: number;
  readonly serverTimeMs: number | undefined;
  readonly degraded: boolean;
  /** Whether the outbox knows its first seqno. */
  readonly numbered: boolean;
  readonly acked: number;
  /** The chunks from `acked` on. */
  readonly unacked: readonly SaidChunk[];
  readonly isClosed: boolean;
  readonly snapshot: { readonly cursor: number; readonly state: Uint8Array } | undefined;
  readonly execs: ReadonlyMap<string, RecoveredExec>;
  /** Requests that came with other arguments than the ones we know (C5). */
  readonly conflicts: readonly { readonly execId: string; readonly argsHash: string }[];
  readonly abortWanted: boolean;
  readonly outcome: Outcome | undefined;
}

/** Undefined when there is nothing: no journal, or one whose first record never became durable. */
export function recover(records: Iterable<JournalRecord>): Recovered | undefined {
  let recovered: Recovered | undefined;
  for (const record of records) {
    if (record.kind === "opened") {
      assert(recovered === undefined, "a journal is opened once");
      recovered = opened(record);
    } else {
      assert(recovered !== undefined, "a journal begins with its opening");
      recovered = fold(recovered, record);
    }
  }
  return recovered;
}

function opened(record: Extract<JournalRecord, { kind: "opened" }>): Recovered {
  return {
    journalId: record.journalId,
    takesOver: record.takesOver,
    createdMs: record.createdMs,
    serverTimeMs: undefined,
    degraded: false,
    numbered: !record.takesOver,
    acked: 0,
    unacked: [],
    isClosed: false,
    snapshot: undefined,
    execs: new Map(),
    conflicts: [],
    abortWanted: false,
    outcome: undefined,
  };
}

function fold(journal: Recovered, record: Exclude<JournalRecord, { kind: "opened" }>): Recovered {
  switch (record.kind) {
    case "base":
      assert(!journal.numbered || journal.unacked.length === 0, "a base comes before anything said");
      return { ...journal, numbered: true, acked: record.nextSeqno, isClosed: record.isClosed };
    case "attached":
      return { ...journal, serverTimeMs: Math.max(journal.serverTimeMs ?? 0, record.serverTimeMs) };
    case "degraded":
      return { ...journal, degraded: true };
    case "said":
      return said(journal, record);
    case "acked":
      return acked(journal, record.nextSeqno);
    case "snapshot":
      assert(record.cursor >= (journal.snapshot?.cursor ?? 0), "a snapshot never goes back");
      return { ...journal, snapshot: { cursor: record.cursor, state: record.state } };
    case "exec_received": {
      assert(!journal.execs.has(record.execId), "an exec is received once");
      const { kind: _, request, ...known } = record;
      const entry: Entry = { ...known, ...UNTOUCHED, phase: "received" };
      return putExec(journal, { entry, request });
    }
    case "exec_approved":
      return moveExec(journal, record.execId, { phase: "approved", approvedUntilMs: record.untilMs });
    case "exec_started":
      return moveExec(journal, record.execId, { phase: "started" });
    case "exec_aborted":
      return moveExec(journal, record.execId, { isAborted: true });
    case "exec_acked":
      return moveExec(journal, record.execId, { phase: "acked", resultSeqno: record.seqno });
    case "exec_conflict":
      return {
        ...journal,
        conflicts: [...journal.conflicts, { execId: record.execId, argsHash: record.argsHash }],
      };
    case "abort":
      return { ...journal, abortWanted: true };
    case "ended":
      return { ...journal, outcome: journal.outcome ?? record.outcome };
    default:
      return unreachable(record);
  }
}

function said(journal: Recovered, record: Extract<JournalRecord, { kind: "said" }>): Recovered {
  const { seqno, isClose, body, execId } = record;
  const expected = journal.acked + journal.unacked.length;
  const isFirstAfterTakeover = !journal.numbered && journal.unacked.length === 0;
  assert(seqno === expected || isFirstAfterTakeover, "said seqnos are dense");
  const next = {
    ...journal,
    numbered: true,
    acked: isFirstAfterTakeover ? seqno : journal.acked,
    unacked: [...journal.unacked, { seqno, isClose, body }],
    isClosed: journal.isClosed || isClose,
  };
  return execId === undefined ? next : moveExec(next, execId, { phase: "done", resultSeqno: seqno });
}

function acked(journal: Recovered, nextSeqno: number): Recovered {
  assert(
    journal.numbered && nextSeqno <= journal.acked + journal.unacked.length,
    "only what was said is acked",
  );
  const unacked = journal.unacked.filter((chunk) => chunk.seqno >= nextSeqno);
  let next: Recovered = { ...journal, acked: Math.max(journal.acked, nextSeqno), unacked };
  for (const { entry } of journal.execs.values()) {
    const isAcked =
      entry.phase === "done" && entry.resultSeqno !== undefined && entry.resultSeqno < nextSeqno;
    if (isAcked) next = moveExec(next, entry.execId, { phase: "acked" });
  }
  return next;
}

function moveExec(journal: Recovered, execId: string, change: Partial<Entry>): Recovered {
  const known = journal.execs.get(execId);
  assert(known !== undefined, "an exec is received before anything happens to it");
  return putExec(journal, { ...known, entry: { ...known.entry, ...change } });
}

function putExec(journal: Recovered, exec: RecoveredExec): Recovered {
  return { ...journal, execs: new Map(journal.execs).set(exec.entry.execId, exec) };
}

/** The fewest records that `recover` folds into the same memory. */
export function compact(journal: Recovered): readonly JournalRecord[] {
  const { journalId, takesOver, createdMs, acked: nextSeqno } = journal;
  const isCloseAcked = journal.isClosed && !journal.unacked.some((chunk) => chunk.isClose);
  const records: JournalRecord[] = [{ kind: "opened", journalId, takesOver, createdMs }];
  if (journal.numbered) records.push({ kind: "base", nextSeqno, isClosed: isCloseAcked });
  if (journal.serverTimeMs !== undefined)
    records.push({ kind: "attached", serverTimeMs: journal.serverTimeMs });
  if (journal.degraded) records.push({ kind: "degraded" });
  for (const exec of journal.execs.values()) records.push(...compactExec(exec));
  for (const chunk of journal.unacked)
    records.push({ kind: "said", ...chunk, execId: execOf(journal, chunk.seqno) });
  if (journal.snapshot !== undefined) records.push({ kind: "snapshot", ...journal.snapshot });
  for (const conflict of journal.conflicts) records.push({ kind: "exec_conflict", ...conflict });
  if (journal.abortWanted) records.push({ kind: "abort" });
  if (journal.outcome !== undefined) records.push({ kind: "ended", outcome: journal.outcome });
  return records;
}

function compactExec({ entry, request }: RecoveredExec): readonly JournalRecord[] {
  const { execId, eventId, argsHash, repeatable, needsApproval, approvedUntilMs: untilMs } = entry;
  const received = { kind: "exec_received", execId, eventId, argsHash, repeatable, needsApproval } as const;
  if (entry.phase === "acked" && entry.resultSeqno !== undefined) {
    // Only the identity is still needed, to know the request when it is delivered again (C6).
    return [
      { ...received, request: new Uint8Array() },
      { kind: "exec_acked", execId, seqno: entry.resultSeqno },
    ];
  }
  const records: JournalRecord[] = [{ ...received, request }];
  if (untilMs > 0) records.push({ kind: "exec_approved", execId, argsHash, untilMs });
  if (entry.phase === "started" || entry.phase === "done") records.push({ kind: "exec_started", execId });
  if (entry.isAborted) records.push({ kind: "exec_aborted", execId });
  return records;
}

function execOf(journal: Recovered, seqno: number): string | undefined {
  for (const { entry } of journal.execs.values()) if (entry.resultSeqno === seqno) return entry.execId;
  return undefined;
}
