/**
 * What every stream store must do, whatever lies under it.
 *
 * A function that registers tests, so that the memory, SQLite and PostgreSQL stores are held to the
 * same sentences. A store that several nodes share gives a second handle as `peer`; for an embedded one
 * the two hosts race through the same handle, as they would within one process.
 */
import type { TestContext } from "node:test";
import type { StreamStore } from "../../src/store/index.ts";
import { streamStoreCommits } from "./stream-store-commits.ts";
import { streamStoreLife } from "./stream-store-life.ts";
import { streamStoreReads } from "./stream-store-reads.ts";

export interface StreamStoreHarness {
  readonly store: StreamStore;
  /** Another node's handle on the same streams. */
  readonly peer?: StreamStore;
  /** The store as it is after its process was killed and started again. The old handle is not used any more. */
  readonly reopen?: () => Promise<StreamStore>;
  /** The store's clock. */
  readonly clock: { advance(ms: number): void };
  /** How many synced writes there have been, where the store tells. */
  readonly appends?: () => number;
}

export type OpenStreamStore = () => Promise<StreamStoreHarness>;

/** Opens a store for one test and closes it afterwards. */
export type Opened = (t: TestContext) => Promise<StreamStoreHarness>;

export function streamStoreConformance(name: string, open: OpenStreamStore): void {
  const opened: Opened = async (t) => {
    const harness = await open();
    t.after(async () => {
      await harness.peer?.close();
      await harness.store.close();
    });
    return harness;
  };
  streamStoreCommits(name, opened);
  streamStoreReads(name, opened);
  streamStoreLife(name, opened);
}
