/**
 * Holdfast's gateway as `holdfast serve` puts it together: the stream server, its agent and the gateway in one process, SQLite,
 * sealing, API keys, one port, and models of one OpenAI-compatible provider.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pino } from "pino";
import { busyMeter, serveCommands } from "../harness/child.ts";
import { type Arguments, flagIn, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { createAgent } from "../../src/agent/index.ts";
import { createModels } from "../../src/agent/models/index.ts";
import { openGateway, openGround } from "../../src/node/open-gateway.ts";
import type { Machine } from "../../src/node/machine.ts";
import { type Gateway, GATEWAY_LIMITS, gatewayHttp } from "../../src/gateway/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { ApiKeys } from "../../src/server/api-keys.ts";
import { countedLog } from "../../src/server/counted-log.ts";
import { newServerCounters } from "../../src/server/counters.ts";
import { serveHttp } from "../../src/server/http/index.ts";
import type { Authenticate } from "../../src/server/http/sign-in.ts";
import { createServer } from "../../src/server/server.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/database.ts";
import { openSqliteStore } from "../../src/store/index.ts";
import { countTraffic } from "./database-traffic.ts";

/** How often a gateway whose clock is ahead looks for what is over. */
const SWEEP_SOON_MS = 200;

const HOME_KEY = new Uint8Array(32).fill(7);

const counters = newServerCounters();
const traffic = countTraffic();
let gateway: Gateway | undefined;
let tidy: () => Promise<void> = () => Promise.resolve();
let disk: () => Measured = () => ({});
let cleanUp: () => Promise<void> = () => Promise.resolve();
let isDurable = false;
let busy: (() => Measured) | undefined;
let before: Measured = {};

async function start(given: Arguments): Promise<Measured> {
  const directory = textIn(given, "directory");
  const aheadMs = numberIn(given, "aheadMs");
  const now = (): number => Date.now() + aheadMs;
  const logger = pino({ level: "warn" }, pino.destination({ dest: 2, sync: true }));
  const onBug = (bug: unknown): void => logger.error({ err: bug }, "bug");
  const store = await openSqliteStore(directory, {
    now,
    throughLog: (log) => countedLog(log, counters),
  });
  const models = createModels({
    providers: {
      local: {
        type: "openai-compatible",
        baseURL: `http://127.0.0.1:${numberIn(given, "providerPort")}/v1`,
      },
    },
    models: { default: "local/bench" },
    environment: {},
  });
  const machine = machineIn(directory, flagIn(given, "reuse"), now);
  const application = createAgent({ models, cacheBytesMax: numberIn(given, "cacheBytesMax") });
  const { streams, blobs } = store;
  tidy = () => streams.tidy(now());
  disk = () => inUse(join(directory, DATABASE_FILE));
  isDurable = streams.durability === "fsync";
  const server = createServer({
    store: streams,
    blobs,
    counters,
    sealing: nodeSealing(),
    application,
    onBug,
    ...(aheadMs === 0 ? {} : { sweepIntervalMs: SWEEP_SOON_MS }),
  });
  const opened = await openGateway({
    server,
    store,
    ground: await openGround({ models, dataDir: directory, machine, ...HERE_ONLY }),
    dataDir: directory,
    logger,
    machine,
    onNotice: () => undefined,
    openStreamsMax: GATEWAY_LIMITS.openStreamsMax,
    responseTtlMs: GATEWAY_LIMITS.responseTtlMs,
    sessionTtlMs: GATEWAY_LIMITS.sessionTtlMs,
    line: undefined,
  });
  gateway = opened.gateway;
  cleanUp = () => opened.gateway.cleanUp();
  const keys = new ApiKeys({
    tables: store.tables,
    now,
    environmentKey: textIn(given, "apiKey"),
  });
  const mounts = [gatewayHttp({ answers: gateway })];
  const http = await serveHttp({ server, logger, authenticate: signIn(keys), mounts, port: 0 });
  return { port: http.port };
}

/** No other server, and no files. */
const HERE_ONLY = { upstream: undefined, workspace: undefined } as const;

/** The one real API key is checked as always; others name their principal, where a row needs many. */
function signIn(keys: ApiKeys): Authenticate {
  return async (apiKey) => {
    if (apiKey?.startsWith("principal-") !== true) return keys.authenticate(apiKey);
    return { principal: apiKey, apiKeyId: apiKey, limits: undefined };
  };
}

/** Pages of the database that hold something; what is free is used again, or given back in an idle moment. */
function inUse(path: string): Measured {
  const database = new DatabaseSync(path, { readOnly: true });
  const pragma = (name: string): number => Number(database.prepare(`PRAGMA ${name}`).get()?.[name]);
  try {
    const pageBytes = pragma("page_size");
    const [pages, freePages] = [pragma("page_count"), pragma("freelist_count")];
    return { diskBytes: (pages - freePages) * pageBytes, fileBytes: pages * pageBytes };
  } finally {
    database.close();
  }
}

function machineIn(directory: string, isReusing: boolean, now: () => number): Machine {
  return {
    env: {
      HOLDFAST_SESSION_REUSE: isReusing ? "1" : "0",
      HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url"),
    },
    home: directory,
    platform: process.platform,
    now,
  };
}

/** Everything that was counted since the process began. */
function totals(): Measured {
  const fresh = [...(gateway?.counters.fresh.values() ?? [])].reduce((sum, count) => sum + count, 0);
  return {
    syncs: counters.appendSeconds.count,
    syncSeconds: counters.appendSeconds.sum,
    logBytes: counters.appendBytes.sum,
    fresh,
    continued: gateway?.counters.continuedTurns ?? 0,
    evicted: gateway?.counters.evicted ?? 0,
    expired: counters.expired,
    ...traffic(),
  };
}

serveCommands({
  start,
  count() {
    busy = busyMeter();
    before = totals();
    return {};
  },
  /** Since `count`. */
  counted() {
    const now = Object.entries(totals()).map(([name, value]) => [name, value - (before[name] ?? 0)] as const);
    const serverCpuMs = busy?.()["cpuMs"] ?? Number.NaN;
    return { ...Object.fromEntries(now), serverCpuMs, durable: isDurable ? 1 : 0 };
  },
  /** What a sweep does once streams have been quiet for a minute. */
  async tidy() {
    // The first call may only wait for a sweep of the server that was under way, and spares what is young.
    await tidy();
    await tidy();
    return {};
  },
  disk: () => disk(),
  /** What the gateway does once an hour. */
  async cleanUp() {
    await cleanUp();
    return {};
  },
  /** How many sessions wait for tool results. */
  parked() {
    const sessions = gateway?.sessions ?? [];
    return { parked: sessions.filter(({ state }) => state === "parked").length };
  },
});
