/**
 * A server that will be killed, and whose disk will be full: SQLite, HTTP, and the agent on the model of the simulation, at twenty times its pace.
 */
import { nodeSealing } from "../../src/sealing/node.ts";
import { serveHttp } from "../../src/server/http/index.ts";
import { createServer, LastingServer } from "../../src/server/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { openSqliteStore } from "../../src/store/sqlite/index.ts";
import { systemEnvironment } from "../../src/transport/index.ts";
import { createAgent } from "../../src/agent/index.ts";
import { wildModels } from "../simulation/wild-model.ts";
import { History } from "./history.ts";
import { PRINCIPAL, readSetup } from "./setup.ts";

const HASTE = 20;

const setup = readSetup();
const history = new History(setup.history);
const system = systemEnvironment();
const hurried = {
  env: { ...system, after: (delayMs: number, run: () => void) => system.after(delayMs / HASTE, run) },
  world: { seed: setup.seed },
};

const application = createAgent({ models: wildModels(hurried) });
const onBug = (bug: unknown): void =>
  history.add({ kind: "bug", what: bug instanceof Error ? (bug.stack ?? bug.message) : String(bug) });
const server = await LastingServer.open({
  open: async () => {
    const store = await openSqliteStore(setup.directory, { now: () => Date.now() });
    const standing = createServer({ store: store.streams, sealing: nodeSealing(), application, onBug });
    return { server: standing, failed: store.failed, close: () => store.close() };
  },
  // However long the disk is full on a busy machine: to give up is not what is looked at here.
  life: { pauseMs: 50, pauseFactor: 1, failuresMax: Number.MAX_SAFE_INTEGER },
  onNews: ({ kind }) => process.send?.({ store: kind }),
});
const http = await serveHttp({
  server,
  port: setup.port,
  authenticate: async (apiKey) => {
    if (apiKey !== setup.apiKey) throw new HoldfastError("unauthenticated", "that is not the API key");
    return { principal: PRINCIPAL };
  },
});
process.send?.({ port: http.port });

process.on("SIGTERM", () => {
  void (async () => {
    await http.close({ drainMs: 1_000 });
    await server.close();
    process.exit(0);
  })();
});
process.on("disconnect", () => process.exit(1));
