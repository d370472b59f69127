import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, type StreamEvent } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import { upTo } from "../e2e/rig.ts";
import { Cli } from "./cli-process.ts";
import { userMessage, wordOf } from "./demo-messages.ts";

test("B1: a server killed in the middle of counting goes on with the next number", async (t) => {
  const cli = new Cli(t);
  let server = await cli.serve();
  const { apiKey, url } = server;
  const transport = http2Connect({ url });
  const client = new Client({
    connect: transport.connect,
    sealing: nodeSealing(),
    homeKey: Buffer.alloc(32, 9),
    credentials: () => Promise.resolve(apiKey),
    stream: { retry: { ...retry.DEFAULTS, baseMs: 20, capMs: 100, budget: { burst: 1_000, refillMs: 1 } } },
  });
  t.after(async () => {
    await client.close();
    transport.close();
  });
  const stream = await client.open({ first: userMessage("count to 60 every 5 ms") });
  const events: StreamEvent[] = [];
  const stops: { afterEvent: number; signal: NodeJS.Signals }[] = [
    { afterEvent: 20, signal: "SIGKILL" },
    { afterEvent: 40, signal: "SIGTERM" },
  ];
  for await (const event of stream.events) {
    events.push(event);
    const next = stops[0];
    // An event that came by replay may stand for several, so the exact one may never be seen.
    if (next === undefined || event.eventId < next.afterEvent) continue;
    stops.shift();
    server.signal(next.signal);
    await server.exit;
    server = await cli.serve(["--port", new URL(url).port]);
  }
  const words = events.map(({ body }) => wordOf(body)).join("");
  const numbers = upTo(60).map((number) => `${number} `);
  assert.equal(words, ["stepStarted", ...numbers, "stepCompleted", "turnEnded 1"].join(""));
  assert.equal(events.at(-1)?.eventId, 63);
  assert.deepEqual(stops, []);
});
