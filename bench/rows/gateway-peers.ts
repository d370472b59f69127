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
}

export interface Asking {
  readonly provider: Provider;
  /** Undefined: the provider is asked directly. */
  readonly gateway: Peer | undefined;
  readonly ask: (command: string, given?: Arguments) => Promise<Measured>;
}

const API_KEY = "an-api-key-of-the-benchmark";

export async function startAsking(directory: string, options: GatewayOptions): Promise<Asking> {
  const { kind } = options;
  const provider = await startProvider();
  const gateway = await startGateway(directory, provider, options);
  const load = await Peer.start("load/completions.ts", { core: "load" });
  const whom = {
    kind,
    port: gateway?.port ?? provider.port,
    providerPort: provider.port,
    apiKey: API_KEY,
  };
  const ask = (command: string, given: Arguments = {}): Promise<Measured> =>
    load.call(command, { ...whom, ...given });
  return { provider, gateway: gateway?.peer, ask };
}

async function startGateway(
  directory: string,
  provider: Provider,
  { kind, reuse = true, nodeOptions = [] }: GatewayOptions,
): Promise<{ readonly peer: Peer; readonly port: number } | undefined> {
  if (kind === "direct") return undefined;
  const target = kind === "portkey" ? "targets/portkey.ts" : "targets/gateway.ts";
  const peer = await Peer.start(target, {
    core: "server",
    nodeOptions: [...nodeOptions, ...profiling(kind)],
  });
  const started = await peer.call("start", {
    directory: join(directory, "server"),
    providerPort: provider.port,
    apiKey: API_KEY,
    reuse,
  });
  return { peer, port: numberOf(started, "port") };
}
