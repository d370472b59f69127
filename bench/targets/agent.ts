/**
 * Holdfast with its agent, as `holdfast serve` puts it together: SQLite, sealing, HTTP, and models of one
 * OpenAI-compatible provider. It counts what a turn costs.
 */
import { busyMeter, serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { createAgent } from "../../src/agent/index.ts";
import { createModels } from "../../src/agent/models/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { countedLog } from "../../src/server/counted-log.ts";
import { newServerCounters } from "../../src/server/counters.ts";
import { serveHttp } from "../../src/server/http/index.ts";
import type { Authenticate } from "../../src/server/http/sign-in.ts";
import { createServer } from "../../src/server/server.ts";
import { openSqliteStore } from "../../src/store/index.ts";

const counters = newServerCounters();
let busy: (() => Measured) | undefined;
let before: Measured = totals();

async function start(given: Arguments): Promise<Measured> {
  const store = await openSqliteStore(textIn(given, "directory"), {
    now: Date.now,
    throughLog: (log) => countedLog(log, counters),
  });
  const baseURL = `http://127.0.0.1:${numberIn(given, "providerPort")}/v1`;
  const models = createModels({
    providers: { local: { type: "openai-compatible", baseURL } },
    models: { default: "local/bench" },
    environment: {},
  });
  const { streams, blobs } = store;
  const application = createAgent({ models });
  const server = createServer({ store: streams, blobs, counters, sealing: nodeSealing(), application });
  const authenticate: Authenticate = async (apiKey) => {
    if (apiKey === undefined) throw new HoldfastError("unauthenticated", "an API key is needed");
    return { principal: apiKey };
  };
  const port = "port" in given ? numberIn(given, "port") : 0;
  return { port: (await serveHttp({ server, authenticate, port })).port };
}

/** Everything that was counted since the process began. */
function totals(): Measured {
  return {
    events: counters.eventsCommitted,
    chunks: counters.chunksCommitted,
    syncs: counters.appendSeconds.count,
    syncSeconds: counters.appendSeconds.sum,
    logBytes: counters.appendBytes.sum,
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
    return { ...Object.fromEntries(now), serverCpuMs: busy?.()["cpuMs"] ?? Number.NaN };
  },
});
