/**
 * The limit over HTTP/2: a `node:http2` server that writes the bytes of Holdfast's events and does nothing
 * else.
 */
import { createServer } from "node:http2";
import { encodeServerFrame } from "../../src/protocol/frame-codec.ts";
import { eventBody } from "../harness/body.ts";
import { serveCommands } from "../harness/child.ts";
import { listening } from "../harness/credit.ts";
import { Emission } from "./emission.ts";

const emission = new Emission();
const message = encodeServerFrame({
  kind: "event",
  eventId: 123_456,
  body: eventBody(),
  end: undefined,
});
const event = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);

const server = createServer({
  peerMaxConcurrentStreams: 100_000,
  settings: { maxConcurrentStreams: 100_000 },
});
server.on("stream", (stream) => {
  stream.on("error", () => undefined);
  stream.respond({ ":status": 200, "content-type": "application/connect+proto" });
  const remove = emission.add(() => stream.write(event));
  stream.on("close", remove);
});
server.on("sessionError", () => undefined);

serveCommands({
  ...emission.commands,
  async start() {
    return { port: await listening(server), creditPort: (await emission.listen()).port };
  },
});
