/** Mends of the store, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a row that is gone takes those with it that were asked for together with it",
    file: "test/store/sqlite-reads.test.ts",
    test: "a row that is gone fails its own read",
    patches: [
      {
        file: "src/store/sqlite/sqlite-log.ts",
        from: "if (page === undefined) return readEach(rest);",
        to: 'if (page === undefined) return rest.forEach(({ reject }) => reject(new Error("gone")));',
      },
    ],
  },
  {
    name: "A3: a damaged write-ahead log is taken for a torn one",
    file: "test/store/wal-damage.test.ts",
    test: "A3: a flipped bit anywhere in a write-ahead log with acknowledged commits is refused",
    patches: [
      {
        file: "src/store/sqlite/file-check.ts",
        from: 'if (look.kind === "damaged") throw damagedLog(path, look, whatToDo);',
        to: "",
      },
    ],
  },
  {
    name: "A3: commits behind a wrong header of the write-ahead log are not counted",
    file: "test/store/wal-damage.test.ts",
    test: "A3: a flipped bit anywhere in a write-ahead log with acknowledged commits is refused",
    patches: [
      {
        file: "src/store/sqlite/wal-look.ts",
        from: "Math.max(this.#marksBehind, ...this.#marksOf.values())",
        to: "this.#marksBehind",
      },
    ],
  },
  {
    name: "A3: a bad frame's own commit mark does not count",
    file: "test/store/wal-damage.test.ts",
    test: "A3: a flipped bit anywhere in a write-ahead log with acknowledged commits is refused",
    patches: [
      {
        file: "src/store/sqlite/wal-look.ts",
        from: "if (mark === 0 || !(isOurs || (isFirst && continues))) return;",
        to: "if (mark === 0 || !(isOurs || (isFirst && continues)) || isFirst) return;",
      },
    ],
  },
  {
    name: "A5: those who share journals do not look at the log that a crash left",
    file: "test/store/wal-damage.test.ts",
    test: "A5: a damaged write-ahead log of journals is refused by everyone who shares them",
    patches: [
      {
        file: "src/store/sqlite/shared-engine.ts",
        from: "const log = checkLog(path, RESTORE);",
        to: "const log = lookAtLog(`${path}-wal`);",
      },
    ],
  },
  {
    name: "A3: one commit mark behind a bad frame is taken for damage",
    file: "test/store/wal-power-cuts.test.ts",
    test: "power cuts with frames and sectors in any order leave logs that open",
    patches: [
      {
        file: "src/store/sqlite/wal-look.ts",
        from: "const MARKS_OF_DAMAGE = 2;",
        to: "const MARKS_OF_DAMAGE = 1;",
      },
    ],
  },
  {
    name: "A3: the mark of an older log counts with the salts of a newer one",
    file: "test/store/wal-power-cuts.test.ts",
    test: "A3: a commit of which one sector is missing is torn",
    patches: [
      {
        file: "src/store/sqlite/wal-look.ts",
        from: "if (continues || !isMarkApart(frameOffset(this.#frame, this.#pageBytes))) this.#marksBehind += 1;",
        to: "this.#marksBehind += 1;",
      },
    ],
  },
  {
    name: "A3: what a power cut left behind the end of a log stays there while it is written on",
    file: "test/store/wal-damage.test.ts",
    test: "A3: the mark that a power cut left behind the end is gone before a log is written on",
    patches: [
      {
        file: "src/store/sqlite/wal-look.ts",
        from: 'if (look.kind === "torn" && fstatSync(file).size > end) ftruncateSync(file, end);',
        to: "",
      },
    ],
  },
  {
    name: "A3: an owner counts on moving the log, and does not cut what a power cut left behind its end",
    file: "test/store/wal-damage.test.ts",
    test: "A3: also where a reader keeps the log from being moved",
    patches: [
      {
        file: "src/store/sqlite/engine.ts",
        from: "if (this.#log !== undefined) settleLog(`${this.#path}-wal`, this.#log);",
        to: "",
      },
    ],
  },
  {
    name: "A3: a log is cut by what was seen of it before its lock was held",
    file: "test/store/stale-look.test.ts",
    test: "A3: what another process has acknowledged between a look and the lock is not cut off",
    patches: [
      {
        file: "src/store/sqlite/engine.ts",
        from: "if (this.#lock !== undefined) this.#log = checkThere(this.#path, mode);",
        to: "if (isLocked) this.#log = checkThere(this.#path, mode);",
      },
    ],
  },
  {
    name: "A3: a log that another connection is moving counts as moved",
    file: "test/store/sqlite-edges.test.ts",
    test: "A3: a log that another connection is moving does not count as moved",
    patches: [
      {
        file: "src/store/sqlite/write-ahead-log.ts",
        from: "return pages >= 0 && movedPages === pages;",
        to: "return movedPages === pages;",
      },
    ],
  },
  {
    name: "A3: a salvage mixes kept commits with pages of lost ones that were moved into the database",
    file: "test/store/salvage.test.ts",
    test: "A3: whatever is damaged, what is kept is the state after a commit",
    patches: [
      {
        file: "src/store/sqlite/salvage-plan.ts",
        from: "if (gone.length > 0) assertUnmoved(path, kept, gone, pageOf);",
        to: "",
      },
    ],
  },
  {
    name: "A3: a salvage forgets that a page whose number is lost may be in the database already",
    file: "test/store/salvage.test.ts",
    test: "A3: where the log was moved past the damage, a page whose number is lost may be newer",
    patches: [
      {
        file: "src/store/sqlite/salvage-plan.ts",
        from: "if (keptPages.get(frame.page)?.equals(content) === true) return false;",
        to: "if (keptPages.has(frame.page)) return false;",
      },
    ],
  },
  {
    name: "A3: with a damaged first sector a salvage takes the log for one of other salts",
    file: "test/store/salvage.test.ts",
    test: "A3: a damaged first sector hides the log's salts",
    patches: [
      {
        file: "src/store/sqlite/salvage-plan.ts",
        from: "if (follower !== undefined)",
        to: "if (follower === frames[1] && follower !== undefined)",
      },
    ],
  },
  {
    name: "A3: a salvage takes zeros for a page of the database",
    file: "test/store/salvage.test.ts",
    test: "A3: a block that reads as zeros is no page of the database",
    patches: [
      {
        file: "src/store/sqlite/salvage-plan.ts",
        from: "if (page === 0) return undefined;",
        to: "if (page === 0) return Buffer.alloc(bytes);",
      },
    ],
  },
  {
    name: "A3: a salvage takes a damaged page number at its word",
    file: "test/store/salvage.test.ts",
    test: "A3: a page that a later commit has whole again is not missed, unless its number is in doubt",
    patches: [
      {
        file: "src/store/sqlite/salvage-plan.ts",
        from: "if (fitsAnotherPage(before.sum, frame.bytes, pageMax, isLittleEndian)) return frame;",
        to: "",
      },
    ],
  },
  {
    name: "D1: after a salvage versions that lost commits have given out are given out again",
    file: "test/store/salvage.test.ts",
    test: "A3: a salvage names the streams that lost something, keeps the damaged log",
    patches: [
      {
        file: "src/store/sqlite/salvage.ts",
        from: "if (commitsGone > 0) raiseCounter(path);",
        to: "",
      },
    ],
  },
  {
    name: "A3: a database whose pages are wrong is said to be whole",
    file: "test/cli/doctor.test.ts",
    test: "damage elsewhere is exit code 3, and no salvage is tried",
    patches: [
      {
        file: "src/store/sqlite/engine.ts",
        from: "throw isDamage(error) ? damagedFile(this.#path, messageOf(error), error) : error;",
        to: "throw error;",
      },
    ],
  },
  {
    name: "F2: a stream that is over keeps its batches in the tail",
    file: "test/store/resting.test.ts",
    test: "F2: events of a stream that runs are in memory, those of one that is over are read from the log",
    patches: [
      {
        file: "src/store/event-tail.ts",
        from: "if (meta?.state.end !== undefined) this.drop(stream);",
        to: "if (stream < 0) this.drop(stream);",
      },
    ],
  },
  {
    name: "B4: the tail joins batches over one that was moved away",
    file: "test/store/parts.test.ts",
    test: "B4: the tail has no gap: behind one it begins anew",
    patches: [
      { file: "src/store/event-tail.ts", from: "if (!isNext) this.drop(stream);", to: "" },
      { file: "src/store/event-tail.ts", from: "held === undefined || !isNext", to: "held === undefined" },
    ],
  },
  {
    name: "A3: a stream comes to rest with batches that lie in other rows",
    file: "test/store/resting.test.ts",
    test: "a stream that runs, or lies in several rows, does not rest",
    patches: [
      {
        file: "src/store/resting.ts",
        from: "if (moved.chunks !== chunksEnd || moved.events !== eventsEnd) return undefined;",
        to: "",
      },
      {
        file: "src/store/resting.ts",
        from: "if (chunksPart.row !== viewRow || eventsPart.row !== viewRow) return undefined;",
        to: "",
      },
      {
        file: "src/store/resting.ts",
        from: "if (eventsPart.first + eventsPart.count !== eventsEnd) return undefined;",
        to: "",
      },
    ],
  },
];
