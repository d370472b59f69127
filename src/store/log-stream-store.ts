/**
 * The stream store over a commit log.
 *
 * Operations wait in a queue; at most one append is in flight, and whatever waits when it returns
 * goes into the next one together. So with no load a commit starts at once, under load commits batch
 * by themselves, and no timer is ever involved. Only after the append has resolved does the index
 * change, the promise resolve and a watcher wake: nothing is visible that is not durable (A3, B2).
 *
 * Tombstones are written apart from commits, in records of their own: a tombstone is kept for weeks,
 * and would keep the bodies beside it on the disk as long.
 *
 * After a failed append nothing is known about the disk: every operation of that group and every
 * later call is refused with `unavailable`, until the store is opened anew (F5).
 */
import type { StreamName } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { Durability } from "../protocol/frames.ts";
import { BatchReader } from "./batch-reader.ts";
import type { CommitLog } from "./commit-log.ts";
import type { GroupRecord } from "./commit-record.ts";
import { RecordEncoder } from "./commit-record.ts";
import { EventTail } from "./event-tail.ts";
import type { Verdict } from "./group.ts";
import { Group, live } from "./group.ts";
import type { MoveGroup } from "./mover.ts";
import { candidatesToMove, collectMoves, movedEntries } from "./mover.ts";
import { rebuildIndex } from "./rebuild.ts";
import type { Slot, StreamIndex } from "./stream-index.ts";
import { nameKey } from "./stream-index.ts";
import type {
  Absent,
  Batch,
  ChunkBatch,
  Commit,
  Committed,
  Conflict,
  Creation,
  Gone,
  Held,
  HostLease,
  Live,
  StreamStore,
} from "./stream-store.ts";
import { Watchers } from "./watchers.ts";

export interface LogStreamStoreOptions {
  /** The clock of leases and retention, in milliseconds (D7). */
  readonly now: () => number;
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
/** Enough rows that clients returning after a restart share their reads. */
const READ_BYTES_MAX = 16 * 1024 * 1024;

/** An operation that waits for its group. A class, because there is one for every commit. */
class Operation<T> {
  readonly bytes: number;
  readonly reject: (error: Error) => void;
  readonly #judge: (group: Group) => Verdict<T>;
  readonly #resolve: (answer: T) => void;
  #verdict: Verdict<T> | undefined;

  constructor(
    bytes: number,
    judge: (group: Group) => Verdict<T>,
    resolve: (answer: T) => void,
    reject: (error: Error) => void,
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

export async function openLogStreamStore(
  log: CommitLog,
  options: LogStreamStoreOptions,
): Promise<StreamStore> {
  return new LogStreamStore(log, await rebuildIndex(log), options);
}

class LogStreamStore implements StreamStore {
  readonly durability: Durability;
  readonly #log: CommitLog;
  readonly #index: StreamIndex;
  readonly #now: () => number;
  readonly #onFailed: ((failure: HoldfastError) => void) | undefined;
  readonly #encoder = new RecordEncoder();
  readonly #tail = new EventTail(TAIL_BYTES_MAX);
  readonly #reader: BatchReader;
  readonly #watchers = new Watchers();
  #commits: Waiting[] = [];
  #housekeeping: Waiting[] = [];
  #moves: Waiting[] = [];
  #tidying: Promise<void> | undefined;
  #pumping: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #failure: HoldfastError | undefined;

  constructor(log: CommitLog, index: StreamIndex, { now, onFailed }: LogStreamStoreOptions) {
    this.durability = log.durability;
    this.#log = log;
    this.#index = index;
    this.#now = now;
    this.#onFailed = onFailed;
    this.#reader = new BatchReader(log, READ_BYTES_MAX);
  }

  async load(name: StreamName): Promise<Live | Gone | Absent> {
    this.#assertUsable();
    const view = this.#index.find(nameKey(name))?.view ?? { kind: "absent" };
    return view.kind === "live" ? live(view) : view;
  }

  create(creation: Creation): Promise<Live | Gone | Committed> {
    return this.#submit(this.#commits, bytesOf(creation.first), (group) => group.create(creation));
  }

  claim(name: StreamName, host: HostLease): Promise<Live | Gone | Absent | Held> {
    return this.#submit(this.#commits, 0, (group) => group.claim(name, host));
  }

  renew(name: StreamName, hostEpoch: number, leaseMs: number): Promise<boolean> {
    return this.#submit(this.#commits, 0, (group) => group.renew(name, hostEpoch, leaseMs));
  }

  async release(name: StreamName, hostEpoch: number): Promise<void> {
    await this.#submit(this.#commits, 0, (group) => group.release(name, hostEpoch));
  }

  commit(commit: Commit): Promise<Committed | Conflict> {
    return this.#submit(this.#commits, bytesOf(commit), (group) => group.commit(commit));
  }

  expire(name: StreamName, activityMs: number): Promise<Gone | Conflict> {
    return this.#submit(this.#housekeeping, 0, (group) => group.expire(name, activityMs));
  }

  forgetGone(beforeMs: number): Promise<number> {
    return this.#submit(this.#housekeeping, 0, (group) => group.forgetGone(beforeMs));
  }

  async readEvents(name: StreamName, from: number, bytesMax: number): Promise<readonly Batch[]> {
    const slot = this.#slotToRead(name);
    if (slot?.view.kind !== "live") return [];
    const { eventFloor } = slot.view.state;
    if (from < eventFloor) {
      throw new HoldfastError("events_gone", `event ${from} is gone; the oldest is ${eventFloor}`);
    }
    const recent = this.#tail.read(slot.number, from, bytesMax);
    if (recent.length > 0) return recent;
    return this.#reader.events(slot, from, bytesMax);
  }

  async readChunks(name: StreamName, from: number, bytesMax: number): Promise<readonly ChunkBatch[]> {
    const slot = this.#slotToRead(name);
    if (slot?.view.kind !== "live") return [];
    return this.#reader.chunks(slot, from, bytesMax);
  }

  watch(name: StreamName, wake: () => void): () => void {
    return this.#watchers.add(nameKey(name), wake);
  }

  async countOpen(principal: string): Promise<number> {
    this.#assertUsable();
    return this.#index.countOpen(principal);
  }

  async listIdle(beforeMs: number, countMax: number): Promise<readonly StreamName[]> {
    this.#assertUsable();
    return this.#index
      .idleSince(beforeMs)
      .slice(0, countMax)
      .map(({ name }) => name);
  }

  /** One at a time; whoever asks meanwhile waits for the one under way. */
  tidy(quietSinceMs: number): Promise<void> {
    this.#tidying ??= this.#tidy(quietSinceMs).finally(() => (this.#tidying = undefined));
    return this.#tidying;
  }

  close(): Promise<void> {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  /** What was accepted before is still answered. */
  async #finish(): Promise<void> {
    await this.#pumping;
    // What a start would find again, and drop.
    if (this.#failure === undefined) await this.#giveBack().catch(() => undefined);
    this.#watchers.wakeAll();
    this.#watchers.clear();
    await this.#log.close();
  }

  /** Commits go on between two records of it: whoever waits for a sync waits for one of them at most. */
  async #tidy(quietSinceMs: number): Promise<void> {
    this.#assertUsable();
    for (;;) {
      const candidates = candidatesToMove(this.#index, quietSinceMs);
      const movedBefore = movedEntries(candidates);
      if (candidates.length > 0) {
        for (const group of await collectMoves(this.#log, candidates)) await this.#move(group);
      }
      // What cannot be moved now would be found again and again.
      if (movedEntries(candidates) === movedBefore) break;
    }
    try {
      await this.#giveBack();
    } catch (error) {
      this.#fail(error);
      this.#assertUsable();
    }
  }

  async #move(group: MoveGroup): Promise<void> {
    await Promise.all(group.map((move) => this.#submit(this.#moves, 0, (judged) => judged.move(move))));
  }

  #slotToRead(name: StreamName): Slot | undefined {
    this.#assertUsable();
    return this.#index.find(nameKey(name));
  }

  #assertUsable(): void {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw refusal;
  }

  #refusal(): HoldfastError | undefined {
    if (this.#failure !== undefined) {
      return new HoldfastError("unavailable", this.#failure.message, { cause: this.#failure.cause });
    }
    if (this.#closing !== undefined) return new HoldfastError("unavailable", "the store is closed");
    return undefined;
  }

  #submit<T>(queue: Waiting[], bytes: number, judge: (group: Group) => Verdict<T>): Promise<T> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      queue.push(new Operation(bytes, judge, resolve, reject));
      this.#pumping ??= this.#pump();
    });
  }

  /** One group after the other until nothing waits. Never rejects: a failure answers whoever waits. */
  async #pump(): Promise<void> {
    // Whatever is submitted in the same turn of the event loop shares the first group.
    await Promise.resolve();
    try {
      while (this.#commits.length > 0 || this.#housekeeping.length > 0 || this.#moves.length > 0) {
        await this.#commitGroup(this.#commits);
        await this.#commitGroup(this.#housekeeping);
        await this.#commitGroup(this.#moves);
      }
    } catch (error) {
      this.#fail(error);
    }
    this.#pumping = undefined;
  }

  async #commitGroup(queue: Waiting[]): Promise<void> {
    if (queue.length === 0) return;
    const group = new Group(this.#index, this.#now());
    const waiting = takeGroup(queue);
    const staged: Waiting[] = [];
    for (const op of waiting) {
      try {
        if (op.judge(group)) staged.push(op);
      } catch (error) {
        op.reject(asError(error));
      }
    }
    const record = group.record();
    if (record === undefined) return;
    try {
      const freed = this.#index.takeFreed();
      this.#apply(await this.#log.append(this.#encoder.encode(record), group.body(), freed), record);
    } catch (error) {
      this.#fail(error);
      for (const op of staged) op.reject(this.#refusal() ?? asError(error));
      return;
    }
    for (const op of staged) op.answer();
    this.#watchers.wake(group.changed);
    // What commits free waits for the next one: nobody's commit stands behind a sync that only gives space back.
    if (queue !== this.#commits) await this.#giveBack();
  }

  async #giveBack(): Promise<void> {
    const freed = this.#index.takeFreed();
    if (freed.length > 0) await this.#log.drop(freed);
  }

  #apply(row: number, record: GroupRecord): void {
    this.#index.apply(row, record);
    for (const { stream, events } of record.entries) {
      if (events !== undefined) this.#tail.add(stream, events);
    }
  }

  #fail(cause: unknown): void {
    // A log of ours says what to do about it.
    const why = cause instanceof HoldfastError ? cause.message : "the commit log failed";
    const isFirst = this.#failure === undefined;
    this.#failure ??= new HoldfastError("unavailable", `${why}; the store must be opened anew`, { cause });
    for (const queue of [this.#commits, this.#housekeeping, this.#moves]) {
      for (const op of queue.splice(0)) op.reject(this.#refusal() ?? this.#failure);
    }
    // Readers that wait for the next event must learn that none will come (D5).
    this.#watchers.wakeAll();
    if (isFirst) this.#onFailed?.(this.#failure);
  }
}

function bytesOf(commit: Pick<Commit, "chunks" | "events"> | undefined): number {
  return (commit?.chunks?.sealed.byteLength ?? 0) + (commit?.events?.sealed.byteLength ?? 0);
}

function takeGroup(queue: Waiting[]): readonly Waiting[] {
  let bytes = 0;
  const end = queue.findIndex((op, at) => {
    bytes += op.bytes;
    return at >= GROUP_OPERATIONS_MAX || (at > 0 && bytes > GROUP_BYTES_MAX);
  });
  return queue.splice(0, end === -1 ? queue.length : end);
}

function asError(error: unknown): Error {
  return error instanceof Error
    ? error
    : new Error("something that is not an error was thrown", { cause: error });
}
