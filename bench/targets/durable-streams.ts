/**
 * The Durable Streams reference server for Node, file-backed: each append is written and synced before it
 * is answered, as it does by default.
 */
import { DurableStreamTestServer } from "@durable-streams/server";
import { serveCommands } from "../harness/child.ts";
import { textIn } from "../harness/numbers.ts";

serveCommands({
  async start(given) {
    const server = new DurableStreamTestServer({ port: 0, dataDir: textIn(given, "directory") });
    return { port: Number(new URL(await server.start()).port) };
  },
});
