/**
 * The execs of a turn: planned, issued, answered or unknown, kept from the event log and the client's chunks.
 *
 * The two logs have no common order, so the book needs none: whether a result counts follows from numbers alone (the exec's
 * event id, the result's seqno, where takeovers happened). A host that lives through a turn and one that reads it back
 * afterwards, chunks first, have the same book. It is changed in place: a turn has thousands of execs, and a copy at each
 * change would cost their square.
 *
 * Invariant: one terminal outcome per exec id; a second one is ignored and counted (A8, C1).
 */
import { assert } from "../protocol/assert.ts";

/**
 * Results of so many exec ids that are not in the book are kept: those that overtook their exec, and all of them while a host
 * reads chunks back before events. A client that invents ids gets no further (F2).
 */
export const UNKNOWN_RESULTS_MAX = 4_096;

type ExecStage = "planned" | "issued" | "answered" | "unknown";

/** Execs issued up to `sinceEvent` are answered before `sinceSeqno`, or never (D2). */
interface Takeover {
  readonly sinceSeqno: number;
  readonly sinceEvent: number;
}

export interface ExecBook {
  readonly execs: Map<string, { readonly stage: ExecStage; readonly eventId: number }>;
  /** Those that have no outcome: the next step begins when there are none. */
  readonly pending: Set<string>;
  /** The first result that came for each exec id, by seqno. */
  readonly results: Map<string, number>;
  readonly takeovers: Takeover[];
  /** How many of the results are of exec ids that are not in the book. */
  unmatched: number;
  /** How many exec requests are in the log. */
  issued: number;
  /** Results that came too late, twice, or for too many ids that are not in the book. */
  ignored: number;
}

export function newExecBook(): ExecBook {
  return {
    execs: new Map(),
    pending: new Set(),
    results: new Map(),
    takeovers: [],
    unmatched: 0,
    issued: 0,
    ignored: 0,
  };
}

/** The model's output asks for this exec. It may still be rolled back. */
export function planExec(book: ExecBook, execId: string): void {
  assert(!book.execs.has(execId), "an exec is planned once");
  put(book, execId, "planned", 0);
}

/** The step that planned them begins anew: what it planned was never issued. */
export function rollBackPlans(book: ExecBook): void {
  for (const execId of book.pending) {
    if (book.execs.get(execId)?.stage !== "planned") continue;
    book.execs.delete(execId);
    book.pending.delete(execId);
    if (book.results.has(execId)) book.unmatched++;
  }
}

/**
 * The request for it is in the log. `after` names the exec that it follows within its tool call: then the request is its only
 * plan. Whether `after` has its outcome by now says nothing, as chunks may be read after events or before.
 */
export function issueExec(book: ExecBook, execId: string, eventId: number, after: string | undefined): void {
  const stage = book.execs.get(execId)?.stage;
  const isFollower = after !== undefined && book.execs.has(after);
  assert(
    stage === "planned" || (stage === undefined && isFollower),
    "an exec is issued once, as it was planned",
  );
  book.issued++;
  put(book, execId, "issued", eventId);
  settle(book, execId);
}

/** A client's terminal result. True when it is the first one, so that it may count. */
export function answerExec(book: ExecBook, execId: string, seqno: number): boolean {
  const stage = book.execs.get(execId)?.stage;
  const isLate = book.results.has(execId) || stage === "answered" || stage === "unknown";
  const isInvented = stage === undefined && book.unmatched >= UNKNOWN_RESULTS_MAX;
  if (isLate || isInvented) {
    book.ignored++;
    return false;
  }
  book.results.set(execId, seqno);
  if (stage === undefined) book.unmatched++;
  settle(book, execId);
  return true;
}

/** Another client writes from here on. */
export function takeOver(book: ExecBook, takeover: Takeover): void {
  book.takeovers.push(takeover);
  for (const execId of book.pending) settle(book, execId);
}

/** The client has said everything: what it has not answered by then, it never will. */
export function closeBook(book: ExecBook, seqno: number): void {
  takeOver(book, { sinceSeqno: seqno, sinceEvent: Number.MAX_SAFE_INTEGER });
}

/** Gives an issued exec its outcome, if its fate is known: from numbers, whatever came first. */
function settle(book: ExecBook, execId: string): void {
  const exec = book.execs.get(execId);
  if (exec?.stage !== "issued") return;
  const seqno = book.results.get(execId);
  const end = book.takeovers.find(({ sinceEvent }) => sinceEvent >= exec.eventId);
  const isInTime = seqno !== undefined && (end === undefined || seqno < end.sinceSeqno);
  if (!isInTime && end === undefined) return;
  if (seqno !== undefined && !isInTime) book.ignored++;
  put(book, execId, isInTime ? "answered" : "unknown", exec.eventId);
  book.pending.delete(execId);
}

function put(book: ExecBook, execId: string, stage: ExecStage, eventId: number): void {
  if (!book.execs.has(execId)) {
    book.pending.add(execId);
    if (book.results.has(execId)) book.unmatched--;
  }
  book.execs.set(execId, { stage, eventId });
}
