/**
 * A server, its agent and its gateway in one process, on a real port, all of production parts over disks in memory. The
 * process can die at any moment, or at any of its durable writes, and another one begins on the same disks.
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { pino } from "pino";
import { createAgent, ModelFailure } from "../../src/agent/index.ts";
import type { ProviderModels } from "../../src/agent/models/index.ts";
import { providerSide } from "../../src/node/provider-side.ts";
import { Client } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import {
  Gateway,
  GATEWAY_STREAMS,
  gatewayHttp,
  type GatewayLimits,
  type HttpLimits,
  type Workspace,
} from "../../src/gateway/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type HttpServer, serveHttp } from "../../src/server/http/index.ts";
import { type Application, createServer, type Server } from "../../src/server/index.ts";
import { memoryBlobStore, MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";
import { type Accept, memoryTransport, systemEnvironment } from "../../src/transport/index.ts";
import { authenticate } from "../server/http/rig.ts";
import { Cable } from "./cable.ts";
import { Life } from "./mortal.ts";
import { modelsOf, type PacedModel } from "./paced-model.ts";

const HOME_KEY: Uint8Array = new Uint8Array(32).fill(7);
const SECRET: Uint8Array = new Uint8Array(32).fill(8);
const SOON = { ...retry.DEFAULTS, baseMs: 2, capMs: 10, budget: { burst: 10_000, refillMs: 1 } };
const STREAMS_KEPT_MS = 2 * 60 * 60_000;
const LOG_WRITES = ["append"];
const TABLE_WRITES = ["put", "compareAndSwap", "delete", "batch"];

export interface WorldOptions {
  readonly limits?: Partial<GatewayLimits>;
  /** As a server elsewhere does: its own limit of open streams holds. */
  readonly isCountedByServer?: boolean;
  readonly httpLimits?: Partial<HttpLimits>;
  readonly isReusing?: boolean;
  /** Instead of the agent. */
  readonly application?: Application;
  readonly others?: readonly PacedModel[];
  readonly workspace?: Workspace;
  /** Of pages that may ask. */
  readonly allowedOrigins?: readonly string[];
  /** The tables could be shared with other nodes: each process is one of them. Default: as `HOLDFAST_SHARED_WORLDS` says. */
  readonly isShared?: boolean;
  /** The server lets go of a turn that waits when it has had no client for so long, and looks as often. Default: as what ships. */
  readonly turnsRestMs?: number;
  /** Stands between the gateway's clients and their server. */
  readonly through?: (accept: Accept) => Accept;
  /** Real providers instead of the paced model. */
  readonly providers?: ProviderModels;
}

/** What only a gateway does that is alone on its tables: it reads its sessions at a start, writes rows behind their stream, and looks nothing up that it knows. */
export const ALONE: Pick<WorldOptions, "isShared"> = { isShared: false };

interface Process {
  readonly life: Life;
  readonly gateway: Gateway;
  readonly http: HttpServer;
  readonly server: Server;
}

export class World {
  readonly model: PacedModel;
  readonly cable: Cable;
  readonly bugs: unknown[] = [];
  readonly logLines: string[] = [];
  nowMs = Date.now();
  readonly tables = memoryTableStore({ now: () => this.nowMs });
  readonly #options: WorldOptions;
  readonly #blobs = memoryBlobStore({ now: () => this.nowMs });
  #log = new MemoryLog({ durability: "fsync", storeBlob: this.#blobs.store });
  clientOf: (principal: string) => Client = () => assert.fail("not begun");
  #process: Process | undefined;
  readonly #gone: Promise<unknown>[] = [];
  readonly #living = new Set<string>();

  private constructor(cable: Cable, model: PacedModel, options: WorldOptions) {
    this.cable = cable;
    this.model = model;
    this.#options = options;
  }

  static async begin(t: TestContext, model: PacedModel, options: WorldOptions = {}): Promise<World> {
    const world = new World(await Cable.lay(t), model, options);
    await world.start();
    t.after(async () => {
      await world.stop();
      await Promise.all(world.#gone);
      assert.deepEqual(world.bugs, []);
    });
    return world;
  }

  get #running(): Process {
    assert.ok(this.#process !== undefined, "a process runs");
    return this.#process;
  }

  get gateway(): Gateway {
    return this.#running.gateway;
  }

  get life(): Life {
    return this.#running.life;
  }

  /** Streams that the server has in hand. */
  get hosted(): number {
    return this.#running.server.hostedCount;
  }

  /** Around the cable. */
  get port(): number {
    return this.#running.http.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.cable.port}`;
  }

  /** What the disk holds of a table, as it lies there. */
  async rows(table: string): Promise<readonly { readonly key: string; readonly value: Uint8Array }[]> {
    return this.tables.list(table, "", { after: undefined, countMax: 10_000 });
  }

  /** The spaces of conversations that the server keeps. */
  async conversations(): Promise<readonly string[]> {
    const spaces = await this.#blobs.listSpaces({ after: undefined, countMax: 10_000 });
    return spaces.filter((space) => space.startsWith('["conversation"'));
  }

  /** How many blobs they hold. */
  async keptBlobs(): Promise<number> {
    const page = { after: undefined, countMax: 10_000 };
    const lists = (await this.conversations()).map((space) => this.#blobs.list(space, page));
    return (await Promise.all(lists)).flat().length;
  }

  /** As a database does that was restored without them. */
  async loseConversations(): Promise<void> {
    for (const space of await this.conversations()) await this.#blobs.clear(space);
  }

  /** What a server does now and then. */
  async sweep(): Promise<void> {
    await this.#blobs.sweepSpaces(10_000);
  }

  async start(): Promise<void> {
    const life = new Life();
    const { model } = this;
    const sealing = nodeSealing();
    const onBug = (bug: unknown): void => void (life.isDead || this.bugs.push(bug));
    const log = life.mortal(this.#log, LOG_WRITES);
    const tables = life.mortal(this.tables, TABLE_WRITES);
    const now = (): number => this.nowMs;
    const { providers, allowedOrigins = [] } = this.#options;
    const models = providers ?? modelsOf(model, ...(this.#options.others ?? []));
    const application = this.#options.application ?? createAgent({ models });
    const store = await openLogStreamStore(log, { now: Date.now });
    const { turnsRestMs } = this.#options;
    const host = turnsRestMs === undefined ? {} : { restMs: turnsRestMs, heartbeatIntervalMs: turnsRestMs };
    const server = createServer({ store, blobs: this.#blobs, sealing, application, host, onBug });
    const { through = (accept: Accept): Accept => accept } = this.#options;
    const transport = memoryTransport(through(server.accept), {
      principalOf: (principal) => principal,
      blobs: server.blobs,
      countsItself: this.#options.isCountedByServer !== true,
    });
    const sealer = sealing.homeSealer(HOME_KEY);
    const clients = new Map<string, Client>();
    const clientOf = (principal: string): Client => {
      const known = clients.get(principal);
      if (known !== undefined) return known;
      const client = new Client({
        connect: transport.connect,
        blobs: transport.blobs,
        sealing,
        homeKey: HOME_KEY,
        principal,
        journals: "none",
        credentials: async () => principal,
        stream: { ...GATEWAY_STREAMS, retry: SOON },
        onBug,
      });
      clients.set(principal, client);
      return client;
    };
    this.clientOf = clientOf;
    const { limits = {}, httpLimits = {}, isReusing = true, workspace } = this.#options;
    const { isShared = process.env["HOLDFAST_SHARED_WORLDS"] === "1" } = this.#options;
    const self = randomUUID();
    this.#living.clear();
    this.#living.add(self);
    const isAlive = async (owner: string): Promise<boolean> => this.#living.has(owner);
    const gateway = new Gateway({
      neighbours: isShared ? { self, isAlive, onGone: () => () => undefined } : undefined,
      workspace,
      clientOf,
      tables,
      sealer,
      secret: SECRET,
      models: () => models.list(),
      resolveModel: (name) =>
        providers === undefined
          ? models.list().find(({ id }) => id === name || name === "")?.id
          : resolvedBy(providers, name),
      limits,
      isReusing,
      // No line stands beside it: a test says what is held.
      held: {
        list: async () => [],
        end: async () => undefined,
        namesOf: (_, { step, attempt }) => [`${step}/${attempt}`],
      },
      environment: { ...systemEnvironment(), now },
      onBug,
    });
    await gateway.start();
    const logger = pino({ level: "trace" }, { write: (line: string) => void this.logLines.push(line) });
    const side = providers === undefined ? {} : { providers: providerSide(providers) };
    const mounts = [
      gatewayHttp({ answers: gateway, responses: gateway.responses, limits: httpLimits, ...side }),
    ];
    const http = await serveHttp({ server, authenticate: signIn, logger, mounts, allowedOrigins });
    this.cable.target = http.port;
    this.#process = { life, gateway, http, server };
  }

  /** In good order. */
  async stop(): Promise<void> {
    const { http, gateway, life } = this.#running;
    if (life.isDead) life.bury();
    await http.close({ drainMs: 0 });
    await gateway.close();
    this.#log = this.#log.reopened();
  }

  /** Much later: the server has forgotten every stream, sessions are over, and the gateway has the rest of its tables. */
  async outliveStreams(): Promise<void> {
    await this.stop();
    this.nowMs += STREAMS_KEPT_MS;
    this.#log = new MemoryLog({ durability: "fsync", storeBlob: this.#blobs.store });
    await this.start();
  }

  /** SIGKILL, and another start. */
  async restart(): Promise<void> {
    const { life, http, gateway } = this.#running;
    life.die();
    this.cable.cut();
    this.#log = this.#log.reopened();
    await this.start();
    life.bury();
    this.#gone.push(Promise.all([http.close({ drainMs: 0 }), gateway.close()]));
  }
}

async function signIn(apiKey: string | undefined) {
  const { principal } = await authenticate(apiKey);
  return { principal, apiKeyId: principal, limits: undefined };
}

/** As the command does it. */
function resolvedBy(providers: ProviderModels, name: string): string | undefined {
  try {
    return providers.resolve(name).id;
  } catch (error) {
    if (error instanceof ModelFailure) return undefined;
    throw error;
  }
}
