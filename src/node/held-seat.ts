/**
 * A seat that one node of several has: a row that its holder renews, and that ends by the store's clock when the holder is gone (D7).
 *
 * It is for what a server keeps in memory about all of the store (the gateway). Streams do not need it: their epochs fence whoever comes late (D1).
 */
import { setTimeout as sleep } from "node:timers/promises";
import { NO_ROW, type TableStore } from "../store/index.ts";

export interface HeldSeat {
  /** Resolves when another node has the seat. */
  readonly lost: Promise<void>;
  /** False when the seat may be another's by now: it was not renewed in time. */
  isSure(): boolean;
  release(): Promise<void>;
}

const AT = { table: "nodes", key: "serving" } as const;

export interface SeatTimes {
  readonly ttlMs: number;
  readonly renewMs: number;
  readonly pollMs: number;
}

/** As a stream's lease. */
export function seatTimes(leaseMs: number): SeatTimes {
  return { ttlMs: leaseMs, renewMs: leaseMs / 3, pollMs: Math.min(500, leaseMs / 6) };
}

/** Waits until the seat is free. Rejects when the signal fires. */
export async function holdSeat(
  tables: TableStore,
  nodeId: string,
  signal: AbortSignal,
  times: SeatTimes,
): Promise<HeldSeat> {
  for (;;) {
    const held = await tryHoldSeat(tables, nodeId, times);
    if (held !== undefined) return held;
    await sleep(times.pollMs, undefined, { signal });
  }
}

/** Undefined when another node has it. The same node takes its own seat again, after a restart. */
export async function tryHoldSeat(
  tables: TableStore,
  nodeId: string,
  times: SeatTimes,
): Promise<HeldSeat | undefined> {
  const value = new TextEncoder().encode(nodeId);
  const { ttlMs } = times;
  const row = await tables.get(AT);
  if (row !== undefined && new TextDecoder().decode(row.value) !== nodeId) return undefined;
  let askedMs = nowMs();
  const taken = await tables.compareAndSwap(AT, row?.version ?? NO_ROW, value, { ttlMs });
  if (taken.kind !== "written") return undefined;
  let { version } = taken;
  const { promise: lost, resolve: lose } = Promise.withResolvers<void>();
  const renew = async (): Promise<void> => {
    const beganMs = nowMs();
    const result = await tables.compareAndSwap(AT, version, value, { ttlMs });
    if (result.kind !== "written") return lose();
    ({ version } = result);
    askedMs = beganMs;
  };
  const timer = setInterval(() => {
    // A store that is away says so itself.
    renew().catch(() => undefined);
  }, times.renewMs);
  timer.unref();
  return {
    lost,
    isSure: () => nowMs() - askedMs < ttlMs,
    async release() {
      clearInterval(timer);
      await tables.batch([{ kind: "delete", ...AT, expectedVersion: version }]).catch(() => undefined);
    },
  };
}

/** By the wall: a machine that was suspended has slept by this clock as well. */
function nowMs(): number {
  return Date.now();
}
