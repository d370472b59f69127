/**
 * The gateway beside a server in one process: joined by the memory transport, with its tables in the server's database.
 *
 * It is a client like any other, one per principal, and cannot go around durability.
 */
import { dirname, join } from "node:path";
import type { Logger } from "pino";
import { z } from "zod";
import type { LineClient } from "../agent/models/line/line-client.ts";
import type { ProviderModels } from "../agent/models/index.ts";
import { ModelFailure } from "../agent/index.ts";
import { Client } from "../client/index.ts";
import { keyDirectory, thisPlatform } from "../client-node/scope.ts";
import { tableJournalStore } from "../client-node/table-journal-store.ts";
import {
  Gateway,
  GATEWAY_STREAMS,
  type ListedModel,
  type Neighbours,
  type ProviderSide,
  type Spending,
  type Workspace,
} from "../gateway/index.ts";
import { counted } from "../core/standstill.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { ExecKind } from "../protocol/messages.ts";
import { modelNameOf } from "../protocol/model-name.ts";
import { ringSealing } from "../sealing/index.ts";
import { pooledRandomBytes } from "../sealing/node-crypto.ts";
import { nodeSealing } from "../sealing/node.ts";
import type { Server } from "../server/index.ts";
import type { BlobCalls, Connect } from "../transport/index.ts";
import { createTools } from "../tools/index.ts";
import { memoryTransport, systemEnvironment } from "../transport/index.ts";
import { http2Connect } from "../transport/node/http2-client.ts";
import { failure, usageError } from "./failures.ts";
import { hexOf } from "../protocol/bytes.ts";
import { heldStreams } from "./held-calls.ts";
import { gatewayHomeKeys, gatewaySecrets } from "./home-keys.ts";
import type { ServerStore } from "./open-store.ts";
import { providerSide, serverSide } from "./provider-side.ts";
import { logStall } from "./stall-log.ts";
import type { Machine } from "./machine.ts";

/** What a gateway needs besides the store: made once, and used by each gateway that stands on the store in its turn. */
export interface GatewayGround {
  readonly models: ProviderModels;
  /** The way to a Holdfast server elsewhere whose streams the gateway uses instead of this one's. */
  readonly upstream: WayElsewhere | undefined;
  /** A directory that the gateway's agent may look into. */
  readonly workspace: Workspace | undefined;
  readonly providers: ProviderSide;
  close(): Promise<void>;
}

interface GroundParts {
  readonly models: ProviderModels;
  readonly dataDir: string;
  readonly machine: Machine;
  readonly upstream: string | undefined;
  readonly workspace: string | undefined;
}

export async function openGround(parts: GroundParts): Promise<GatewayGround> {
  const { models, dataDir, machine } = parts;
  const upstream = parts.upstream === undefined ? undefined : await wayTo(parts.upstream, machine);
  const workspace = parts.workspace === undefined ? undefined : await openWorkspace(parts.workspace, dataDir);
  return {
    models,
    upstream,
    workspace,
    providers: upstream?.providers ?? providerSide(models),
    close: async () => {
      await workspace?.close();
      await upstream?.close();
    },
  };
}

interface GatewayParts {
  readonly server: Server;
  readonly store: Omit<ServerStore, "hostId" | "letters">;
  /** What API keys have spent at this server's models. Default: it is counted nowhere, and those that have a limit are refused. */
  readonly spending?: Spending | undefined;
  /** Other nodes may share the store: then they have the same home key. */
  readonly neighbours?: Neighbours | undefined;
  readonly ground: GatewayGround;
  readonly dataDir: string;
  readonly logger: Logger;
  readonly machine: Machine;
  readonly onNotice: (message: string) => void;
  /** How many streams of one principal are open at most. */
  readonly openStreamsMax: number;
  readonly responseTtlMs: number;
  readonly sessionTtlMs: number;
  readonly line: LineClient | undefined;
}

export interface OpenGateway {
  readonly gateway: Gateway;
  close(): Promise<void>;
}

const CLEAN_UP_MS = 60 * 60_000;

export async function openGateway(parts: GatewayParts): Promise<OpenGateway> {
  const { store, ground, logger, machine, line } = parts;
  const { counters } = parts.server;
  const { tables } = store;
  const keys = await gatewayHomeKeys({ ...parts, tables, isShared: parts.neighbours !== undefined });
  const { homeKey } = keys;
  const sealing = ringSealing(nodeSealing(), keys);
  // Beside its own server the log is all that a client needs (decision 89). A server elsewhere may be out of reach.
  const journals = ground.upstream === undefined ? "none" : tableJournalStore({ tables });
  const way = ground.upstream ?? wayWithin(parts.server, ground.models);
  let isStoreOver = false;
  void store.failed.then(() => (isStoreOver = true));
  const onBug = (bug: unknown): void => {
    // The log has the store's failure already, from where it failed. A store that is being closed refuses calls, too.
    if (isStoreOver && bug instanceof HoldfastError && bug.code === "unavailable") return;
    logger.error({ err: bug }, "the gateway made a mistake");
  };
  // The platform's `crypto` is loaded when it is first used, while a client waits for its answer.
  const environment = { ...systemEnvironment(), randomBytes: pooledRandomBytes };
  const clients = new Map<string, Client>();
  const gateway = new Gateway({
    neighbours: parts.neighbours,
    // A server elsewhere runs the models then, and counts by its own API keys.
    spending: ground.upstream === undefined ? parts.spending : undefined,
    workspace: ground.workspace,
    // Streams of a server elsewhere are held there.
    held:
      ground.upstream === undefined && line !== undefined
        ? heldStreams(line, store.streams, (streamId) => {
            const streamKey = sealing.deriveStreamKey(homeKey, streamId);
            return (text) => hexOf(sealing.secretName(streamKey, text));
          })
        : undefined,
    limits: {
      openStreamsMax: parts.openStreamsMax,
      responseTtlMs: parts.responseTtlMs,
      sessionTtlMs: parts.sessionTtlMs,
    },
    tables,
    ...gatewaySecrets(keys),
    isReusing: machine.env["HOLDFAST_SESSION_REUSE"] !== "0",
    models: way.models,
    resolveModel: way.resolveModel,
    environment: { ...environment, now: machine.now },
    onBug,
    clientOf: (principal) => {
      const known = clients.get(principal);
      if (known !== undefined) return known;
      const credentials = (): Promise<string> => Promise.resolve(way.credentialsOf(principal));
      const { connect, blobs: blobCalls } = way;
      const client = new Client({
        environment,
        connect,
        blobs: blobCalls,
        sealing,
        homeKey,
        principal,
        journals,
        forgetsEnded: true,
        stream: GATEWAY_STREAMS,
        credentials,
        onBug,
        onStall: (news) => {
          counters.stalls.client = counted(counters.stalls.client, news);
          logStall(logger, "client", { ...news, principal }, news);
        },
      });
      clients.set(principal, client);
      return client;
    },
  });
  const timer = setInterval(() => void gateway.cleanUp().catch(onBug), CLEAN_UP_MS);
  timer.unref();
  const close = async (): Promise<void> => {
    clearInterval(timer);
    await gateway.close();
    isStoreOver = true;
    await Promise.all([...clients.values()].map((client) => client.close()));
  };
  try {
    await gateway.start();
  } catch (error) {
    await close();
    throw error;
  }
  return { gateway, close };
}

/** Only what has no effects: there is no user to ask. */
const LOOKING: ReadonlySet<ExecKind> = new Set([ExecKind.READ, ExecKind.LS, ExecKind.GLOB, ExecKind.GREP]);

async function openWorkspace(
  workspace: string,
  dataDir: string,
): Promise<Workspace & { close(): Promise<void> }> {
  const tools = await createTools({
    workspace,
    stateDirectory: join(dataDir, "tools"),
    closed: [dataDir, dirname(keyDirectory(thisPlatform()))],
  });
  return {
    kinds: tools.kinds.filter((kind) => LOOKING.has(kind)),
    carryOut: (exec, stream) => {
      if (!LOOKING_NAMES.has(exec.kind)) throw new Error("this gateway only looks at files");
      return tools.run(exec, {
        signal: AbortSignal.timeout(LOOK_MS),
        idempotencyKey: "",
        say: () => Promise.resolve(),
        upload: (bytes) => stream.putBlob(bytes),
        download: (blobId) => stream.getBlob(blobId),
      });
    },
    close: () => tools.close(),
  };
}

const LOOKING_NAMES: ReadonlySet<string> = new Set(["read", "ls", "glob", "grep"]);
const LOOK_MS = 60_000;

/** How the gateway reaches streams and models. */
export interface Way {
  readonly connect: Connect;
  readonly blobs: BlobCalls;
  readonly credentialsOf: (principal: string) => string;
  readonly models: () => readonly ListedModel[];
  readonly resolveModel: (name: string) => string | undefined;
  close(): void | Promise<void>;
}

/** The models that requests may name, whichever node answers them. */
export function modelsOf({ upstream, models }: GatewayGround): Pick<Way, "models" | "resolveModel"> {
  return upstream ?? { models: () => models.list(), resolveModel: (name) => resolveModel(models, name) };
}

function wayWithin(server: Server, models: ProviderModels): Way {
  const transport = memoryTransport(server.accept, {
    principalOf: (principal) => principal,
    blobs: server.blobs,
    countsItself: true,
  });
  return {
    connect: transport.connect,
    blobs: transport.blobs,
    credentialsOf: (principal) => principal,
    models: () => models.list(),
    resolveModel: (name) => resolveModel(models, name),
    close: () => undefined,
  };
}

/** Of a server elsewhere, whose providers are behind it. */
interface WayElsewhere extends Way {
  readonly providers: ProviderSide;
}

/** There all principals are one; here their sessions stay apart. The model's name is for the other server to judge. */
async function wayTo(url: string, { env }: Machine): Promise<WayElsewhere> {
  const apiKey = env["HOLDFAST_UPSTREAM_API_KEY"] ?? "";
  if (apiKey === "")
    throw usageError("--upstream-server needs the API key for it in HOLDFAST_UPSTREAM_API_KEY");
  const models = await upstreamModels(url, apiKey);
  const transport = http2Connect({ url });
  return {
    connect: transport.connect,
    blobs: transport.blobs,
    credentialsOf: () => apiKey,
    models: () => models,
    resolveModel: modelNameOf,
    providers: serverSide(url, apiKey),
    close: () => transport.close(),
  };
}

async function upstreamModels(url: string, apiKey: string): Promise<readonly ListedModel[]> {
  try {
    const response = await fetch(new URL("/v1/models", url), {
      headers: { authorization: `Bearer ${apiKey}` },
      redirect: "error",
    });
    const list: unknown = await response.json();
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    return MODELS.parse(list).data.map(({ id, owned_by: provider }) => ({ id, provider, isDefault: false }));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw failure(`the Holdfast server at ${url} does not list its models (${why}); is it running?`, cause);
  }
}

const MODELS = z.object({ data: z.array(z.object({ id: z.string(), owned_by: z.string() })) });

function resolveModel(models: ProviderModels, name: string): string | undefined {
  try {
    return models.resolve(name).id;
  } catch (error) {
    if (error instanceof ModelFailure) return undefined;
    throw error;
  }
}
