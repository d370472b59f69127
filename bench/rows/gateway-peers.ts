/**
 * The processes of the gateway's rows: a scripted provider, a gateway before it or none, and an OpenAI client.
 */
import { join } from "node:path";
import type { Arguments, Measured } from "../harness/numbers.ts";
import { numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import { type Provider, startProvider } from "./agent-peers.ts";
import { profiling } from "./deliver.ts";

export type Kind = "direct" | "portkey" | "holdfast";

export interface GatewayOptions {
  readonly kind: Kind;
  /** Holdfast's: whether sessions are used again. */
  readonly reuse?: boolean;
  readonly nodeOptions?: readonly string[];
  /** Holdfast's: what the agent's cache of blobs may hold. Default: as much as in a server of users. */
  readonly cacheBytesMax?: number;
}

/** The agent's own default. */
const CACHE_BYTES_MAX = 64 * 1024 * 1024;

export interface Asking {
  /** What the gateway keeps is in there. */
  readonly directory: string;
  readonly provider: Provider;
  /** Undefined: the provider is asked directly. */
  readonly gateway: Peer | undefined;
  readonly ask: (command: string, given?: Arguments) => Promise<Measured>;
  /** Starts Holdfast's gateway again, behind its end, on a clock that is so far ahead. */
  readonly again: (aheadMs?: number) => Promise<Started>;
}

export interface Started {
  readonly peer: Peer;
  readonly port: number;
}

const API_KEY = "an-api-key-of-the-benchmark";

export async function startAsking(row: string, options: GatewayOptions): Promise<Asking> {
  const { kind } = options;
  const provider = await startProvider();
  const directory = join(row, "server");
  const gateway = kind === "direct" ? undefined : await startGateway(directory, provider, options);
  const load = await Peer.start("load/completions.ts", { core: "load" });
  const whom = {
    kind,
    port: gateway?.port ?? provider.port,
    providerPort: provider.port,
    apiKey: API_KEY,
  };
  const ask = (command: string, given: Arguments = {}): Promise<Measured> =>
    load.call(command, { ...whom, ...given });
  const again = (aheadMs = 0): Promise<Started> => startGateway(directory, provider, { ...options, aheadMs });
  return { directory, provider, gateway: gateway?.peer, ask, again };
}

async function startGateway(
  directory: string,
  provider: Provider,
  {
    kind,
    reuse = true,
    nodeOptions = [],
    cacheBytesMax = CACHE_BYTES_MAX,
    aheadMs = 0,
  }: GatewayOptions & { readonly aheadMs?: number },
): Promise<Started> {
  const target = kind === "portkey" ? "targets/portkey.ts" : "targets/gateway.ts";
  const peer = await Peer.start(target, {
    core: "server",
    nodeOptions: [...nodeOptions, ...profiling(kind)],
  });
  const started = await peer.call("start", {
    directory,
    providerPort: provider.port,
    apiKey: API_KEY,
    reuse,
    cacheBytesMax,
    aheadMs,
  });
  return { peer, port: numberOf(started, "port") };
}
