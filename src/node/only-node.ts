/**
 * One node at a time on a shared store: a row that its holder renews, and that ends by the store's clock when the holder is gone (D7).
 *
 * It is for what a server keeps in memory about all of the store (sessions, allowances). Streams do not need it: their epochs fence whoever comes late (D1).
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { HoldfastError } from "../protocol/errors.ts";
import { NO_ROW, type TableStore } from "../store/index.ts";
import { failure } from "./failures.ts";

export interface HeldNode {
  /** Resolves when another node has the store. */
  readonly lost: Promise<HoldfastError>;
  release(): Promise<void>;
}

const AT = { table: "nodes", key: "serving" } as const;

export interface NodeLease {
  readonly ttlMs: number;
  readonly renewMs: number;
  readonly pollMs: number;
  /** A node that was killed is waited for until its row has ended. */
  readonly waitMs: number;
}

const LEASE: NodeLease = { ttlMs: 15_000, renewMs: 5_000, pollMs: 500, waitMs: 25_000 };

export async function holdNode(tables: TableStore, nodeId: string, lease = LEASE): Promise<HeldNode> {
  const value = new TextEncoder().encode(nodeId);
  const { ttlMs } = lease;
  let version = await take(tables, nodeId, value, lease);
  const { promise: lost, resolve: lose } = Promise.withResolvers<HoldfastError>();
  const renew = async (): Promise<void> => {
    const result = await tables.compareAndSwap(AT, version, value, { ttlMs });
    if (result.kind === "written") ({ version } = result);
    else lose(failure("another node has taken the store over while this one did not answer"));
  };
  const timer = setInterval(() => {
    // A store that is away says so itself.
    renew().catch(() => undefined);
  }, lease.renewMs);
  timer.unref();
  return {
    lost,
    async release() {
      clearInterval(timer);
      await tables.batch([{ kind: "delete", ...AT, expectedVersion: version }]).catch(() => undefined);
    },
  };
}

async function take(
  tables: TableStore,
  nodeId: string,
  value: Uint8Array,
  { ttlMs, pollMs, waitMs }: NodeLease,
): Promise<number> {
  for (let waitedMs = 0; ; waitedMs += pollMs) {
    const row = await tables.get(AT);
    const holder = row === undefined ? undefined : new TextDecoder().decode(row.value);
    if (holder === undefined || holder === nodeId) {
      const result = await tables.compareAndSwap(AT, row?.version ?? NO_ROW, value, { ttlMs });
      if (result.kind === "written") return result.version;
    }
    if (waitedMs >= waitMs) {
      throw failure(
        `another server (${holder ?? "unknown"}) uses this PostgreSQL; several nodes on one database are not supported yet: stop that one, or give this one a database of its own`,
      );
    }
    await sleep(pollMs);
  }
}
