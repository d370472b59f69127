/**
 * A simulated disk: it outlives the processes that write to it, and it fails in every way disks do.
 *
 * One idea: a file is what is durable, and a queue of operations that are not yet. The head of the
 * queue becomes durable after a delay; a crash keeps the first few operations of the dead process,
 * perhaps tears the next one in the middle, and forgets the rest. Lost, kept and torn writes, and an
 * atomic replace, are all that one rule.
 *
 * Invariant: a caller is told "done" only after its operation, and all before it, are durable; after
 * a failed sync or a full disk the handle refuses everything for ever (F5).
 */
import { HoldfastError } from "../../../src/protocol/errors.ts";
import type { LogRow } from "../../../src/store/commit-log.ts";
import { decodeRecord, splitRecords } from "./disk-frame.ts";
import type { EffectKind, SimProcess } from "./process.ts";
import type { Random } from "./random.ts";
import { SimCommitLog, partOf } from "./sim-commit-log.ts";
import { SimJournalStore } from "./sim-journal-store.ts";
import type { World } from "./world.ts";

export const DISK_KINDS = [
  "disk.lost_unsynced",
  "disk.kept_unsynced",
  "disk.torn",
  "disk.torn_tail_cut",
  "disk.sync_failed",
  "disk.full",
  "disk.slow",
  "disk.bit_flip",
  "disk.damage_detected",
  "disk.dead_handle_refused",
] as const;

/** All mutable: the scenario turns them up and down while the world runs. */
export interface DiskFaults {
  latencyMsMax: number;
  /** How likely an operation takes up to `slowMsMax`. */
  slow: number;
  slowMsMax: number;
  /** How likely a sync fails; what it should have written is there, torn, or not. */
  syncFails: number;
  /** Writes fail while it is true; removing still works. */
  full: boolean;
}

export const CALM_DISK: Readonly<DiskFaults> = Object.freeze({
  latencyMsMax: 3,
  slow: 0,
  slowMsMax: 5_000,
  syncFails: 0,
  full: false,
});

export class DiskFile {
  /** By row, in order; the last one may be torn. */
  readonly rows = new Map<number, Uint8Array>();
  readonly queue: Operation[] = [];
  /** The head of the queue, once its delay runs. */
  inFlight: Operation | undefined;
  /** The last row, when a failed write or a crash left only the beginning of it. */
  tornRow: number | undefined;
  /** Never given twice, not even after a drop or a lost write. */
  nextRow = 1;
  /** Changes whenever something becomes durable or goes away: checkers need not look before. */
  version = 0;
}

/** What a process holds of a disk. Dead once its process is, or after the first failed write. */
export interface DiskHandle {
  readonly process: SimProcess;
  failure: HoldfastError | undefined;
}

export interface Operation {
  readonly handle: DiskHandle;
  /** Makes it durable. */
  readonly apply: (file: DiskFile) => void;
  /** What a crash in the middle leaves; undefined when the operation is atomic. */
  readonly tear: ((file: DiskFile, random: Random) => void) | undefined;
  /** False for reads, and for what only gives space back. */
  readonly needsSpace: boolean;
  readonly writes: boolean;
  readonly done: () => void;
  readonly failed: (error: HoldfastError) => void;
}

/** What became of a write that nobody was told of. */
type Fate = "kept" | "torn" | "lost";

export class SimDisk {
  readonly world: World;
  readonly name: string;
  readonly faults: DiskFaults = { ...CALM_DISK };
  readonly files = new Map<string, DiskFile>();

  readonly #random: Random;
  readonly #watched = new WeakSet<SimProcess>();
  readonly #logHandles = new Map<string, DiskHandle>();
  readonly #flips: { readonly bytes: Uint8Array; readonly index: number; readonly mask: number }[] = [];
  #failSyncs = 0;

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
    this.#random = world.random.fork(`disk ${name}`);
  }

  /** One holder at a time, as with a lock in the file: opening takes the log away from the one before. */
  openCommitLog(process: SimProcess, fileName = "commits"): SimCommitLog {
    const before = this.#logHandles.get(fileName);
    if (before !== undefined) this.#kill(before, `the log was opened by ${process.name}`);
    const handle = this.#open(process);
    this.#logHandles.set(fileName, handle);
    return new SimCommitLog(this, handle, fileName);
  }

  /** May be open in several processes at once: the tabs of one browser share their journals. */
  openJournalStore(process: SimProcess): SimJournalStore {
    return new SimJournalStore(this, this.#open(process));
  }

  /** The intact durable rows of a commit log right now, those after row `after`: for checkers, without delay or effect. */
  durableRows(fileName = "commits", after = 0): readonly LogRow[] {
    return this.#durable(fileName, after).map(({ row, record }) => ({ row, record: partOf(record, 0) }));
  }

  #durable(fileName: string, after: number): readonly LogRow[] {
    const rows: LogRow[] = [];
    const file = this.files.get(fileName);
    for (let row = after + 1; row < (file?.nextRow ?? 0); row++) {
      const bytes = file?.rows.get(row);
      const record = bytes === undefined ? "" : decodeRecord(row, bytes);
      if (typeof record !== "string") rows.push({ row, record });
    }
    return rows;
  }

  /** The intact durable records of a journal right now, likewise. */
  durableJournal(idempotencyKey: string): readonly Uint8Array[] {
    return this.#durable(SimJournalStore.fileOf(idempotencyKey), 0).flatMap(({ record }) =>
      splitRecords(record),
    );
  }

  /** Rises whenever a file's durable content changes; 0 while there is none. */
  version(fileName = "commits"): number {
    return this.files.get(fileName)?.version ?? 0;
  }

  /** The next `count` writes fail at their sync. */
  failSync(count = 1): void {
    this.#failSyncs += count;
  }

  /** Flips one bit of a complete durable record; false when there is none to flip. */
  flipBit(fileName?: string): boolean {
    const names = fileName === undefined ? [...this.files.keys()] : [fileName];
    const records = names.flatMap((name) =>
      [...(this.files.get(name)?.rows ?? [])].filter(
        ([row, bytes]) => typeof decodeRecord(row, bytes) !== "string",
      ),
    );
    if (records.length === 0) return false;
    const [row, bytes] = this.#random.pick(records);
    const index = this.#random.int(bytes.length);
    const mask = 1 << this.#random.int(8);
    bytes[index] = (bytes[index] ?? 0) ^ mask;
    this.#flips.push({ bytes, index, mask });
    this.#bump(names);
    this.world.hit("disk.bit_flip");
    this.world.trace(this.name, "bit flipped in row", row, "byte", index);
    return true;
  }

  /** Undoes every flipped bit. */
  heal(): void {
    for (const { bytes, index, mask } of this.#flips) bytes[index] = (bytes[index] ?? 0) ^ mask;
    if (this.#flips.length > 0) this.#bump(this.files.keys());
    this.#flips.length = 0;
  }

  /** Everything works from now on; handles that failed stay failed. */
  stopFaults(): void {
    Object.assign(this.faults, CALM_DISK);
    this.#failSyncs = 0;
    this.heal();
  }

  file(name: string): DiskFile {
    let file = this.files.get(name);
    if (file === undefined) {
      file = new DiskFile();
      this.files.set(name, file);
    }
    return file;
  }

  /** One operation of a live process: an effect, then a place in the file's queue. */
  submit(kind: EffectKind, fileName: string, operation: Operation): void {
    const { handle } = operation;
    if (handle.failure !== undefined && handle.process.alive) {
      this.world.hit("disk.dead_handle_refused");
      const { failure } = handle;
      // Not at once: a caller that loops on the refusal must not freeze the world.
      this.world.enqueue(0, () => operation.failed(failure), undefined, handle.process);
      return;
    }
    handle.process.effect(kind, () => this.#enter(this.file(fileName), operation), undefined);
    // A second place to die: written, but nobody has asked yet that it be durable.
    if (operation.writes) handle.process.effect("disk.sync", nothing, undefined);
  }

  #enter(file: DiskFile, operation: Operation): void {
    file.queue.push(operation);
    this.#startNext(file);
  }

  #startNext(file: DiskFile): void {
    const operation = file.queue[0];
    if (operation === undefined || file.inFlight !== undefined) return;
    file.inFlight = operation;
    const slow = this.#random.chance(this.faults.slow);
    if (slow) this.world.hit("disk.slow");
    const delayMs = this.#random.int((slow ? this.faults.slowMsMax : this.faults.latencyMsMax) + 1);
    this.world.enqueue(delayMs, () => this.#complete(file, operation), undefined, undefined);
  }

  #complete(file: DiskFile, operation: Operation): void {
    // A crash may have taken it out of the queue in the meantime.
    if (file.inFlight !== operation) return;
    file.inFlight = undefined;
    file.queue.shift();
    const failure = operation.writes ? this.#failureOf(operation) : undefined;
    if (failure === undefined) {
      operation.apply(file);
      if (operation.writes) {
        file.version++;
        this.world.trace(this.name, "durable for", operation.handle.process.name);
      }
      operation.handle.process.notify(operation.done);
    } else {
      this.#leaveSomething(file, operation);
      this.world.trace(this.name, failure, "for", operation.handle.process.name);
      operation.handle.process.notify(() => operation.failed(unavailable(failure)));
      this.#kill(operation.handle, failure);
    }
    this.#startNext(file);
  }

  #failureOf(operation: Operation): string | undefined {
    if (this.faults.full && operation.needsSpace) {
      this.world.hit("disk.full");
      return "disk full";
    }
    const ordered = this.#failSyncs > 0;
    if (!ordered && !this.#random.chance(this.faults.syncFails)) return undefined;
    if (ordered) this.#failSyncs--;
    this.world.hit("disk.sync_failed");
    return "sync failed";
  }

  /** After a failed write or in a crash nobody knows what reached the platter: all, a part, or nothing. */
  #leaveSomething(file: DiskFile, operation: Operation): Fate {
    const fate = this.#random.int(3);
    if (fate === 0) return "lost";
    file.version++;
    if (fate === 1 && operation.tear !== undefined) {
      operation.tear(file, this.#random);
      return "torn";
    }
    operation.apply(file);
    return "kept";
  }

  /** The handle is dead from now on; what it still had in the queues fails too, and leaves nothing. */
  #kill(handle: DiskHandle, reason: string): void {
    if (handle.failure !== undefined) return;
    handle.failure = unavailable(reason);
    for (const file of this.files.values()) {
      const lost = file.queue.filter((operation) => operation.handle === handle);
      this.#keepQueue(file, (operation) => operation.handle !== handle);
      for (const operation of lost) handle.process.notify(() => operation.failed(unavailable(reason)));
    }
  }

  #open(process: SimProcess): DiskHandle {
    if (!this.#watched.has(process)) {
      this.#watched.add(process);
      process.onCrash(() => this.#crashed(process));
    }
    return { process, failure: undefined };
  }

  #crashed(process: SimProcess): void {
    for (const file of this.files.values()) {
      const unsynced = file.queue.filter(
        (operation) => operation.handle.process === process && operation.writes,
      );
      this.#keepQueue(file, (operation) => operation.handle.process !== process);
      let kept = true;
      for (const operation of unsynced) {
        const fate: Fate = kept ? this.#leaveSomething(file, operation) : "lost";
        // Only a prefix survives: a file system that keeps order within a file loses its end.
        kept &&= fate === "kept";
        this.world.hit(fate === "torn" ? "disk.torn" : `disk.${fate}_unsynced`);
        this.world.trace(this.name, "unsynced write", fate);
      }
    }
  }

  #keepQueue(file: DiskFile, keep: (operation: Operation) => boolean): void {
    const kept = file.queue.filter(keep);
    file.queue.splice(0, file.queue.length, ...kept);
    if (file.inFlight !== undefined && !keep(file.inFlight)) file.inFlight = undefined;
    this.#startNext(file);
  }

  #bump(names: Iterable<string>): void {
    for (const name of names) {
      const file = this.files.get(name);
      if (file !== undefined) file.version++;
    }
  }
}

function unavailable(reason: string): HoldfastError {
  return new HoldfastError("unavailable", `the disk failed: ${reason}`);
}

function nothing(): void {}
