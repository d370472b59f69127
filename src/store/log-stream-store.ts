/**
 * The stream store over a commit log.
 *
 * Operations wait in a queue; at most one append is in flight, and whatever waits when it returns
 * goes into the next one together. So with no load a commit starts at once, under load commits batch
 * by themselves, and no timer is ever involved. Only after the append has resolved does the index
 * change and the promise resolve: nothing is visible that is not durable (A3, B2).
 *
 * Tombstones are written apart from commits, in records of their own: a tombstone is kept for weeks,
 * and would keep the bodies beside it on the disk as long.
 *
 * After a failed append nothing is known about the disk: every operation of that group and every
 * later call is refused with `unavailable`, until the store is opened anew (F5).
 */
import { HoldfastError } from "../protocol/errors.ts";
import { batchReader } from "./batch-reader.ts";
import type { CommitLog } from "./commit-log.ts";
import { RecordEncoder } from "./commit-record.ts";
import { EventTail } from "./event-tail.ts";
import type { Verdict } from "./group.ts";
import { Group, live } from "./group.ts";
import { candidatesToMove, collectMoves, movedEntries } from "./mover.ts";
import { rebuildIndex } from "./rebuild.ts";
import type { Slot, StreamIndex } from "./stream-index.ts";
import { nameKey } from "./stream-index.ts";
import { shredded } from "./shredding.ts";
import type { Commit, ErasableStreams } from "./stream-store.ts";

export interface LogStreamStoreOptions {
  /** The clock of leases and retention, in milliseconds (D7). */
  readonly now: () => number;
  /** How much of the log's end is in memory when the store is open, about. Default: some thousand words. */
  readonly youngestBytes?: number;
  /** Called once, when the store has failed: from then on it refuses everything (F5). */
  readonly onFailed?: (failure: HoldfastError) => void;
}

/** Bounds a record, so that a burst becomes several rows and not one that no buffer can hold. */
const GROUP_BYTES_MAX = 8 * 1024 * 1024;
/**
 * With ten thousand streams in one group everything in it was alive at every garbage collection, and half
 * the time went into copying it; in groups of this size it dies young. A larger group saves no syncs worth having.
 */
const GROUP_OPERATIONS_MAX = 1_024;
/** Live readers are a few commits behind the head; this is some seconds of a busy server. */
const TAIL_BYTES_MAX = 16 * 1024 * 1024;
/** Ten thousand words, each committed for itself; a start takes some ten milliseconds for them. */
const YOUNGEST_BYTES = 2 * 1024 * 1024;
/** Enough rows that clients returning after a restart share their reads. */
const READ_BYTES_MAX = 16 * 1024 * 1024;

/** An operation that waits for its group. A class, because there is one for every commit. */
class Operation<T> {
  readonly bytes: number;
  readonly reject: (reason: unknown) => void;
  readonly #judge: (group: Group) => Verdict<T>;
  readonly #resolve: (answer: T) => void;
  #verdict: Verdict<T> | undefined;

  constructor(
    bytes: number,
    judge: (group: Group) => Verdict<T>,
    resolve: (answer: T) => void,
    reject: (reason: unknown) => void,
  ) {
    this.bytes = bytes;
    this.reject = reject;
    this.#judge = judge;
    this.#resolve = resolve;
  }

  /** True when the answer must wait for the append; else it has been given. */
  judge(group: Group): boolean {
    this.#verdict = this.#judge(group);
    if (this.#verdict.settled) this.answer();
    return !this.#verdict.settled;
  }

  answer(): void {
    if (this.#verdict !== undefined) this.#resolve(this.#verdict.answer);
  }
}

/** An operation without regard to what it answers. */
type Waiting = Pick<Operation<unknown>, "bytes" | "judge" | "answer" | "reject">;

interface LogStreamStore extends ErasableStreams {
  /** Takes every entry of a forgotten stream out of the rows that others still need. */
  shred(): Promise<void>;
}

export async function openLogStreamStore(
  log: CommitLog,
  options: LogStreamStoreOptions,
): Promise<LogStreamStore> {
  const tail = new EventTail(TAIL_BYTES_MAX);
  const index = await rebuildIndex(log, { tail, bytes: options.youngestBytes ?? YOUNGEST_BYTES });
  const reader = batchReader(log, READ_BYTES_MAX);
  const groups = new GroupCommits({ log, index, tail }, options);
  const { commits, housekeeping, moves } = groups;
  let tidying: Promise<void> | undefined;
  let closing: Promise<void> | undefined;

  /** Commits continue between two records of it: a caller that waits for a sync waits for one of them at most. */
  async function tidy(quietSinceMs: number): Promise<void> {
    groups.assertUsable();
    for (;;) {
      const candidates = candidatesToMove(index, quietSinceMs);
      const movedBefore = movedEntries(candidates);
      if (candidates.length > 0) {
        for (const group of await collectMoves(log, candidates)) {
          await Promise.all(group.map((move) => groups.submit(moves, 0, (judged) => judged.move(move))));
        }
      }
      // What cannot be moved now would be found again and again.
      if (movedEntries(candidates) === movedBefore) break;
    }
    // In a group of its own: nothing is staged or being appended meanwhile.
    const rest = (): Verdict<boolean> => ({ answer: index.rest(quietSinceMs), settled: true });
    while (await groups.submit(moves, 0, rest));
    try {
      await groups.giveBack();
    } catch (error) {
      groups.fail(error);
      groups.assertUsable();
    }
  }

  return {
    durability: log.durability,
    now: async () => options.now(),
    async load(name) {
      groups.assertUsable();
      const view = index.find(nameKey(name))?.view ?? { kind: "absent" };
      return view.kind === "live" ? live(view) : view;
    },
    async look(names) {
      groups.assertUsable();
      const nowMs = options.now();
      return names.map((name) => {
        const view = index.find(nameKey(name))?.view ?? { kind: "absent" };
        if (view.kind !== "live") return view;
        const { hostId, untilMs } = view.lease;
        return { ...live(view), hostId: untilMs > nowMs ? hostId : undefined };
      });
    },
    create: (creation) => groups.submit(commits, bytesOf(creation.first), (group) => group.create(creation)),
    claim: (name, host) => groups.submit(commits, 0, (group) => group.claim(name, host)),
    renew: (name, hostEpoch, leaseMs) =>
      groups.submit(commits, 0, (group) => group.renew(name, hostEpoch, leaseMs)),
    async release(name, hostEpoch) {
      await groups.submit(commits, 0, (group) => group.release(name, hostEpoch));
    },
    commit: (commit) => groups.submit(commits, bytesOf(commit), (group) => group.commit(commit)),
    expire: (name, hostEpoch) => groups.submit(housekeeping, 0, (group) => group.expire(name, hostEpoch)),
    forgetGone: (beforeMs) => groups.submit(housekeeping, 0, (group) => group.forgetGone(beforeMs)),
    async namesOf(principal) {
      groups.assertUsable();
      return index.namesOf(principal);
    },
    forget: (principal) => groups.submit(housekeeping, 0, (group) => group.forget(index.namesOf(principal))),
    async shred() {
      groups.assertUsable();
      await groups.giveBack();
      await shredded(log, index.forgotten);
    },
    async readEvents(name, from, bytesMax) {
      groups.assertUsable();
      const find = (): Slot | undefined => index.find(nameKey(name));
      const slot = find();
      if (slot?.view.kind !== "live") return [];
      const { eventFloor } = slot.view.state;
      if (from < eventFloor) {
        throw new HoldfastError("events_gone", `event ${from} is gone; the oldest is ${eventFloor}`);
      }
      const recent = tail.read(slot.number, from, bytesMax);
      if (recent.length > 0) return recent;
      return reader.read(find, "events", from, bytesMax);
    },
    async readChunks(name, from, bytesMax) {
      groups.assertUsable();
      const find = (): Slot | undefined => index.find(nameKey(name));
      return find()?.view.kind === "live" ? reader.read(find, "chunks", from, bytesMax) : [];
    },
    async countOpen(principal) {
      groups.assertUsable();
      return index.countOpen(principal);
    },
    async listIdle(beforeMs, countMax) {
      groups.assertUsable();
      return index.idleSince(beforeMs).slice(0, countMax);
    },
    /** One at a time; a caller that asks meanwhile waits for the one under way. */
    tidy: (quietSinceMs) => (tidying ??= tidy(quietSinceMs).finally(() => (tidying = undefined))),
    close: () => (closing ??= groups.close()),
  };
}

interface Opened {
  readonly log: CommitLog;
  readonly index: StreamIndex;
  readonly tail: EventTail;
}

/** The operations that wait, and the one group that is being appended. */
class GroupCommits {
  readonly commits: Waiting[] = [];
  readonly housekeeping: Waiting[] = [];
  readonly moves: Waiting[] = [];
  readonly #log: CommitLog;
  readonly #index: StreamIndex;
  readonly #tail: EventTail;
  readonly #options: LogStreamStoreOptions;
  readonly #encoder = new RecordEncoder();
  #pumping: Promise<void> | undefined;
  #isClosing = false;
  #failure: HoldfastError | undefined;

  constructor({ log, index, tail }: Opened, options: LogStreamStoreOptions) {
    this.#log = log;
    this.#index = index;
    this.#tail = tail;
    this.#options = options;
  }

  /** What was accepted before is still answered. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#pumping;
    // What a start would find again, and drop.
    if (this.#failure === undefined) await this.giveBack().catch(() => undefined);
    await this.#log.close();
  }

  assertUsable(): void {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw refusal;
  }

  #refusal(): HoldfastError | undefined {
    if (this.#failure !== undefined) {
      return new HoldfastError("unavailable", this.#failure.message, { cause: this.#failure.cause });
    }
    return this.#isClosing ? new HoldfastError("unavailable", "the store is closed") : undefined;
  }

  submit<T>(queue: Waiting[], bytes: number, judge: (group: Group) => Verdict<T>): Promise<T> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      queue.push(new Operation(bytes, judge, resolve, reject));
      this.#pumping ??= this.#pump();
    });
  }

  /** One group after the other until nothing waits. Never rejects: a failure answers the callers that wait. */
  async #pump(): Promise<void> {
    // Whatever is submitted in the same turn of the event loop shares the first group.
    await Promise.resolve();
    try {
      while (this.commits.length > 0 || this.housekeeping.length > 0 || this.moves.length > 0) {
        await this.#commitGroup(this.commits);
        await this.#commitGroup(this.housekeeping);
        await this.#commitGroup(this.moves);
      }
    } catch (error) {
      this.fail(error);
    }
    this.#pumping = undefined;
  }

  async #commitGroup(queue: Waiting[]): Promise<void> {
    if (queue.length === 0) return;
    const group = new Group(this.#index, this.#options.now());
    const staged: Waiting[] = [];
    for (const op of takeGroup(queue)) {
      try {
        if (op.judge(group)) staged.push(op);
      } catch (error) {
        op.reject(error);
      }
    }
    const record = group.record();
    if (record === undefined) return;
    try {
      const freed = this.#index.pins.takeFreed();
      const encoded = this.#encoder.encode(record);
      const row = await this.#log.append(encoded, group.body(), freed, group.blobs);
      this.#index.apply(row, record);
      this.#tail.follow(record);
    } catch (error) {
      this.fail(error);
      for (const op of staged) op.reject(this.#refusal() ?? error);
      return;
    }
    for (const op of staged) op.answer();
    // What commits free waits for the next one: no commit stands behind a sync that only gives space back.
    if (queue !== this.commits) await this.giveBack();
  }

  async giveBack(): Promise<void> {
    const freed = this.#index.pins.takeFreed();
    if (freed.length > 0) await this.#log.drop(freed);
  }

  fail(cause: unknown): void {
    // A log of ours says what to do about it.
    const why = cause instanceof HoldfastError ? cause.message : "the commit log failed";
    const isFirst = this.#failure === undefined;
    this.#failure ??= new HoldfastError("unavailable", `${why}; the store must be opened anew`, { cause });
    for (const queue of [this.commits, this.housekeeping, this.moves]) {
      for (const op of queue.splice(0)) op.reject(this.#refusal() ?? this.#failure);
    }
    if (isFirst) this.#options.onFailed?.(this.#failure);
  }
}

function bytesOf(commit: Pick<Commit, "chunks" | "events" | "blobs"> | undefined): number {
  const batches = [commit?.chunks, commit?.events, ...(commit?.blobs ?? [])];
  return batches.reduce((sum, batch) => sum + (batch?.sealed.byteLength ?? 0), 0);
}

function takeGroup(queue: Waiting[]): readonly Waiting[] {
  let bytes = 0;
  const end = queue.findIndex((op, at) => {
    bytes += op.bytes;
    return at >= GROUP_OPERATIONS_MAX || (at > 0 && bytes > GROUP_BYTES_MAX);
  });
  return queue.splice(0, end === -1 ? queue.length : end);
}
