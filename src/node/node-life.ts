/**
 * Which processes live, of those that share a store: a row for each, that the process renews and that ends by the store's clock when the process is gone (D7).
 *
 *     nodes  by machine and process
 *
 * A restarted process is another one, and removes the row of the one before it on its machine. The rows are for liveness alone (decision 133): a process that slept past its time has its row again when it wakes,
 * and finds the versions of its sessions outdated.
 */
import { randomUUID } from "node:crypto";
import type { Neighbours } from "../gateway/index.ts";
import { rowsOf, type TableStore } from "../store/table-store.ts";

const NODES = "nodes";

/** Machine and process of each. One that was killed counts until its time is over. */
export async function livingNodes(tables: Pick<TableStore, "list">): Promise<ReadonlySet<string>> {
  const keys = new Set<string>();
  for await (const { key } of rowsOf(tables, NODES)) keys.add(key);
  return keys;
}

interface NodeLife extends Neighbours {
  /** The others take over at once what this process had. */
  close(): Promise<void>;
}

/** `nodeId`: of this machine's data directory, which one process at a time has. */
export async function joinNodes(tables: TableStore, nodeId: string, leaseMs: number): Promise<NodeLife> {
  const self = `${nodeId}/${randomUUID()}`;
  const listeners = new Set<() => void>();
  for await (const { key } of rowsOf(tables, NODES, `${nodeId}/`)) await tables.delete({ table: NODES, key });
  const renew = (): Promise<number> =>
    tables.put({ table: NODES, key: self }, new Uint8Array(1), { ttlMs: leaseMs });
  await renew();
  let known = await livingNodes(tables);
  let renewing: Promise<void> = Promise.resolve();
  const look = async (): Promise<void> => {
    await renew();
    const now = await livingNodes(tables);
    const isOneGone = known.difference(now).size > 0;
    known = now;
    if (isOneGone) for (const listener of listeners) listener();
  };
  const timer = setInterval(() => {
    // A store that is away says so itself.
    renewing = renewing.then(look).catch(() => undefined);
  }, leaseMs / 3);
  timer.unref();
  return {
    self,
    isAlive: async (owner) => (await tables.get({ table: NODES, key: owner })) !== undefined,
    onGone(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async close() {
      clearInterval(timer);
      await renewing;
      await tables.delete({ table: NODES, key: self }).catch(() => false);
    },
  };
}
