/**
 * Of several nodes on one store, one at a time serves the gateway: it keeps sessions and allowances of the whole installation in memory.
 *
 * The seat is a row that its holder renews, and that ends by the store's clock when the holder is gone (D7). A node without the seat refuses the gateway's requests
 * with when to retry, and tries for the seat; whoever gets it finds the sessions as a start does. Streams do not need the seat: every node serves them.
 *
 * Invariant: a gateway is open only between taking the seat and losing it. What a holder does that slept past its time is fenced stream by stream (D1), and its rows are
 * refused here by how long ago the seat was renewed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../protocol/errors.ts";
import type { TableStore } from "../store/index.ts";
import { type HeldSeat, holdSeat, type SeatTimes, tryHoldSeat } from "./held-seat.ts";
import type { OpenGateway } from "./open-gateway.ts";

export interface SeatParts {
  readonly tables: TableStore;
  readonly nodeId: string;
  readonly open: (tables: TableStore) => Promise<OpenGateway>;
  readonly times: SeatTimes;
  /** Told when this node begins to serve the gateway, or does so no longer. */
  readonly onNews: (news: "taken" | "lost") => void;
  readonly onBug: (bug: unknown) => void;
}

export interface GatewaySeat {
  /** Undefined while another node has the seat. */
  readonly current: OpenGateway["gateway"] | undefined;
  /** Throws a refusal while another node has the seat. */
  readonly usable: OpenGateway["gateway"];
  close(): Promise<void>;
}

/** Of a server that shares its store with no other. */
export function onlySeat(opened: OpenGateway): GatewaySeat {
  const { gateway } = opened;
  return { current: gateway, usable: gateway, close: () => opened.close() };
}

/** A node that took the seat over needs a moment to find the sessions. */
const RETRY_AFTER_MS = 2_000;

/** Resolves when the gateway is open, or another node has the seat. Rejects when the gateway cannot be opened. */
export async function takeSeat(parts: SeatParts): Promise<GatewaySeat> {
  const { tables, nodeId, times } = parts;
  const closing = new AbortController();
  let current: OpenGateway | undefined;

  async function sit(held: HeldSeat): Promise<void> {
    try {
      current = await parts.open(whileHeld(tables, held));
    } catch (error) {
      await held.release();
      throw error;
    }
    parts.onNews("taken");
  }

  async function stand(held: HeldSeat): Promise<void> {
    const opened = current;
    current = undefined;
    await opened?.close();
    await held.release();
  }

  async function turns(first: HeldSeat | undefined): Promise<void> {
    for (let held = first; !closing.signal.aborted; held = undefined) {
      try {
        if (held === undefined) {
          held = await holdSeat(tables, nodeId, closing.signal, times);
          await sit(held);
        }
        const { promise: closed, resolve } = Promise.withResolvers<void>();
        closing.signal.addEventListener("abort", () => resolve(), { once: true });
        if (closing.signal.aborted) resolve();
        await Promise.race([held.lost, closed]);
        if (!closing.signal.aborted) parts.onNews("lost");
        await stand(held);
      } catch (error) {
        if (!closing.signal.aborted) parts.onBug(error);
        await sleep(RETRY_AFTER_MS, undefined, { signal: closing.signal }).catch(() => undefined);
      }
    }
  }

  const first = await tryHoldSeat(tables, nodeId, times);
  if (first !== undefined) await sit(first);
  const life = turns(first);
  return {
    get current() {
      return current?.gateway;
    },
    get usable() {
      if (current !== undefined) return current.gateway;
      throw new HoldfastError(
        "unavailable",
        "another node of this installation serves the gateway; send the request there, or retry: it is taken over when that node is gone",
        { retryAfterMs: RETRY_AFTER_MS },
      );
    },
    async close() {
      closing.abort();
      await life;
    },
  };
}

/** The same tables. A node that slept past its time writes nothing to them. */
function whileHeld(tables: TableStore, held: HeldSeat): TableStore {
  const guarded =
    <Call extends readonly unknown[], Result>(act: (...call: Call) => Promise<Result>) =>
    async (...call: Call): Promise<Result> => {
      if (!held.isSure())
        throw new HoldfastError("unavailable", "this node may have lost the gateway's seat; retry");
      return act(...call);
    };
  return {
    ...tables,
    put: guarded((...call: Parameters<TableStore["put"]>) => tables.put(...call)),
    compareAndSwap: guarded((...call: Parameters<TableStore["compareAndSwap"]>) =>
      tables.compareAndSwap(...call),
    ),
    delete: guarded((...call: Parameters<TableStore["delete"]>) => tables.delete(...call)),
    batch: guarded((...call: Parameters<TableStore["batch"]>) => tables.batch(...call)),
  };
}
