/**
 * A commit log that counts: how long its appends take and how large they are.
 *
 * An append is one group commit, so this is where the disk's latency and the size of the groups can
 * be seen, at the price of two clock reads for each sync.
 */
import type { CommitLog } from "../store/commit-log.ts";
import type { ServerCounters } from "./counters.ts";

export function countedLog(log: CommitLog, counters: ServerCounters): CommitLog {
  return {
    ...(log.rewrite === undefined ? {} : { rewrite: async (rows) => log.rewrite?.(rows) }),
    durability: log.durability,
    scan: () => log.scan(),
    append: async (record, body, freed, blobs) => {
      const beganMs = performance.now();
      counters.appendBytes.add(record.byteLength + (body?.byteLength ?? 0));
      try {
        return await log.append(record, body, freed, blobs);
      } finally {
        counters.appendSeconds.add((performance.now() - beganMs) / 1000);
      }
    },
    read: (row) => log.read(row),
    readBody: (row) => log.readBody(row),
    drop: (rows) => log.drop(rows),
    close: () => log.close(),
  };
}
