/**
 * The processes of the agent's rows: a scripted provider, Holdfast with its agent, and whoever asks.
 *
 * The provider may use any core, as Redis may: it is the same in every variant.
 */
import { join } from "node:path";
import { numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import { profiling } from "./deliver.ts";

export interface Provider {
  readonly peer: Peer;
  readonly port: number;
}

export async function startProvider(): Promise<Provider> {
  const peer = await Peer.start("targets/provider.ts", { core: "any" });
  return { peer, port: numberOf(await peer.call("start"), "port") };
}

export interface AgentServer {
  readonly peer: Peer;
  readonly port: number;
}

/** `port` 0: any that is free. */
export async function startAgent(directory: string, provider: Provider, port = 0): Promise<AgentServer> {
  const target = "targets/agent.ts";
  const peer = await Peer.start(target, { core: "server", nodeOptions: profiling("holdfast") });
  const given = { directory: join(directory, "server"), providerPort: provider.port, port };
  return { peer, port: numberOf(await peer.call("start", given), "port") };
}

/** The journal's place decides what is kept of a client when its process dies. */
export type Journal = "disk" | "memory";

export async function startClient(directory: string, { port }: AgentServer, journal: Journal): Promise<Peer> {
  const client = await Peer.start("load/turns.ts", { core: "load" });
  await client.call("open", { directory, port, persistence: journal === "disk" });
  return client;
}

export interface Talking {
  readonly provider: Provider;
  readonly server: AgentServer;
  readonly client: Peer;
}

export async function startTalking(directory: string, journal: Journal): Promise<Talking> {
  const provider = await startProvider();
  const server = await startAgent(directory, provider);
  return { provider, server, client: await startClient(directory, server, journal) };
}

/** Without Holdfast: whoever asks calls the provider. */
export async function startDirect(): Promise<{ readonly load: Peer; readonly port: number }> {
  const { port } = await startProvider();
  return { load: await Peer.start("load/direct.ts", { core: "load" }), port };
}
