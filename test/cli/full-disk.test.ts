/**
 * `holdfast serve` on a disk that is full for a while: the same process, its clients and its gateway go on afterwards.
 */
import assert from "node:assert/strict";
import { openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Client, type ClientStream, type StreamEvent } from "../../src/client/index.ts";
import { retry } from "../../src/core/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { openSqliteStore } from "../../src/store/index.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import { Cli, type Running } from "./cli-process.ts";
import { fillDisk, makeRoom, obstacle } from "../kill/full-disk.ts";
import { userMessage, wordOf } from "./rehearsal-messages.ts";

const skip = obstacle() ?? false;
const PATIENCE_MS = 120_000;
/** A server ends behind three tries to open its store: a test that gets no processor for a second must not meet that. */
const PAUSE_MS = 3_000;
const HOME_KEY = new Uint8Array(32).fill(9);

/** A server that opens its store anew after so long. */
async function serveWith(t: TestContext, storePauseMs: number): Promise<{ cli: Cli; server: Running }> {
  const cli = new Cli(t, { patienceMs: 2 * PATIENCE_MS });
  writeFileSync(join(cli.home, "holdfast.config.json"), JSON.stringify({ storePauseMs }));
  return { cli, server: await cli.serve() };
}

async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const beganMs = Date.now(); !(await isSo());) {
    assert.ok(Date.now() - beganMs < PATIENCE_MS, `it never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const says = (server: Running, line: string): Promise<void> =>
  until(() => server.stderr().includes(line), line);

function connected(t: TestContext, { url, apiKey }: Running): Client {
  const transport = http2Connect({ url });
  const client = new Client<Uint8Array>({
    connect: transport.connect,
    sealing: nodeSealing(),
    homeKey: HOME_KEY,
    credentials: () => Promise.resolve(apiKey),
    stream: { retry: { ...retry.DEFAULTS, baseMs: 20, capMs: 100, budget: { burst: 10_000, refillMs: 1 } } },
  });
  t.after(async () => {
    await client.close();
    transport.close();
  });
  return client;
}

async function chat({ url, apiKey }: Running, content: string, more: object = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "rehearsal/rehearsal", messages: [{ role: "user", content }], ...more }),
  });
}

/** Reads up to an event. */
async function readTo(stream: ClientStream, eventId: number): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const event of stream.events) {
    events.push(event);
    if (event.eventId >= eventId) break;
  }
  return events;
}

test(
  "F5: when a full disk has room again, the same process opens its store, and every client goes on",
  { skip },
  async (t) => {
    const { cli, server } = await serveWith(t, PAUSE_MS);
    const client = connected(t, server);
    const stream = await client.open({ first: userMessage("count to 200 every 10 ms") });
    const events = await readTo(stream, 20);
    fillDisk(server.pid);
    await says(server, "the store failed");
    const refused = await chat(server, "say hello");
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get("retry-after"), "5");
    assert.match(await refused.text(), /store is down and is being opened anew; try again/);
    assert.equal((await fetch(`${server.url}/ready`)).status, 503);
    assert.equal((await fetch(`${server.url}/health`)).status, 200, "there is hope yet");
    makeRoom(server.pid);
    await says(server, "the store is back");
    assert.match(
      server.stderr(),
      new RegExp(`"level":40.*"store":"${join(cli.dataDir, "holdfast.db")}".*the store failed`),
    );
    await until(async () => (await fetch(`${server.url}/ready`)).status === 200, "it is ready");
    const answered = await chat(server, "say hello");
    assert.equal(answered.status, 200);
    assert.match(await answered.text(), /"content":"hello/);
    for await (const event of stream.events) events.push(event);
    assert.equal(wordOf(events.at(-1)?.body ?? new Uint8Array()), "turnEnded 1");
    server.signal("SIGTERM");
    assert.equal((await server.exit).code, 0, "it is the process that was started");
    await assertKept(cli, stream, events);
  },
);

/** What the client was told is on the disk: the same events, under the same numbers. */
async function assertKept(cli: Cli, stream: ClientStream, events: readonly StreamEvent[]): Promise<void> {
  const store = await openSqliteStore(cli.dataDir, { now: Date.now });
  try {
    const name = { principal: "default", idempotencyKey: stream.idempotencyKey };
    const found = await store.streams.load(name);
    assert.ok(found.kind === "live");
    assert.equal(found.state.eventHead, events.at(-1)?.eventId);
    assert.ok(found.state.hostEpoch > 1, "the stream was claimed anew");
  } finally {
    await store.close();
  }
}

test(
  "F5: a store that cannot be opened three times in a row ends the process with exit code 75",
  { skip },
  async (t) => {
    const { server } = await serveWith(t, 20);
    fillDisk(server.pid);
    await chat(server, "say hello");
    const { code, stderr } = await server.exit;
    assert.equal(code, 75);
    assert.equal(stderr.match(/"level":40.*could not be opened anew/g)?.length, 3);
    assert.match(stderr, /"level":50.*holdfast\.db.*ends with exit code 75/);
    assert.match(stderr, /^holdfast: the store could not be reopened: .* start the server again/m);
  },
);

test("a server that is stopped while its store is down ends in good order", { skip }, async (t) => {
  const { server } = await serveWith(t, 600_000);
  const client = connected(t, server);
  const stream = await client.open({ first: userMessage("count to 200 every 10 ms") });
  await readTo(stream, 5);
  fillDisk(server.pid);
  await says(server, "the store failed");
  server.signal("SIGTERM");
  const { code, stderr } = await server.exit;
  assert.equal(code, 0);
  assert.match(stderr, /Stopped\. Nothing acknowledged is lost\.\n$/);
});

test(
  "D5: a stream that was opened without a store runs to its end beside the store that is back",
  { skip },
  async (t) => {
    const { server } = await serveWith(t, PAUSE_MS);
    const client = connected(t, server);
    await (
      await client.open({ first: userMessage("say hello") })
    ).ended;
    fillDisk(server.pid);
    await chat(server, "say hello");
    await says(server, "the store failed");
    const degraded = await client.open({ first: userMessage("count to 200 every 40 ms") });
    await readTo(degraded, 0);
    assert.equal(degraded.status.durability, "none");
    makeRoom(server.pid);
    await says(server, "the store is back");
    const lasting = await client.open({ first: userMessage("say hello") });
    await lasting.ended;
    assert.equal(lasting.status.durability, "fsync");
    const words: string[] = [];
    for await (const { body } of degraded.events) words.push(wordOf(body));
    assert.equal(words.at(-1), "turnEnded 1");
    assert.equal(await degraded.ended, "completed");
  },
);

test("a log on a full disk ends no server: the lines wait for room", { skip }, async (t) => {
  const cli = new Cli(t);
  const path = join(cli.home, "server.log");
  const server = await cli.serve(["--log-level", "info"], {}, openSync(path, "w", 0o600));
  fillDisk(server.pid);
  for (let times = 0; times < 3; times++) assert.equal((await fetch(`${server.url}/nowhere`)).status, 404);
  makeRoom(server.pid);
  server.signal("SIGTERM");
  assert.equal((await server.exit).code, 0);
  const lines = readFileSync(path, "utf8").split("\n");
  assert.equal(lines.filter((line) => line.includes('"kind":"other"')).length, 3);
});

test(
  "an OpenAI answer that a full disk cut off says to ask again, and the same request gets it whole",
  {
    skip,
  },
  async (t) => {
    const { server } = await serveWith(t, PAUSE_MS);
    const request = "count to 100 every 20 ms";
    const cut = await chat(server, request, { stream: true });
    assert.equal(cut.status, 200);
    fillDisk(server.pid);
    const told = await cut.text();
    assert.match(told, /"error":\{"message":"[^"]*again/);
    assert.doesNotMatch(told, /\[DONE\]/);
    makeRoom(server.pid);
    await says(server, "the store is back");
    const whole = await chat(server, request, { stream: true });
    const body = await whole.text();
    const numbers = [...body.matchAll(/"content":"(?<numbers>[\d ]+)"/g)].map((found) => found[1]);
    const expected = Array.from({ length: 100 }, (_, at) => at + 1);
    assert.deepEqual(numbers.join("").trim().split(" ").map(Number), expected);
    assert.equal(whole.headers.get("x-holdfast-stream"), cut.headers.get("x-holdfast-stream"));
    assert.doesNotMatch(server.stderr(), /made a mistake|failed assertion/);
  },
);
