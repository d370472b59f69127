/**
 * The one measurement behind every delivery row: start a server, attach its readers, let events flow, count.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Rounds } from "../harness/rounds.ts";

export interface Delivery {
  /** The server's file, and what its `start` is given beside the directory. */
  readonly target: string;
  readonly options?: Readonly<Record<string, string | number | boolean>>;
  readonly protocol: "holdfast" | "http2" | "sse";
  readonly streams: number;
  readonly perConnection: number;
}

/**
 * Events under way: sixteen for each stream, half a second of a fast model's. Few streams get more, so that a commit is worth its sync.
 */
function windowOf(streams: number): number {
  return Math.max(16 * streams, 2_000);
}

/** A load busier than this may be the slower side, so that the servers behind it look more alike than they are. */
export const LOAD_BUSY_MAX = 0.9;

export async function deliver(rounds: Rounds, directory: string, delivery: Delivery): Promise<Measured> {
  const { streams, perConnection, protocol } = delivery;
  const server = await Peer.start(delivery.target, {
    core: "server",
    nodeOptions: profiling(delivery.target),
  });
  const load = await Peer.start("load/delivery.ts", { core: "load" });
  const started = await server.call("start", { directory, ...delivery.options });
  const windowEvents = windowOf(streams);
  await load.call("open", {
    protocol,
    streams,
    perConnection,
    port: numberOf(started, "port"),
    creditPort: numberOf(started, "creditPort"),
    creditEvery: Math.ceil(windowEvents / 16),
  });
  await server.call("saturate", { windowEvents });
  await load.call("measure", { measureMs: rounds.size(1_500, 100) });
  await server.call("meter");
  const measured = await load.call("measure", { measureMs: rounds.size(3_000, 200) });
  const { cpuMs = Number.NaN, busy = Number.NaN } = await server.call("metered");
  const events = numberOf(measured, "events");
  if (events === 0) throw new Error(`${delivery.target} delivered nothing`);
  return { ...measured, serverBusy: busy, serverUsPerEvent: (cpuMs * 1000) / events };
}

const profileDirectory = process.env["HOLDFAST_BENCH_PROFILE"];

export function isProfiling(): boolean {
  return profileDirectory !== undefined;
}

/** `HOLDFAST_BENCH_PROFILE=directory` writes CPU profiles of Holdfast's servers there, one for each thread. */
export function profiling(target: string): readonly string[] {
  const directory = profileDirectory;
  if (directory === undefined || !target.includes("holdfast")) return [];
  return ["--cpu-prof", "--cpu-prof-interval=200", `--cpu-prof-dir=${directory}`];
}
