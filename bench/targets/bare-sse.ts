/**
 * The limit over HTTP/1.1: a `node:http` server that writes events and does nothing else.
 */
import { createServer } from "node:http";
import { EVENT_BYTES, eventBody } from "../harness/body.ts";
import { serveCommands } from "../harness/child.ts";
import { listening } from "../harness/credit.ts";
import { Emission } from "./emission.ts";

const emission = new Emission();
const event = Buffer.from(`id: 123456\ndata: ${eventBody(EVENT_BYTES).toString("latin1")}\n\n`);

const server = createServer((_request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.flushHeaders();
  const remove = emission.add(() => response.write(event));
  response.on("close", remove);
});

serveCommands({
  ...emission.commands,
  async start() {
    return { port: await listening(server), creditPort: (await emission.listen()).port };
  },
});
