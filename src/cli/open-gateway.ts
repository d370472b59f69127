/**
 * The gateway beside a server in one process: joined by the memory transport, with its tables in the server's database.
 *
 * It is a client like any other, one per principal, and cannot go around durability. Its home key lies apart from the data, as
 * every client's does: `HOLDFAST_HOME_KEY`, or a file in the user's configuration.
 */
import { join } from "node:path";
import type { Logger } from "pino";
import type { ProviderModels } from "../agent/models/index.ts";
import { ModelFailure } from "../agent/index.ts";
import { Client } from "../client/index.ts";
import { TableBlobStore } from "../client-node/blobs.ts";
import { resolveHomeKey } from "../client-node/home-key.ts";
import { filePlace, parseHomeKey } from "../client-node/key-places.ts";
import { keyDirectory } from "../client-node/scope.ts";
import { TableJournalStore } from "../client-node/table-journal-store.ts";
import { Gateway, type PrincipalClient } from "../gateway/index.ts";
import { nodeSealing } from "../sealing/node.ts";
import type { Server } from "../server/index.ts";
import type { SqliteStore } from "../store/index.ts";
import { memoryTransport } from "../transport/index.ts";
import type { Surroundings } from "./terminal.ts";

export interface GatewayParts {
  readonly server: Server;
  readonly store: SqliteStore;
  readonly models: ProviderModels;
  readonly dataDir: string;
  readonly logger: Logger;
  readonly surroundings: Surroundings;
  readonly onNotice: (message: string) => void;
}

/** Names of rows and tool calls follow from a secret of their own, not from one that seals anything. */
const NAMES = "the gateway's names";

export async function openGateway(parts: GatewayParts): Promise<Gateway> {
  const { server, store, models, logger, surroundings } = parts;
  const { tables } = store;
  const sealing = nodeSealing();
  const homeKey = await gatewayHomeKey(parts);
  const sealer = sealing.homeSealer(homeKey);
  const blobs = new TableBlobStore({ tables, sealer, now: surroundings.now });
  const journals = new TableJournalStore({ tables });
  const transport = memoryTransport(server.accept, {
    principalOf: (principal) => principal,
    blobs: server.blobs,
  });
  const clients = new Map<string, PrincipalClient>();
  const onBug = (bug: unknown): void => logger.error({ err: bug }, "the gateway made a mistake");
  const gateway = new Gateway({
    tables,
    sealer,
    secret: sealing.deriveStreamKey(homeKey, NAMES),
    isReusing: surroundings.env["HOLDFAST_SESSION_REUSE"] !== "0",
    models: () => models.list(),
    resolveModel: (name) => resolveModel(models, name),
    now: surroundings.now,
    onBug,
    clientOf: (principal) => {
      const known = clients.get(principal);
      if (known !== undefined) return known;
      const { connect, blobs: blobCalls } = transport;
      const credentials = (): Promise<string> => Promise.resolve(principal);
      const client = new Client({
        connect,
        blobs: blobCalls,
        sealing,
        homeKey,
        journals,
        credentials,
        onBug,
      });
      const made = { client, blobs };
      clients.set(principal, made);
      return made;
    },
  });
  await gateway.start();
  return gateway;
}

function resolveModel(models: ProviderModels, name: string): string | undefined {
  try {
    return models.resolve(name).id;
  } catch (error) {
    if (error instanceof ModelFailure) return undefined;
    throw error;
  }
}

function gatewayHomeKey({ store, dataDir, surroundings, onNotice }: GatewayParts): Promise<Uint8Array> {
  const { env, home, platform: name } = surroundings;
  const text = env["HOLDFAST_HOME_KEY"] ?? "";
  return resolveHomeKey({
    tables: store.tables,
    sealing: nodeSealing(),
    directory: dataDir,
    given: text === "" ? undefined : parseHomeKey(text, "HOLDFAST_HOME_KEY"),
    places: (scopeId) => [filePlace(keyDirectory({ name, home, environment: env }), scopeId, onNotice)],
    keyLock: join(dataDir, "home-key.lock"),
  });
}
