/**
 * A connection that is dead without a word: nothing breaks, and nothing comes. `holdfast/fetch` knows it by the heartbeats of its gateway, which stay away.
 *
 * Its timers are the test's; those of the `fetch` below it must not be.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import { httpFetch } from "../../src/agent/models/upstream/http-fetch.ts";
import { SILENCE_MS } from "../../src/fetch/call.ts";
import { holdfast } from "../../src/fetch/index.ts";
import { portOf } from "../agent/models/providers/server.ts";

const TEXT = JSON.stringify({ model: "m", messages: [], stream: true });
const FRAMES = ["One ", "two."].map(
  (content, at) => `id: ${at}\ndata: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`,
);
const HEAD = {
  "content-type": "text/event-stream",
  "x-holdfast-stream": "s",
  "x-holdfast-resume": "/v1/streams/s",
};

interface Sent {
  readonly how: string;
  readonly key: unknown;
  readonly behind: unknown;
}

/** A gateway whose first response is what `first` makes of it, and which says the rest to whoever asks again. */
async function gateway(t: TestContext, first: (response: ServerResponse) => void) {
  const sent: Sent[] = [];
  const server = createServer(({ method, url, headers }, response) => {
    const { "idempotency-key": key, "last-event-id": behind } = headers;
    sent.push({ how: `${method} ${url}`, key, behind });
    if (sent.length === 1) return first(response);
    response
      .writeHead(200, HEAD)
      .end(`${FRAMES.slice(behind === undefined ? 0 : 1).join("")}data: [DONE]\n\n`);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { sent, baseURL: `http://127.0.0.1:${portOf(server)}/v1` };
}

async function pass(t: TestContext, ms: number): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await turnOfTheLoop();
  t.mock.timers.tick(ms);
  for (let turn = 0; turn < 5; turn++) await turnOfTheLoop();
}

const POST = "POST /v1/chat/completions";

for (const [name, body] of [
  ["text", TEXT],
  ["bytes", new TextEncoder().encode(TEXT)],
] as const) {
  test(`a streamed request as ${name}: a connection that says nothing before its head for 45 s is dead, and so is one that stops behind a frame`, async (t) => {
    for (const isBegun of [false, true]) {
      const { sent, baseURL } = await gateway(
        t,
        (response) => void (isBegun && response.writeHead(200, HEAD).write(FRAMES[0])),
      );
      t.mock.timers.enable({ apis: ["setTimeout"] });
      const answer = holdfast({ baseURL, fetch: httpFetch })(`${baseURL}/chat/completions`, {
        method: "POST",
        body,
      });
      const read = answer.then((response) => response.text());
      while (sent.length === 0) await turnOfTheLoop();
      if (isBegun) await answer;
      await pass(t, SILENCE_MS - 1);
      assert.equal(sent.length, 1, "it may still come");
      for (let tries = 0; sent.length === 1; tries++) {
        assert.ok(tries < 100, "it asks again");
        await pass(t, 100);
      }
      t.mock.timers.reset();
      assert.equal(await read, `${FRAMES.join("")}data: [DONE]\n\n`);
      const [{ key } = { key: undefined }] = sent;
      assert.deepEqual(sent.slice(1), [
        isBegun
          ? { how: "GET /v1/streams/s", key: undefined, behind: "0" }
          : { how: POST, key, behind: undefined },
      ]);
    }
  });
}

test("a request that is not streamed is waited for: its gateway says nothing until the answer is whole", async (t) => {
  let response: ServerResponse | undefined;
  const { sent, baseURL } = await gateway(t, (given) => (response = given));
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const answer = holdfast({ baseURL, fetch: httpFetch })(`${baseURL}/chat/completions`, {
    method: "POST",
    body: "{}",
  });
  while (sent.length === 0) await turnOfTheLoop();
  for (let count = 0; count < 5; count++) await pass(t, SILENCE_MS);
  response?.writeHead(200, { "x-holdfast-stream": "s" }).end("{}");
  assert.equal(await (await answer).text(), "{}");
  assert.equal(sent.length, 1);
});
