/**
 * The store over a commit log, against the naive one. A third of the restarts find every row that was ever dropped again.
 */
import { test } from "node:test";
import * as fc from "fast-check";
import type { CommitLog } from "../../src/store/index.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { round, Run } from "./stream-model.ts";

/** A memory log that remembers what was dropped, and can find it again. */
class Disk {
  readonly #all: { readonly record: Uint8Array; readonly body: Uint8Array | undefined }[] = [];
  #log = new MemoryLog();

  open(): CommitLog {
    const log = this.#log.reopened();
    const append = log.append.bind(log);
    log.append = (record, body, freed, blobs) => {
      this.#all.push({ record, body });
      return append(record, body, freed, blobs);
    };
    return log;
  }

  async loseDrops(): Promise<void> {
    this.#log = new MemoryLog();
    for (const { record, body } of this.#all) await this.#log.append(record, body);
  }
}

test("A3: random histories with restarts give the same answers as a naive store", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(round, { maxLength: 60, size: "max" }), async (rounds) => {
      const disk = new Disk();
      let opened = 0;
      const open = async (now: () => number, dropsLost: boolean) => {
        if (dropsLost) await disk.loseDrops();
        // Nothing, some and all of what a short log says is in memory when it is open.
        const youngestBytes = [0, 600, undefined][opened++ % 3];
        return openLogStreamStore(
          disk.open(),
          youngestBytes === undefined ? { now } : { now, youngestBytes },
        );
      };
      await new Run({ open }).play(rounds);
    }),
    { numRuns: 300 },
  );
});
