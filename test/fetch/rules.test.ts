/**
 * The rules of `holdfast/fetch`, against the real gateway: what it touches, which request is a retry, what stops an answer, and what ends a call.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type OutgoingHttpHeaders } from "node:http";
import { test, type TestContext } from "node:test";
import OpenAI, { APIConnectionError, APIUserAbortError, NotFoundError } from "openai";
import { holdfast } from "../../src/fetch/index.ts";
import { until } from "../e2e/rig.ts";
import { PacedModel } from "../gateway/paced-model.ts";
import { World } from "../gateway/world.ts";
import { ALICE_KEY } from "../server/http/rig.ts";

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
}

/** The global fetch, with what it was asked for. */
function watched(): { readonly fetch: typeof fetch; readonly sent: Sent[] } {
  const sent: Sent[] = [];
  return {
    sent,
    fetch: (input, init) => {
      const path = new URL(input instanceof Request ? input.url : input).pathname;
      sent.push({ method: init?.method ?? "GET", path, headers: new Headers(init?.headers) });
      return fetch(input, init);
    },
  };
}

const keysOf = (sent: readonly Sent[]): readonly (string | null)[] =>
  sent.filter(({ method }) => method === "POST").map(({ headers }) => headers.get("idempotency-key"));

function clientOf(world: World, via = watched(), more: object = {}) {
  const baseURL = `${world.url}/v1`;
  const given = holdfast({ baseURL, fetch: via.fetch, ...more });
  return { client: new OpenAI({ baseURL, apiKey: ALICE_KEY, fetch: given, maxRetries: 0 }), sent: via.sent };
}

const ASKED = { model: "paced/model", messages: [{ role: "user" as const, content: "Say" }] };

/** Says "One ", waits, and ends. */
function halting(): { readonly model: PacedModel; readonly letGo: () => void } {
  const gate = Promise.withResolvers<void>();
  return { model: new PacedModel(() => ["One ", () => gate.promise, "two."]), letGo: gate.resolve };
}

/** Says nothing until it may. */
function silent(): { readonly model: PacedModel; readonly letGo: () => void } {
  const gate = Promise.withResolvers<void>();
  return { model: new PacedModel(() => [() => gate.promise, "Yes."]), letGo: gate.resolve };
}

async function textOf(stream: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<string> {
  let text = "";
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
  return text;
}

const stops = (sent: readonly Sent[]): number => sent.filter(({ method }) => method === "DELETE").length;

async function foreign(t: TestContext) {
  const seen: Record<string, string | string[] | undefined>[] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers);
    response.setHeader("content-type", "application/json").end('{"choices":[]}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return { url: `http://127.0.0.1:${address.port}`, seen };
}

test("other servers, other paths, other methods and bodies that can be read once are the plain fetch, untouched", async (t) => {
  const { url, seen } = await foreign(t);
  const given = holdfast({ baseURL: `${url}/gateway/v1` });
  const chat = { method: "POST", body: "{}" };
  const asked: readonly (() => Promise<Response>)[] = [
    () => given(`${url}/v1/chat/completions`, chat),
    () => given(`${url}/gateway/v1/embeddings`, chat),
    () => given(`${url}/gateway/v1/chat/completions`),
    () =>
      given(`${url}/gateway/v1/chat/completions`, {
        method: "POST",
        body: new Blob(["{}"]).stream(),
        duplex: "half",
      }),
    () => given(new Request(`${url}/gateway/v1/chat/completions`, chat)),
  ];
  for (const ask of asked) assert.equal((await ask()).status, 200);
  const extra = seen.filter((headers) => "idempotency-key" in headers || "x-holdfast-patience" in headers);
  assert.deepEqual([seen.length, extra], [asked.length, []]);
  const known = await given(`${url}/gateway/v1/chat/completions`, {
    method: "POST",
    body: new TextEncoder().encode("{}"),
  });
  assert.deepEqual(await known.json(), { choices: [] });
  assert.equal(seen.at(-1)?.["x-holdfast-patience"], "300");
});

test("a gateway that was not named is known by its first answer, which is continued already", async (t) => {
  const { model, letGo } = halting();
  const world = await World.begin(t, model);
  const { fetch: via, sent } = watched();
  const given = holdfast({ fetch: via });
  const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: ALICE_KEY, fetch: given, maxRetries: 0 });
  const first = await client.chat.completions.create({ ...ASKED, stream: true });
  await until(() => world.gateway.readers === 1, "it is read");
  world.cable.cut();
  letGo();
  assert.equal(await textOf(first), "One two.");
  assert.deepEqual(keysOf(sent), [null]);
  await client.chat.completions.create(ASKED);
  assert.match(keysOf(sent)[1] ?? "", /^[0-9a-f]{32}$/);
  assert.equal(model.calls.length, 2);
});

test("killed in the middle of the text and started again, twice: one unbroken answer", async (t) => {
  const gates = [0, 1, 2].map(() => Promise.withResolvers<void>());
  const model = new PacedModel((_, calls) => [
    "One ",
    "two ",
    () => gates[calls - 1]?.promise ?? Promise.resolve(),
    "three.",
  ]);
  const world = await World.begin(t, model);
  const { client } = clientOf(world);
  const stream = await client.chat.completions.create({ ...ASKED, stream: true });
  const text = textOf(stream);
  await until(() => world.gateway.readers === 1, "it is read");
  for (const calls of [2, 3]) {
    await world.restart();
    await until(() => model.calls.length === calls, "its reader is back");
  }
  gates[2]?.resolve();
  assert.equal(await text, "One two three.");
});

test("leaving behind the first content stops the answer: by abort, by leaving the loop, by cancelling the body", async (t) => {
  const ways = ["abort", "break", "cancel"] as const;
  for (const way of ways) {
    const { model } = halting();
    const world = await World.begin(t, model);
    const { client, sent } = clientOf(world);
    if (way === "cancel") {
      const response = await client.chat.completions.create({ ...ASKED, stream: true }).asResponse();
      const reader = response.body?.getReader();
      for (let frames = 0; frames < 2; frames++) await reader?.read();
      await reader?.cancel();
    } else {
      const stream = await client.chat.completions.create({ ...ASKED, stream: true });
      for await (const { choices } of stream) {
        if (!choices[0]?.delta.content) continue;
        if (way === "break") break;
        stream.controller.abort();
      }
    }
    await until(() => world.gateway.sessions.length === 0, `${way}: it is stopped`);
    assert.deepEqual([stops(sent), model.calls[0]?.signal.aborted], [1, true], way);
    assert.equal(world.gateway.counters.abandoned, 0);
  }
});

test("Responses: leaving behind the first content stops the answer, under its key and by the path that resumes it", async (t) => {
  for (const hasKey of [true, false]) {
    const { model } = halting();
    const world = await World.begin(t, model);
    const via = watched();
    const { client, sent } = clientOf(world, via, hasKey ? {} : { baseURL: [] });
    const stream = await client.responses.create({ model: ASKED.model, input: "Say", stream: true });
    for await (const { type } of stream) if (type === "response.output_text.delta") break;
    await until(() => world.gateway.sessions.length === 0, "it is stopped");
    assert.deepEqual([stops(sent), model.calls[0]?.signal.aborted], [1, true]);
    const path = sent.find(({ method }) => method === "DELETE")?.path ?? "";
    assert.match(path, hasKey ? /^\/v1\/responses$/ : /^\/v1\/responses\/resp_/);
    assert.equal(world.gateway.counters.abandoned, 0);
  }
});

test("leaving before it only detaches: the same request again gets the same answer, and once that is whole, another one", async (t) => {
  for (const stream of [true, false]) {
    const { model, letGo } = silent();
    const world = await World.begin(t, model, { httpLimits: { headHeldMs: 20, heartbeatMs: 20 } });
    const { client, sent } = clientOf(world);
    const ask = (): Promise<string> =>
      stream
        ? client.chat.completions.create({ ...ASKED, stream }).then(textOf)
        : client.chat.completions
            .create({ ...ASKED, stream })
            .then(({ choices }) => choices[0]?.message.content ?? "");
    const late = new AbortController();
    const left = client.chat.completions.create({ ...ASKED, stream }, { signal: late.signal });
    await until(() => model.calls.length === 1, "the model is asked");
    if (stream) await left;
    late.abort();
    if (!stream) await assert.rejects(left, APIUserAbortError);
    await until(() => world.gateway.readers === 0, "its reader is gone");
    letGo();
    assert.equal(await ask(), "Yes.");
    assert.deepEqual([model.calls.length, stops(sent)], [1, 0]);
    assert.equal(await ask(), "Yes.");
    assert.equal(model.calls.length, 2);
    const [first, second, third] = keysOf(sent);
    assert.ok(
      first === second && third !== second,
      "the retry has the key of what was left, the sample its own",
    );
  }
});

test("a user who stops and asks the same again gets another answer", async (t) => {
  const { model, letGo } = halting();
  const world = await World.begin(t, model);
  const { client } = clientOf(world);
  for await (const { choices } of await client.chat.completions.create({ ...ASKED, stream: true }))
    if (choices[0]?.delta.content) break;
  letGo();
  assert.equal(await textOf(await client.chat.completions.create({ ...ASKED, stream: true })), "One two.");
  assert.equal(model.calls.length, 2);
});

test("two identical calls at once are two answers; one after the other as well", async (t) => {
  const { model, letGo } = halting();
  const world = await World.begin(t, model);
  const { client, sent } = clientOf(world);
  const both = [0, 1].map(async () =>
    textOf(await client.chat.completions.create({ ...ASKED, stream: true })),
  );
  await until(() => model.calls.length === 2, "both are asked");
  world.cable.cut();
  letGo();
  assert.deepEqual(await Promise.all(both), ["One two.", "One two."]);
  assert.equal(new Set(keysOf(sent)).size, 2);
  await client.chat.completions.create(ASKED);
  assert.equal(model.calls.length, 3);
});

test("a key of the caller's own is kept", async (t) => {
  const { model, letGo } = halting();
  letGo();
  const world = await World.begin(t, model);
  const { client, sent } = clientOf(world);
  const headers = { "Idempotency-Key": "mine" };
  for (let count = 0; count < 2; count++)
    assert.equal(
      await textOf(await client.chat.completions.create({ ...ASKED, stream: true }, { headers })),
      "One two.",
    );
  assert.deepEqual([keysOf(sent), model.calls.length], [["mine", "mine"], 1]);
});

test("a refusal is the SDK's to raise, once; so is an error in the middle, with the words of the gateway", async (t) => {
  const { model } = halting();
  const world = await World.begin(t, model);
  const { client, sent } = clientOf(world);
  await assert.rejects(client.chat.completions.create({ ...ASKED, model: "no/such" }), NotFoundError);
  assert.equal(sent.length, 1);
  const stream = await client.chat.completions.create({ ...ASKED, stream: true });
  const [session] = world.gateway.sessions;
  await fetch(`${world.url}/v1/streams/${session?.answer.streamId}`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${ALICE_KEY}` },
  });
  await assert.rejects(textOf(stream), /the answer was stopped/);
  assert.deepEqual(
    sent.map(({ method }) => method),
    ["POST", "POST"],
  );
});

test("an answer that is gone ends the call with the gateway's refusal; one that cannot be reached, when patience is over", async (t) => {
  const { model } = halting();
  const world = await World.begin(t, model);
  const gone = clientOf(world);
  const stream = await gone.client.chat.completions.create({ ...ASKED, stream: true });
  world.cable.unplug();
  const lost = textOf(stream);
  const { answer } = world.gateway.sessions[0] ?? {};
  await fetch(`http://127.0.0.1:${world.port}/v1/streams/${answer?.streamId}`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${ALICE_KEY}` },
  });
  world.cable.target = world.port;
  await assert.rejects(lost, /the answer was stopped/);
  const impatient = clientOf(world, watched(), { patienceSeconds: 0.2 });
  const unreached = await impatient.client.chat.completions.create({ ...ASKED, stream: true });
  world.cable.unplug();
  await assert.rejects(textOf(unreached), TypeError);
  await assert.rejects(impatient.client.chat.completions.create(ASKED), APIConnectionError);
  assert.throws(() => holdfast({ patienceSeconds: 0 }), TypeError);
});

test("a stop that meets a server that is being started is said again, and nothing is generated for it", async (t) => {
  const { model } = halting();
  const world = await World.begin(t, model);
  const { client, sent } = clientOf(world);
  const stream = await client.chat.completions.create({ ...ASKED, stream: true });
  let text = "";
  const read = async (): Promise<void> => {
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
  };
  const words = read();
  await until(() => text === "One ", "its first words are read");
  world.cable.unplug();
  stream.controller.abort();
  await words;
  await until(() => stops(sent) >= 2, "it is said again");
  await world.restart();
  await until(() => world.gateway.sessions.length === 0, "it is stopped");
  assert.equal(model.calls.length, 1);
});

test("retry-after is kept to, in seconds and in milliseconds; one that is longer than the patience ends the call at once", async (t) => {
  const refusals: OutgoingHttpHeaders[] = [];
  let asked = 0;
  const busy = createServer((_, response) => {
    asked++;
    const headers = refusals.shift();
    const error = { message: "later", type: "server_error", code: "overloaded" };
    if (headers !== undefined) response.writeHead(503, headers).end(JSON.stringify({ error }));
    else response.writeHead(200, { "x-holdfast-stream": "s" }).end("{}");
  }).listen(0, "127.0.0.1");
  await once(busy, "listening");
  t.after(() => busy.close());
  const address = busy.address();
  assert.ok(typeof address === "object" && address !== null);
  const baseURL = `http://127.0.0.1:${address.port}/v1`;
  const given = holdfast({ baseURL, patienceSeconds: 60 });
  const ask = async (...headers: readonly OutgoingHttpHeaders[]): Promise<readonly number[]> => {
    asked = 0;
    refusals.splice(0, Infinity, ...headers);
    const { status } = await given(`${baseURL}/chat/completions`, { method: "POST", body: "{}" });
    return [status, asked];
  };
  assert.deepEqual(await ask({ "retry-after": "0" }, { "retry-after-ms": "1" }, {}), [200, 4]);
  // Within the patience they would be waited for, and the next answer is 200.
  assert.deepEqual(await ask({ "retry-after": "61" }), [503, 1]);
  assert.deepEqual(await ask({ "retry-after-ms": "61000" }), [503, 1]);
});
