/**
 * What the tests of stream stores are given and what they say: a store with its clock, names, batches.
 *
 * Bodies are derived from their numbers, so whatever comes back can be checked for being the right one.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { StreamName, StreamState } from "../../src/core/stream-state.ts";
import type { Batch, BlobStore, ChunkBatch, Commit, Committed, StreamStore } from "../../src/store/index.ts";

export interface StreamStoreHarness {
  readonly store: StreamStore;
  /** Another node's handle on the same streams. */
  readonly peer?: StreamStore;
  /** The store as it is after its process was killed and started again. The old handle is not used any more. */
  readonly reopen?: () => Promise<StreamStore>;
  /** The store's clock. */
  readonly clock: { advance(ms: number): void };
  /** The blob store beside it; of the reopened store, when it was reopened. */
  readonly blobs?: () => BlobStore;
  /** How many synced writes there have been, where the store tells. */
  readonly appends?: () => number;
}

export type OpenStreamStore = () => Promise<StreamStoreHarness>;

/** Opens a store for one test and closes it afterwards. */
export type Opened = (t: TestContext) => Promise<StreamStoreHarness>;

export const HOST = { hostId: "host-a", leaseMs: 10_000 };
export const OTHER_HOST = { hostId: "host-b", leaseMs: 10_000 };
export const KEY_CHECK = Uint8Array.from({ length: 32 }, (_, at) => at);

export function streamName(idempotencyKey: string, principal = "alice"): StreamName {
  return { principal, idempotencyKey };
}

export function body(label: string, first: number, count: number): Uint8Array {
  return new TextEncoder().encode(`${label} ${first}+${count} `.repeat(count));
}

export function eventsFrom(first: number, count: number, label = "event"): Batch {
  return { first, count, sealed: body(label, first, count) };
}

export function chunksFrom(first: number, count: number, label = "chunk"): ChunkBatch {
  const macs = Array.from({ length: count }, (_, at) => Uint8Array.of(first + at, 1, 2, 3));
  return { first, count, sealed: body(label, first, count), macs };
}

export interface Growth {
  readonly chunks?: number;
  readonly events?: number;
  readonly change?: Commit["change"];
  readonly label?: string;
}

/** The commit that lengthens a stream whose state is known. */
export function growth(name: StreamName, state: StreamState, grow: Growth): Commit {
  const { hostEpoch, nextSeqno, eventHead } = state;
  const { chunks = 0, events = 0, change = {}, label } = grow;
  return {
    name,
    expected: { hostEpoch, nextSeqno, eventHead },
    chunks: chunks === 0 ? undefined : chunksFrom(nextSeqno, chunks, label),
    events: events === 0 ? undefined : eventsFrom(eventHead + 1, events, label),
    change,
  };
}

export async function created(store: StreamStore, name: StreamName): Promise<StreamState> {
  const result = await store.create({ name, keyCheck: KEY_CHECK, host: HOST });
  assert.equal(result.kind, "committed");
  assert.ok(result.kind === "committed");
  return result.state;
}

export async function grown(
  store: StreamStore,
  name: StreamName,
  state: StreamState,
  grow: Growth,
): Promise<StreamState> {
  const result = await store.commit(growth(name, state, grow));
  assert.equal(result.kind, "committed");
  assert.ok(result.kind === "committed");
  return result.state;
}

export async function stateOf(store: StreamStore, name: StreamName): Promise<StreamState> {
  const found = await store.load(name);
  assert.equal(found.kind, "live");
  assert.ok(found.kind === "live");
  return found.state;
}

export function isCommitted(result: { readonly kind: string }): result is Committed {
  return result.kind === "committed";
}

/** Reads a whole log page by page, and checks that the pages follow each other without a gap. */
export async function readAll<B extends Batch>(
  from: number,
  read: (from: number) => Promise<readonly B[]>,
): Promise<readonly B[]> {
  const all: B[] = [];
  for (let next = from; ;) {
    const page = await read(next);
    if (page.length === 0) return all;
    for (const batch of page) {
      assert.ok(batch.first === next || (all.length === 0 && batch.first <= from), "a gap between batches");
      all.push(batch);
      next = batch.first + batch.count;
    }
  }
}
