/**
 * Which acts of a queue share the next group: the longest beginning of the queue without a clash.
 *
 * A group is one transaction, so within it order does not matter; and because nothing is taken from behind an act that has to wait, the
 * writes of a process become durable in the order in which they were asked for.
 *
 * Two acts clash when the second would have to see what the first has done: the same stream, name or row twice. Commits that follow each other on
 * one stream do not: they are a *chain*, compared as a whole by what its first one expects.
 *
 * Invariant: the acts that are taken are a prefix of the queue, and at least one when the queue is not empty.
 */
import type { StateChange } from "../../core/stream-state.ts";
import { isNoChange } from "../group.ts";
import { nameKey } from "../stream-index.ts";
import type { Commit, Expected } from "../stream-store.ts";
import { type Act, bytesOf, type CommitAct, type StreamAct } from "./acts.ts";

/** More saves no round trips worth having, and makes one transaction long. */
const GROUP_ACTS_MAX = 1_024;
/** Bounds what the server holds of one group. */
const GROUP_BYTES_MAX = 8 * 1024 * 1024;

/** What one stream goes through in a group. */
interface Touch {
  /** Where both logs stand behind the commits so far; undefined when nothing may follow. */
  readonly next: Expected | undefined;
}

/** How many acts from the front of the queue share the next group. */
export function groupLength(queue: readonly Act[]): number {
  const streams = new Map<string, Touch>();
  const rows = new Set<string>();
  let bytes = 0;
  let hasStatement = false;
  for (const [at, act] of queue.entries()) {
    bytes += bytesOf(act);
    if (at >= GROUP_ACTS_MAX || (at > 0 && bytes > GROUP_BYTES_MAX)) return at;
    switch (act.kind) {
      case "statement":
        hasStatement = true;
        break;
      case "write": {
        const keys = act.writes.map(({ table, key }) => `${table}\0${key}`);
        // Statements come last in a group, and a write that was asked for behind one must not come before it.
        if (hasStatement || keys.some((key) => rows.has(key))) return at;
        for (const key of keys) rows.add(key);
        break;
      }
      default: {
        const key = nameKey(act.name);
        const touch = touchedBy(act, streams.get(key));
        if (hasStatement || touch === undefined) return at;
        streams.set(key, touch);
      }
    }
  }
  return queue.length;
}

/** Undefined when the act has to wait for the next group. */
function touchedBy(act: StreamAct, before: Touch | undefined): Touch | undefined {
  if (act.kind === "commit") {
    const { commit } = act;
    if (before !== undefined && !isSame(before.next, commit.expected)) return undefined;
    return { next: isNoChange(commit.change) ? behind(commit) : undefined };
  }
  // A renewal only asks whose epoch it is, which commits leave alone.
  if (act.kind === "renew" && before?.next !== undefined) return { next: undefined };
  return before === undefined ? { next: undefined } : undefined;
}

function isSame(a: Expected | undefined, b: Expected): boolean {
  return a?.hostEpoch === b.hostEpoch && a.nextSeqno === b.nextSeqno && a.eventHead === b.eventHead;
}

/** Where the logs stand behind a commit. */
export function behind({
  expected,
  chunks,
  events,
}: Pick<Commit, "expected" | "chunks" | "events">): Expected {
  return {
    hostEpoch: expected.hostEpoch,
    nextSeqno: expected.nextSeqno + (chunks?.count ?? 0),
    eventHead: expected.eventHead + (events?.count ?? 0),
  };
}

/** The commits of one stream in a group, in order. */
export type Chain = readonly [CommitAct, ...CommitAct[]];

/** Chains by the ids of their streams: the order in which rows are locked everywhere, so that no two nodes wait for each other. */
export function chainsOf(acts: readonly Act[]): readonly Chain[] {
  const chains = new Map<number, [CommitAct, ...CommitAct[]]>();
  for (const act of acts) {
    if (act.kind !== "commit") continue;
    const chain = chains.get(act.place.id);
    if (chain === undefined) chains.set(act.place.id, [act]);
    else chain.push(act);
  }
  return [...chains.values()].toSorted(([a], [b]) => a.place.id - b.place.id);
}

/**
 * Whether the rows have to be locked and read before anything changes them. One statement alone locks them in the order of their ids by itself, and tells how they are behind it. What
 * they were before is needed for what is not a commit, and for a commit whose state a later one of its chain changes.
 */
export function needsRowsBefore(acts: readonly Act[], chains: readonly Chain[]): boolean {
  return (
    acts.some((act) => "place" in act && act.kind !== "commit") ||
    chains.some((chain) => chain.length > 1 && !isNoChange(shapeOf(chain).change))
  );
}

/** What a chain does as a whole. */
interface ChainShape {
  readonly expected: Expected;
  readonly after: Expected;
  readonly change: StateChange;
  /** False for an end that is no event, which is its caller's mistake. */
  readonly isSound: boolean;
}

export function shapeOf(chain: Chain): ChainShape {
  const last = chain.at(-1) ?? chain[0];
  const { change, events } = last.commit;
  const isSound = change.end === undefined || events !== undefined;
  return { expected: chain[0].commit.expected, after: behind(last.commit), change, isSound };
}
