/**
 * What every stream store must do, whatever lies under it.
 *
 * A function that registers tests, so that the memory, SQLite and PostgreSQL stores are held to the
 * same sentences. A store that several nodes share gives a second handle as `peer`; for an embedded one
 * the two hosts race through the same handle, as they would within one process.
 */
import type { OpenStreamStore, Opened } from "./stream-fixtures.ts";
import { streamStoreCommits } from "./stream-store-commits.ts";
import { streamStoreLife } from "./stream-store-life.ts";
import { streamStoreReads } from "./stream-store-reads.ts";

export type { OpenStreamStore, StreamStoreHarness } from "./stream-fixtures.ts";

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
