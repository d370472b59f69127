import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "../../src/protocol/message.ts";
import { Client, type StreamEvent } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { AgentServerMessageSchema } from "../../src/protocol/messages.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import { upTo } from "../e2e/rig.ts";
import { Cli } from "./cli-process.ts";
import { userMessage, wordOf } from "./rehearsal-messages.ts";

test("C0: a server killed and stopped in mid-answer, six times: the native client gets every word once, and nothing is taken back", async (t) => {
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
  // Slow enough that a busy machine stops the server before the answer has ended.
  const stream = await client.open({ first: userMessage("count to 60 every 40 ms") });
  const events: StreamEvent[] = [];
  const stops: { afterEvent: number; signal: NodeJS.Signals }[] = [
    { afterEvent: 5, signal: "SIGKILL" },
    { afterEvent: 12, signal: "SIGTERM" },
    { afterEvent: 20, signal: "SIGKILL" },
    { afterEvent: 28, signal: "SIGKILL" },
    { afterEvent: 36, signal: "SIGKILL" },
    { afterEvent: 44, signal: "SIGKILL" },
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
  const numbers = upTo(60).map((number) => `${number} `);
  assert.equal(textOf(events), numbers.join(""), "the words of all events, none left out");
  const words = new Set(events.map(({ body }) => wordOf(body)));
  for (const again of ["stepRestarted", "stepContinued"]) assert.ok(!words.has(again), again);
  assert.equal(wordOf(events.at(-1)?.body ?? new Uint8Array()), "turnEnded 1");
  assert.deepEqual(stops, []);
});

function textOf(events: readonly StreamEvent[]): string {
  const texts = events.map(({ body }) => {
    const { message } = fromBinary(AgentServerMessageSchema, body);
    const update = message.case === "interactionUpdate" ? message.value.message : undefined;
    return update?.case === "textDelta" ? update.value.text : "";
  });
  return texts.join("");
}
