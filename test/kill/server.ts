/**
 * A server that will be killed: SQLite, HTTP and the agent of the simulation, at twenty times its pace.
 */
import { nodeSealing } from "../../src/sealing/node.ts";
import { serveHttp } from "../../src/server/http/index.ts";
import { createServer } from "../../src/server/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { openSqliteStore } from "../../src/store/sqlite/index.ts";
import { systemEnvironment } from "../../src/transport/index.ts";
import { simulatedAgent } from "../simulation/agent.ts";
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

const store = await openSqliteStore(setup.directory, { now: () => Date.now() });
const server = createServer({
  store: store.streams,
  sealing: nodeSealing(),
  application: simulatedAgent(hurried, { issued: () => undefined }),
  onBug: (bug) =>
    history.add({ kind: "bug", what: bug instanceof Error ? (bug.stack ?? bug.message) : String(bug) }),
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
    await store.close();
    process.exit(0);
  })();
});
process.on("disconnect", () => process.exit(1));
