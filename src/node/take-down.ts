/**
 * Takes a server down, part by part.
 *
 * All that it waits for shares one deadline: model calls come first, then requests under way, then the collector of traces. Each gets what the ones before it have left, so
 * that the sum is known: `docker stop` kills after ten seconds. What the server itself has to do is not cut short: to give back its leases, and to close its store.
 */
import type { LineClient } from "../agent/models/line/line-client.ts";
import { given } from "../protocol/given.ts";
import type { HttpServer } from "../server/http/index.ts";
import type { LastingServer } from "../server/index.ts";
import type { GatewayGround } from "./open-gateway.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";

/** Behind model calls that took all of their time. */
const REST_MS = 1_000;
/** The most that requests get, and all of the deadline where model calls get nothing. */
const REQUESTS_MS = 5_000;

/** What there is so far. */
export interface Running {
  line?: Pick<LineClient, "close"> | undefined;
  ground?: Pick<GatewayGround, "close">;
  lasting?: Pick<LastingServer<never>, "shutdown" | "close">;
  http?: Pick<HttpServer, "close">;
  telemetry?: Pick<Telemetry, "close"> | undefined;
}

interface Stop {
  /** Lets model calls end, for at most so long. Absent: they end at once. */
  readonly drain?: ((drainMs: number) => Promise<void>) | undefined;
  readonly drainMs?: number | undefined;
  /** Milliseconds since some moment. */
  readonly now?: () => number;
}

export async function takeDown(
  { line, ground, lasting, http, telemetry }: Running,
  { drain, drainMs, now = () => performance.now() }: Stop = {},
): Promise<void> {
  const untilMs = now() + (drainMs === undefined ? REQUESTS_MS : drainMs + REST_MS);
  const leftMs = (): number => Math.min(REQUESTS_MS, Math.max(0, untilMs - now()));
  const drained = drain === undefined ? undefined : () => drain(drainMs ?? 0);
  // Closing the port shuts the server down; without a port it must be done here.
  await (http?.close({ drainMs: leftMs, ...given({ drain: drained }) }) ?? lasting?.shutdown());
  await lasting?.close();
  await ground?.close();
  line?.close();
  await telemetry?.close(leftMs());
}
