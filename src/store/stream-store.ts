/**
 * Where streams live: two logs and a state per stream, behind compare-and-swap.
 *
 * Made for an embedded database and for one shared by many nodes alike. Every change is a commit:
 * chunks, dedupe state, events and life in one atomic record (A4), accepted only if the caller
 * still knows the heads and owns the host epoch (D1), resolved only once it is as durable as
 * `durability` says (A3). Bodies are sealed before they come here; a store never sees plaintext.
 *
 * A store that failed to sync stays failed: every later call is refused with `unavailable` until it
 * is opened anew (F5).
 */
import type { StateChange, StreamName, StreamState } from "../core/stream-state.ts";
import type { Durability } from "../protocol/frames.ts";
import type { SealedBlob } from "./blob-store.ts";

/** Neighbouring entries of one log, sealed together: `count` of them from number `first` on. */
export interface Batch {
  readonly first: number;
  readonly count: number;
  readonly sealed: Uint8Array;
}

/** Chunks carry their content MACs beside the sealed bodies: the dedupe state of A2 and A4. */
export interface ChunkBatch extends Batch {
  readonly macs: readonly Uint8Array[];
}

/** What lies in the two logs of a stream. */
export interface LogBatches {
  readonly chunks: ChunkBatch;
  readonly events: Batch;
}

export type LogName = keyof LogBatches;
export const LOGS: readonly LogName[] = ["chunks", "events"];

/** What lengthens one or both logs. */
export type NewBatches = { readonly [L in LogName]: LogBatches[L] | undefined };

/** What the caller believes; the commit happens only if it is true. */
export interface Expected {
  readonly hostEpoch: number;
  readonly nextSeqno: number;
  readonly eventHead: number;
}

export interface Commit extends NewBatches {
  readonly name: StreamName;
  readonly expected: Expected;
  readonly change: StateChange;
  /** Put into the blob store with the commit, or not at all. */
  readonly blobs?: readonly SealedBlob[];
  /** The numbers of the letters that this commit deals with: they are removed with it, or not at all. Of stores that have letters. */
  readonly letters?: readonly number[];
}

/** A stream that may be opened: `create` makes it with this host as its first. */
export interface Creation {
  readonly name: StreamName;
  readonly keyCheck: Uint8Array;
  readonly host: HostLease;
  /** The first commit to it, in one record with the making: both or neither. */
  readonly first?: Pick<Commit, "chunks" | "events" | "change" | "blobs">;
  /** Tells the right key of its conversation, when the server keeps one for it. */
  readonly conversationCheck?: Uint8Array | undefined;
}

/** One node's right to run a stream: until when is judged by the store's clock (D7). */
export interface HostLease {
  readonly hostId: string;
  readonly leaseMs: number;
}

export interface Live {
  readonly kind: "live";
  readonly state: StreamState;
}

/** A live stream, and which node runs it: for those that do not. */
export interface Seen extends Live {
  /** Undefined when no lease runs. */
  readonly hostId: string | undefined;
}

/** A tombstone: the stream was here and is not any more (A7). */
export interface Gone {
  readonly kind: "gone";
  readonly keyCheck: Uint8Array;
  readonly goneMs: number;
}

export interface Absent {
  readonly kind: "absent";
}

/** Another node runs the stream. */
export interface Held {
  readonly kind: "held";
  readonly hostId: string;
  readonly leaseLeftMs: number;
}

/** What was expected is not so: the state as it really is, if the stream still lives. */
export interface Conflict {
  readonly kind: "conflict";
  readonly state: StreamState | undefined;
}

export interface Committed {
  readonly kind: "committed";
  readonly state: StreamState;
}

export interface StreamStore {
  /** What a resolved commit survives. */
  readonly durability: Durability;

  /** By the clock that leases and retention are judged by, which is no node's own (D7). */
  now(): Promise<number>;

  load(name: StreamName): Promise<Live | Gone | Absent>;

  /** Each of these streams as it is now, by one question. */
  look(names: readonly StreamName[]): Promise<readonly (Seen | Gone | Absent)[]>;

  /** Makes the stream if it is absent, at host epoch 1; otherwise tells what is there, and commits nothing. */
  create(creation: Creation): Promise<Live | Gone | Committed>;

  /**
   * Makes `host` the one that runs the stream, raising the host epoch, unless another node's lease
   * still runs. The same node claiming again raises the epoch as well: it has lost its memory.
   */
  claim(name: StreamName, host: HostLease): Promise<Live | Gone | Absent | Held>;

  /** Prolongs the lease; false when the host epoch is no longer the caller's. */
  renew(name: StreamName, hostEpoch: number, leaseMs: number): Promise<boolean>;

  /** Gives the lease back so that another node need not wait for it to run out. */
  release(name: StreamName, hostEpoch: number): Promise<void>;

  /** Commits from all streams that wait at the same time share one sync. Renews the lease as `claim` set it. */
  commit(commit: Commit): Promise<Committed | Conflict>;

  /** The batches that hold events `from`, `from + 1`, ... up to about `bytesMax`, at least one when there is any. */
  readEvents(name: StreamName, from: number, bytesMax: number): Promise<readonly Batch[]>;
  readChunks(name: StreamName, from: number, bytesMax: number): Promise<readonly ChunkBatch[]>;

  /** How many streams of a principal live and have not ended. */
  countOpen(principal: string): Promise<number>;

  /** Live streams without activity since `beforeMs`, oldest first. */
  listIdle(beforeMs: number, countMax: number): Promise<readonly StreamName[]>;

  /** Replaces the stream by a tombstone and gives its space back, if the host epoch is still the caller's (D1). */
  expire(name: StreamName, hostEpoch: number): Promise<Gone | Conflict>;

  /** Forgets tombstones older than `beforeMs`; returns how many. */
  forgetGone(beforeMs: number): Promise<number>;

  /**
   * Brings streams that ended and have been quiet since `quietSinceMs`, and the old parts of others, to where
   * they cost least. Nothing that a caller can see changes; a store without such a place does nothing.
   */
  tidy(quietSinceMs: number): Promise<void>;

  close(): Promise<void>;
}

/** Streams that can be deleted before their time, by whom they belong to. */
export interface ErasableStreams extends StreamStore {
  /** All of a principal, tombstones too. */
  namesOf(principal: string): Promise<readonly StreamName[]>;
  /** Deletes all streams of a principal and their tombstones, whichever node runs them: its next commit finds none. Returns how many. */
  forget(principal: string): Promise<number>;
}
