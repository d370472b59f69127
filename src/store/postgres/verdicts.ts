/**
 * What each act of a group is answered: from what the group found, or, when its answer was lost, from what can be read back.
 *
 * The statements compare; these functions say what the comparison means, with the same rules as every other store (`applyCommit`). Pure, so that they
 * run in unit tests as they run beside a database.
 *
 * Invariant: nothing is answered as done that the database did not say is done, and an act that was left out of a group takes no other act with it.
 */
import { applyCommit, type StreamState } from "../../core/stream-state.ts";
import { assert } from "../../protocol/assert.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { shapeOf as commitShape } from "../group.ts";
import { nameKey } from "../stream-index.ts";
import type { BatchResult } from "../table-store.ts";
import type { Committed, Conflict, Gone, Held, Live } from "../stream-store.ts";
import type { ClaimAct, CommitAct, CreateAct, ExpireAct, ReleaseAct, RenewAct, WriteAct } from "./acts.ts";
import { behind, type Chain, shapeOf } from "./plan.ts";
import type { ChangingState, StoredStream } from "./stream-rows.ts";

export type Verdict<T> =
  | { readonly kind: "answer"; readonly answer: T }
  | { readonly kind: "refuse"; readonly error: Error }
  /** It was not carried out, through no fault of its own: it belongs into the next group. */
  | { readonly kind: "again" };

/** The stream's row is not there any more: its name has to be looked up anew. */
export interface Vanished {
  readonly kind: "vanished";
}

const AGAIN = { kind: "again" } as const;
const VANISHED: Vanished = { kind: "vanished" };

function answer<T>(given: T): Verdict<T> {
  return { kind: "answer", answer: given };
}

function refuse(error: Error): { readonly kind: "refuse"; readonly error: Error } {
  return { kind: "refuse", error };
}

/** What a committed group found and did. */
export interface Outcome {
  readonly nowMs: number;
  readonly rowVersion: number;
  /** The rows that were locked, as they were before the group; of a group that locked none, those that it left out, as they are behind it. */
  readonly before: ReadonlyMap<number, StoredStream>;
  /** The rows of commits in a group that locked none, as they are behind it. */
  readonly after: ReadonlyMap<number, ChangingState>;
  readonly chains: ReadonlyMap<number, Chain>;
  /** Streams whose commits, claims, renewals, releases or expiries were carried out. */
  readonly applied: Readonly<
    Record<"commit" | "claim" | "renew" | "release" | "expire", ReadonlySet<number>>
  >;
  /** What lies under the names that were to be made, behind the group. */
  readonly made: ReadonlyMap<string, StoredStream | Gone>;
  /** The places of writes whose expectation failed. */
  readonly failedWrites: ReadonlyMap<WriteAct, readonly number[]>;
}

export function commitVerdict(act: CommitAct, outcome: Outcome): Verdict<Committed | Conflict> {
  const { id, origin } = act.place;
  const after = outcome.after.get(id);
  if (after !== undefined) {
    return answer({ kind: "committed", state: { ...origin, ...after, ...behind(act.commit) } });
  }
  const found = outcome.before.get(id);
  if (found === undefined) return answer({ kind: "conflict", state: undefined });
  const chain = outcome.chains.get(id) ?? [act];
  let { state } = found;
  for (const link of chain) {
    const next = judged(state, link, outcome.nowMs);
    if (next.kind !== "fits") {
      assert(!outcome.applied.commit.has(id), "what does not fit is not applied");
      // The first one that does not fit is why all of them were left out.
      return link === act ? next.verdict : AGAIN;
    }
    ({ state } = next);
    if (link === act && outcome.applied.commit.has(id)) return answer({ kind: "committed", state });
  }
  return refuse(new HoldfastError("internal", "the database left out a commit that fits"));
}

type Judged =
  | { readonly kind: "fits"; readonly state: StreamState }
  | { readonly kind: "refused"; readonly verdict: Verdict<Committed | Conflict> };

function judged(state: StreamState, { commit }: CommitAct, nowMs: number): Judged {
  const { expected } = commit;
  if (
    state.hostEpoch !== expected.hostEpoch ||
    state.nextSeqno !== expected.nextSeqno ||
    state.eventHead !== expected.eventHead
  ) {
    return { kind: "refused", verdict: answer({ kind: "conflict", state }) };
  }
  try {
    return { kind: "fits", state: applyCommit(state, commitShape(commit), nowMs) };
  } catch (error) {
    // The caller's bug, reported to that caller alone.
    if (!(error instanceof Error)) throw error;
    return { kind: "refused", verdict: refuse(error) };
  }
}

export function claimVerdict(act: ClaimAct, outcome: Outcome): Verdict<Live | Held | Vanished> {
  const found = outcome.before.get(act.place.id);
  if (found === undefined) return answer(VANISHED);
  if (outcome.applied.claim.has(act.place.id)) {
    return answer({ kind: "live", state: { ...found.state, hostEpoch: found.state.hostEpoch + 1 } });
  }
  return answer(held(found, outcome.nowMs));
}

function held({ lease }: StoredStream, nowMs: number): Held {
  return { kind: "held", hostId: lease.hostId, leaseLeftMs: Math.max(1, lease.untilMs - nowMs) };
}

export function leaseVerdict(act: RenewAct | ReleaseAct, outcome: Outcome): Verdict<boolean> {
  return answer(outcome.applied[act.kind].has(act.place.id));
}

export function expireVerdict(act: ExpireAct, outcome: Outcome): Verdict<Gone | Conflict | Vanished> {
  const found = outcome.before.get(act.place.id);
  if (found === undefined) return answer(VANISHED);
  if (!outcome.applied.expire.has(act.place.id)) return answer({ kind: "conflict", state: found.state });
  return answer({ kind: "gone", keyCheck: found.state.keyCheck, goneMs: outcome.nowMs });
}

/** A stream that is there, with where its row is. */
export interface Placed {
  readonly result: Committed | Live | Gone;
  readonly stored: StoredStream | undefined;
}

export function createVerdict(act: CreateAct, outcome: Pick<Outcome, "made">): Verdict<Placed> {
  const found = outcome.made.get(nameKey(act.name));
  // Removed by another node between two statements: it can be made now.
  if (found === undefined) return AGAIN;
  return answer(placed(act, found));
}

function placed(act: CreateAct, found: StoredStream | Gone): Placed {
  if ("kind" in found) return { result: found, stored: undefined };
  const { state } = found;
  const result: Committed | Live =
    found.birth === act.birth ? { kind: "committed", state } : { kind: "live", state };
  return { result, stored: found };
}

export function writeVerdict(act: WriteAct, outcome: Outcome): Verdict<BatchResult> {
  const writes = outcome.failedWrites.get(act);
  return answer(
    writes === undefined ? { kind: "written", version: outcome.rowVersion } : { kind: "conflict", writes },
  );
}

/** What was read back behind a group that is known to have happened and whose answer was lost. */
export interface ReadBack {
  readonly nowMs: number;
  readonly rowVersion: number;
  readonly chains: ReadonlyMap<number, Chain>;
  readonly streams: ReadonlyMap<string, StoredStream | Gone>;
  /** The versions of rows, by table and key as `rowKey` joins them. */
  readonly rows: ReadonlyMap<string, number>;
}

export function rowKey({ table, key }: { readonly table: string; readonly key: string }): string {
  return `${table}\0${key}`;
}

function liveBack(name: CommitAct["name"], back: ReadBack): StoredStream | undefined {
  const found = back.streams.get(nameKey(name));
  return found === undefined || "kind" in found ? undefined : found;
}

/** Only its host moves a stream, and this host has sent nothing since: heads that stand behind the chain say that it was taken. */
export function commitReadBack(act: CommitAct, back: ReadBack): Verdict<Committed | Conflict> {
  const found = liveBack(act.name, back);
  if (found?.id !== act.place.id) return answer({ kind: "conflict", state: undefined });
  const { state } = found;
  const { after } = shapeOf(back.chains.get(act.place.id) ?? [act]);
  const isTaken =
    state.hostEpoch === after.hostEpoch &&
    state.nextSeqno === after.nextSeqno &&
    state.eventHead === after.eventHead;
  if (!isTaken) return answer({ kind: "conflict", state });
  const { nextSeqno, eventHead } = behind(act.commit);
  return answer({ kind: "committed", state: { ...state, nextSeqno, eventHead } });
}

export function claimReadBack(act: ClaimAct, back: ReadBack): Verdict<Live | Held | Vanished> {
  const found = liveBack(act.name, back);
  if (found?.id !== act.place.id) return answer(VANISHED);
  if (found.lease.hostId === act.host.hostId) return answer({ kind: "live", state: found.state });
  return answer(held(found, back.nowMs));
}

export function leaseReadBack(act: RenewAct | ReleaseAct, back: ReadBack): Verdict<boolean> {
  const found = liveBack(act.name, back);
  return answer(found?.id === act.place.id && found.state.hostEpoch === act.hostEpoch);
}

export function expireReadBack(act: ExpireAct, back: ReadBack): Verdict<Gone | Conflict | Vanished> {
  const found = back.streams.get(nameKey(act.name));
  if (found === undefined) return answer({ kind: "conflict", state: undefined });
  if ("kind" in found) return answer(found);
  return answer(found.id === act.place.id ? { kind: "conflict", state: found.state } : VANISHED);
}

export function createReadBack(act: CreateAct, back: ReadBack): Verdict<Placed> {
  const found = back.streams.get(nameKey(act.name));
  return found === undefined ? refuse(unknown()) : answer(placed(act, found));
}

/** A batch is there as a whole, so one row that it put says so. */
export function writeReadBack(act: WriteAct, back: ReadBack): Verdict<BatchResult> {
  const written = answer({ kind: "written", version: back.rowVersion } as const);
  if (act.writes.every(({ expectedVersion }) => expectedVersion === undefined)) return written;
  const isThere = act.writes.some(
    (write) => write.kind === "put" && back.rows.get(rowKey(write)) === back.rowVersion,
  );
  // Refused, or written over by another node meanwhile: the database cannot say any more.
  return isThere ? written : refuse(unknown());
}

function unknown(): HoldfastError {
  return new HoldfastError("unavailable", "the answer of the database was lost, and cannot be read back");
}
