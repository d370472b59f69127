/** Requests that are no conversation: to the model's provider and back, or refused by name. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { test } from "node:test";
import OpenAI, { toFile } from "openai";
import { createModels } from "../../../src/agent/models/index.ts";
import { serverSide } from "../../../src/node/provider-side.ts";
import { PASSED_LIMITS } from "../../../src/gateway/passed/passed-limits.ts";
import { until } from "../../e2e/rig.ts";
import {
  ALICE_KEY,
  type Answer,
  ask,
  bearer,
  BOB_KEY,
  bodyOf,
  type HttpRig,
  type Version,
  VERSIONS,
} from "../../server/http/rig.ts";
import { errorOf, JSON_TYPE } from "../http/gateway-rig.ts";
import { modelsAt, PROVIDER_KEY, RawProvider, type Reply, says, startPassing } from "./passed-rig.ts";

const EMBEDDINGS = "/v1/embeddings";
const VECTORS = '{"object":"list","data":[{"embedding":[0.1,-0.2]}],"model":"small"}';

function send(
  rig: HttpRig,
  body: string | Uint8Array,
  {
    path = EMBEDDINGS,
    version = 1,
    headers = {},
  }: { path?: string; version?: Version; headers?: Record<string, string> } = {},
): Promise<Answer> {
  return ask(rig, version, {
    method: "POST",
    path,
    body,
    headers: { ...bearer(ALICE_KEY), ...JSON_TYPE, ...headers },
  });
}

const answerTo = (asked: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => asked.once("response", resolve).once("error", reject));

for (const version of VERSIONS) {
  test(`over HTTP/${version} a body goes up as it is but for the model's name, and few headers cross`, async (t) => {
    const told = {
      "x-ratelimit-remaining-requests": "59",
      "set-cookie": "a=b",
      "x-secret": "s",
      "openai-version": "1",
    };
    const provider = await RawProvider.start(t, says(VECTORS, told));
    const rig = await startPassing(t, modelsAt(`${provider.origin}/v1/`));
    const body =
      '{ "input": ["a", {"model":"no"}], "n":12345678901234567890,\n"model" : "lab/small" ,"user":"u"}';
    const answer = await send(rig, body, {
      version,
      headers: { cookie: "c=d", "openai-organization": "org" },
    });
    assert.deepEqual([answer.status, answer.body.toString()], [200, VECTORS]);
    const [received] = provider.received;
    assert.ok(received !== undefined);
    assert.equal(received.path, EMBEDDINGS);
    assert.equal(received.body.toString(), body.replace('"lab/small"', '"small"'));
    assert.equal(received.headers.authorization, `Bearer ${PROVIDER_KEY}`);
    for (const name of ["cookie", "openai-organization", "x-api-key"])
      assert.equal(received.headers[name], undefined, name);
    assert.doesNotMatch(JSON.stringify(received.headers), new RegExp(ALICE_KEY));
    assert.equal(answer.headers["x-ratelimit-remaining-requests"], "59");
    assert.equal(answer.headers["openai-version"], "1");
    assert.deepEqual([answer.headers["set-cookie"], answer.headers["x-secret"]], [undefined, undefined]);
  });
}

test("a form's model is found behind its file, and the file arrives to the byte", async (t) => {
  const provider = await RawProvider.start(t, says('{"text":"fog"}'));
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`));
  const file = Buffer.from(Array.from({ length: 300_000 }, (_, at) => (at * 7 + (at >> 8)) % 256));
  const form = new FormData();
  form.append("file", new Blob([file], { type: "audio/wav" }), "a.wav");
  form.append("model", "lab/whisper");
  form.append("language", "en");
  const body = new Request("http://a.example", { method: "POST", body: form });
  const type = body.headers.get("content-type") ?? "";
  const bytes = Buffer.from(await body.arrayBuffer());
  const path = "/v1/audio/transcriptions";
  const answer = await send(rig, bytes, { path, headers: { "content-type": type } });
  assert.equal(answer.body.toString(), '{"text":"fog"}');
  const [received] = provider.received;
  assert.ok(received !== undefined);
  const expected = Buffer.from(bytes.toString("latin1").replace("lab/whisper", "whisper"), "latin1");
  assert.ok(received.body.equals(expected));
  assert.equal(Number(received.headers["content-length"]), received.body.length);
});

test("both bodies are streams: the provider has the beginning before the end was sent, and so has the client", async (t) => {
  const goOn = Promise.withResolvers<void>();
  const reply: Reply = async (response) => {
    response.writeHead(200, { "content-type": "audio/mpeg" });
    response.write("first ");
    await goOn.promise;
    response.end("last");
  };
  const provider = await RawProvider.start(t, reply);
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`));
  const asked = request({
    host: "127.0.0.1",
    port: rig.http.port,
    method: "POST",
    path: "/v1/audio/speech",
    headers: { ...bearer(ALICE_KEY), ...JSON_TYPE },
  });
  asked.write('{"model":"lab/voice","input":"Hel');
  await until(() => provider.received[0]?.body.toString() === '{"model":"voice","input":"Hel', "it goes up");
  asked.end('lo"}');
  const response = await answerTo(asked);
  const came: Buffer[] = [];
  response.on("data", (piece: Buffer) => came.push(piece));
  await until(() => Buffer.concat(came).toString() === "first ", "it comes down");
  goOn.resolve();
  await once(response, "end");
  assert.equal(Buffer.concat(came).toString(), "first last");
});

test("a refusal stays the JSON that it was: only what is long enough for a secret is taken out of it", async (t) => {
  const refusal = '{"error":{"message":"no vector of 1 word","code":1}}';
  const provider = await RawProvider.start(t, (response) => {
    response.writeHead(400, { "content-type": "application/json" }).end(refusal);
  });
  const lab = {
    type: "openai-compatible",
    baseURL: `${provider.origin}/v1`,
    headers: { "x-tier": "1" },
  } as const;
  const rig = await startPassing(t, createModels({ providers: { lab }, environment: {} }));
  const answer = await send(rig, '{"model":"lab/small","input":"a"}');
  assert.deepEqual([answer.status, answer.body.toString()], [400, refusal]);
});

test("what no provider can do is refused by the route's name, with what to do", async (t) => {
  const none = createModels({ environment: {} });
  const anthropic = modelsAt("http://127.0.0.1:1/v1", "anthropic");
  const keyless = createModels({
    providers: { lab: { type: "openai-compatible", baseURL: "http://127.0.0.1:1/v1", apiKeyEnv: "LAB_KEY" } },
    environment: {},
  });
  const two = createModels({ environment: { OPENAI_API_KEY: "a", ANTHROPIC_API_KEY: "b" } });
  for (const [models, name, words] of [
    [none, "small", /No provider is configured: set OPENAI_API_KEY/],
    [none, "rehearsal/rehearsal", /No provider is configured/],
    [anthropic, "lab/small", /lab speaks anthropic, which has no such API/],
    [keyless, "lab/small", /LAB_KEY/],
    [two, "small", /name it as provider\/model/],
  ] as const) {
    const rig = await startPassing(t, models);
    const answer = await send(rig, JSON.stringify({ model: name, input: "a" }));
    assert.equal(answer.status, 404);
    const { code, type, message } = errorOf(answer);
    assert.deepEqual([code, type], ["route_not_served", "invalid_request_error"]);
    assert.match(String(message), /^POST \/v1\/embeddings is passed on/);
    assert.match(String(message), words);
  }
});

test("routes are closed: other paths and methods are refused", async (t) => {
  const provider = await RawProvider.start(t, says("{}"));
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`));
  for (const path of [
    "/v1/files",
    "/v1/audio/",
    "/v1/images/../files",
    "/v1/images/%2e%2e",
    "/v1/embeddings/x",
  ])
    assert.equal((await send(rig, '{"model":"lab/a"}', { path })).status, 404, path);
  const read = await ask(rig, 1, { path: EMBEDDINGS, headers: bearer(ALICE_KEY) });
  assert.deepEqual([read.status, read.headers["allow"]], [405, "POST"]);
  assert.equal((await ask(rig, 1, { method: "POST", path: EMBEDDINGS, body: "{}" })).status, 401);
  assert.equal(provider.received.length, 0);
});

test("an API key reaches its own models only, at its own rate", async (t) => {
  const provider = await RawProvider.start(t, says(VECTORS));
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`), {
    limits: { models: ["lab/small"], ratePerMinute: 2 },
  });
  const codeOf = async (body: string): Promise<unknown> => errorOf(await send(rig, body)).code;
  assert.equal((await send(rig, '{"model":"small"}')).status, 200);
  assert.equal(await codeOf('{"model":"lab/large"}'), "model_not_found");
  assert.equal(await codeOf('{"model":"lab/small"}'), "rate_limit_exceeded");
  assert.equal(provider.received.length, 1);
});

test("a second model does not get around what an API key may use, also when the first is on its way", async (t) => {
  const provider = await RawProvider.start(t, says(VECTORS));
  const limits = { models: ["lab/small"] };
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`), { limits });
  for (const second of ["model", "mod\\u0065l", "Model"]) {
    const asked = request({
      host: "127.0.0.1",
      port: rig.http.port,
      method: "POST",
      path: EMBEDDINGS,
      headers: { ...bearer(ALICE_KEY), ...JSON_TYPE },
    });
    const before = provider.received.length;
    asked.write('{"model":"lab/small",');
    await until(() => provider.received[before]?.body.length === '{"model":"small",'.length, "it goes up");
    asked.end(`"${second}":"large"}`);
    const response = await answerTo(asked);
    assert.equal(response.statusCode, 400, second);
    assert.match((await bodyOf(response)).toString(), /names its model twice/);
  }
  assert.ok(
    provider.received.every(({ isWhole }) => !isWhole),
    "the provider never has a whole request",
  );
});

test("OpenAI's SDK embeds, transcribes and speaks through the one base URL", async (t) => {
  const provider = await RawProvider.start(t, (response, { path }) => {
    response.setHeader("content-type", path === "/v1/audio/speech" ? "audio/mpeg" : "application/json");
    if (path === EMBEDDINGS) response.end(VECTORS);
    else if (path === "/v1/audio/speech") response.end("music");
    else response.end('{"text":"fog"}');
  });
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`));
  const baseURL = `http://127.0.0.1:${rig.http.port}/v1`;
  const openai = new OpenAI({ baseURL, apiKey: ALICE_KEY, maxRetries: 0 });
  const { data } = await openai.embeddings.create({
    input: "a",
    model: "lab/small",
    encoding_format: "float",
  });
  assert.deepEqual(data[0]?.embedding, [0.1, -0.2]);
  const file = await toFile(Buffer.from("wave"), "a.wav");
  const said = await openai.audio.transcriptions.create({ file, model: "lab/whisper" });
  assert.equal(said.text, "fog");
  const speech = await openai.audio.speech.create({ model: "lab/voice", voice: "alloy", input: "hello" });
  assert.equal(await speech.text(), "music");
});

test("bodies that are none are refused, and nothing is sent", async (t) => {
  const provider = await RawProvider.start(t, says(VECTORS));
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`), {
    passedLimits: { bodyBytesMax: 100 },
  });
  const form = { "content-type": 'multipart/form-data; boundary="x"' };
  const part = (head: string, value: string): string => `--x\r\n${head}\r\n\r\n${value}\r\n`;
  const model = 'Content-Disposition: form-data; name="model"';
  for (const [body, status, headers] of [
    ["[]", 400, {}],
    ["{}", 400, {}],
    ['{"model":7}', 400, {}],
    ['{"model":"lab/a"', 400, {}],
    ['{"model":"lab/a"}{', 400, {}],
    ['{"a":[}', 400, {}],
    ['{"model":"lab/a"}', 415, { "content-type": "text/plain" }],
    ['{"model":"lab/a"}', 415, { "content-encoding": "gzip" }],
    [`{"model":"lab/a","input":"${"x".repeat(100)}"}`, 413, {}],
    [part(model, "lab/a"), 400, form],
    [`${part("Content-Disposition: form-data; name=model", "lab/a")}--x--`, 400, form],
    [`${part("X-Other: a", "lab/a")}--x--`, 400, form],
    [`${part('Content-Disposition: form-data; name="other"', "a")}--x--`, 400, form],
    [`${part(model, "lab/a")}${part(model, "lab/b")}--x--`, 413, form],
  ] as const) {
    const answer = await send(rig, body, { headers: { ...headers } });
    assert.equal(answer.status, status, body);
    errorOf(answer);
  }
  assert.ok(provider.received.every(({ isWhole }) => !isWhole));
});

test("a provider's refusal reaches the client; what it says of the API key does not", async (t) => {
  const replies: Reply[] = [
    says('{"error":{"message":"input is too long","type":"invalid_request_error"}}', {}, 400),
    says(`{"error":{"message":"quota of ${PROVIDER_KEY} is used up"}}`, { "retry-after": "7" }, 429),
    says(`{"error":{"message":"Incorrect API key provided: ${PROVIDER_KEY}"}}`, {}, 401),
    says("", { location: "http://elsewhere.example/" }, 307),
    (response) => void response.destroy(),
  ];
  const provider = await RawProvider.start(t, (response, received) => replies.shift()?.(response, received));
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`));
  const ask400 = await send(rig, '{"model":"lab/a"}');
  assert.equal(ask400.status, 400);
  assert.match(ask400.body.toString(), /input is too long/);
  const ask429 = await send(rig, '{"model":"lab/a"}');
  assert.deepEqual([ask429.status, ask429.headers["retry-after"]], [429, "7"]);
  const ask401 = await send(rig, '{"model":"lab/a"}');
  assert.deepEqual([ask401.status, errorOf(ask401).code], [424, "upstream_unauthenticated"]);
  const moved = await send(rig, '{"model":"lab/a"}');
  assert.deepEqual([moved.status, errorOf(moved).code], [424, "upstream_redirects"]);
  const broken = await send(rig, '{"model":"lab/a"}');
  assert.deepEqual([broken.status, errorOf(broken).code], [503, "provider_unavailable"]);
  for (const { body } of [ask400, ask429, ask401, moved, broken])
    assert.doesNotMatch(body.toString(), new RegExp(PROVIDER_KEY));
  assert.equal(provider.received.length, 5, "nothing was sent again, or elsewhere");
});

test("an answer that the provider breaks off is broken off for the client, and one that is too long too", async (t) => {
  const cut: Reply = (response) => {
    response.writeHead(200, { "content-type": "audio/mpeg", "content-length": "100" });
    response.write("half", () => setImmediate(() => response.destroy()));
  };
  const long: Reply = (response) => {
    response.writeHead(200, { "content-type": "audio/mpeg" });
    response.end("x".repeat(50));
  };
  const replies = [cut, long];
  const provider = await RawProvider.start(t, (response, received) => replies.shift()?.(response, received));
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`), {
    passedLimits: { answerBytesMax: 20 },
  });
  for (const _ of [cut, long]) await assert.rejects(send(rig, '{"model":"lab/a"}'));
});

test("only so many are under way at once; a client that hangs up makes room, and its provider is let go", async (t) => {
  let [isFirst, isGone] = [true, false];
  const provider = await RawProvider.start(t, (response, received) => {
    if (!isFirst) return says(VECTORS)(response, received);
    isFirst = false;
    response.once("close", () => (isGone = true));
  });
  const rig = await startPassing(t, modelsAt(`${provider.origin}/v1`), { passedLimits: { atOnceMax: 1 } });
  const waiting = request({
    host: "127.0.0.1",
    port: rig.http.port,
    method: "POST",
    path: EMBEDDINGS,
    headers: { ...bearer(ALICE_KEY), ...JSON_TYPE },
  });
  waiting.on("error", () => undefined);
  waiting.end('{"model":"lab/a"}');
  await until(() => provider.received[0]?.isWhole === true, "it is under way");
  assert.equal(errorOf(await send(rig, '{"model":"lab/a"}')).code, "passed_limit");
  waiting.destroy();
  await until(() => isGone, "the provider is let go");
  await until(async () => (await send(rig, '{"model":"lab/a"}')).status === 200, "there is room again");
});

test("behind --upstream-server it goes to that server, which passes it on", async (t) => {
  const provider = await RawProvider.start(t, says(VECTORS));
  const models = modelsAt(`${provider.origin}/v1`);
  const server = await startPassing(t, models);
  const url = `http://127.0.0.1:${server.http.port}`;
  const front = await startPassing(t, models, { providers: serverSide(url, BOB_KEY) });
  const answer = await send(front, '{"model":"lab/small"}');
  assert.deepEqual([answer.status, answer.body.toString()], [200, VECTORS]);
  assert.equal(provider.received[0]?.body.toString(), '{"model":"small"}');
});

test("a provider that says nothing, and a client that says half, are not waited for without end", async (t) => {
  const provider = await RawProvider.start(t, () => undefined);
  const models = modelsAt(`${provider.origin}/v1`);
  const impatient = await startPassing(t, models, { passedLimits: { headMs: 50 } });
  const late = await send(impatient, '{"model":"lab/a"}');
  assert.deepEqual([late.status, errorOf(late).code], [504, "provider_unavailable"]);
  const rig = await startPassing(t, models, { passedLimits: { bodyTimeoutMs: 50 } });
  const half = request({
    host: "127.0.0.1",
    port: rig.http.port,
    method: "POST",
    path: EMBEDDINGS,
    headers: { ...bearer(ALICE_KEY), ...JSON_TYPE, "content-length": "100" },
  });
  half.on("error", () => undefined);
  half.write('{"model":"lab/a",');
  const response = await answerTo(half);
  assert.equal(response.statusCode, 400);
  assert.match((await bodyOf(response)).toString(), /came too slowly/);
  half.destroy();
});

test("the limits in the manual are those of the code", async () => {
  const manual = await readFile(new URL("../../../docs/GATEWAY.md", import.meta.url), "utf8");
  const { bodyBytesMax, bodyTimeoutMs, answerBytesMax, headMs, silenceMs, atOnceMax } = PASSED_LIMITS;
  const mib = (bytes: number): string => `${bytes / 1024 / 1024} MiB`;
  for (const [row, value] of [
    ["a body that is passed on", `${mib(bodyBytesMax)}, ${bodyTimeoutMs / 60_000} min`],
    ["the answer to it", mib(answerBytesMax)],
    ["until that answer begins, between two pieces of it", `${headMs / 1_000} s, ${silenceMs / 1_000} s`],
    ["requests passed on at once", String(atOnceMax)],
  ] as const) {
    const line = manual.split("\n").find((each) => each.startsWith(`| ${row} `));
    assert.equal(line?.split("|")[2]?.trim(), value, row);
  }
});
