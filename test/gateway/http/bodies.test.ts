import assert from "node:assert/strict";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { test } from "node:test";
import { BodyMemory } from "../../../src/gateway/http/body-memory.ts";
import { hashRequest } from "../../../src/gateway/http/request-hash.ts";
import { parseJson, SLICE_BYTES } from "../../../src/gateway/http/json-body.ts";
import { gatewayHttp } from "../../../src/gateway/http/index.ts";
import {
  ALICE_KEY,
  ask,
  eventually,
  openSocket,
  readToEnd,
  startHttp,
  VERSIONS,
} from "../../server/http/rig.ts";
import { ended, ScriptedAnswer, ScriptedAnswers, text } from "./scripted-answers.ts";
import { askChat, CHAT, chatBody, errorOf, startGateway } from "./gateway-rig.ts";

/** A chat request of so many bytes. */
function bodyOf(bytes: number): string {
  const empty = chatBody({ user: "" }).length;
  return chatBody({ user: "x".repeat(bytes - empty) });
}

/** As deep as that, the request's own object included. */
function nested(depth: number): string {
  return chatBody().replace(/\}$/, `,"metadata":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`);
}

for (const version of VERSIONS) {
  test(`E8: over HTTP/${version} a body is taken at its limit and refused one above`, async (t) => {
    const rig = await startGateway(t, { bodyBytesMax: 100_000 });
    assert.equal((await askChat(rig, version, { body: bodyOf(100_000) })).status, 200);
    const refused = await askChat(rig, version, { body: bodyOf(100_001) });
    assert.deepEqual([refused.status, errorOf(refused).type], [413, "invalid_request_error"]);
    assert.equal(rig.answers.chats.length, 1);
  });

  test(`E8: over HTTP/${version} JSON is 64 deep at the most, and has so many values`, async (t) => {
    const rig = await startGateway(t, { jsonValuesMax: 1_000 });
    assert.equal((await askChat(rig, version, { body: nested(64) })).status, 200);
    const deep = await askChat(rig, version, { body: nested(65) });
    assert.deepEqual([deep.status, errorOf(deep).code], [400, "invalid_json"]);
    assert.match(String(errorOf(deep).message), /deeper than 64/);
    const own = chatBody().replaceAll(/[^,[{]/g, "").length;
    const wide = (values: number): string =>
      chatBody({ user: [] }).replace("[]}", `[${"0,".repeat(values)}0]}`);
    // Beside the request's own: one for the comma before the field, one for its list.
    const taken = await askChat(rig, version, { body: wide(1_000 - own - 2) });
    assert.notEqual(errorMaybe(taken), "invalid_json");
    const many = await askChat(rig, version, { body: wide(1_000 - own - 1) });
    assert.deepEqual([many.status, errorOf(many).code], [400, "invalid_json"]);
  });

  test(`E8: over HTTP/${version} a request makes the server fetch no image, unless its operator allows it`, async (t) => {
    const image = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
    const body = chatBody({ messages: [{ role: "user", content: [image] }] });
    const refused = await askChat(await startGateway(t), version, { body });
    assert.deepEqual([refused.status, errorOf(refused).param], [400, "messages[0].content[0].image_url.url"]);
    const answers = new ScriptedAnswers();
    const allowing = gatewayHttp({ answers, allowRemoteImages: true });
    const rig = await startHttp(t, { http: { mounts: [allowing] } });
    assert.equal((await askChat(rig, version, { body })).status, 200);
  });

  test(`over HTTP/${version} packed bodies are unpacked, within the same limit`, async (t) => {
    const rig = await startGateway(t, { bodyBytesMax: 100_000 });
    const packers = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync };
    for (const [name, pack] of Object.entries(packers)) {
      const headers = { "content-encoding": name };
      const body = bodyOf(100_000);
      assert.equal((await askChat(rig, version, { headers, body: pack(body) })).status, 200, name);
      assert.equal(rig.answers.chats.at(-1)?.bodyHash, hashOf(body));
      const bomb = await askChat(rig, version, { headers, body: pack(bodyOf(2_000_000)) });
      assert.deepEqual([bomb.status, errorOf(bomb).code], [413, "request_too_large"]);
      const torn = await askChat(rig, version, { headers, body: pack(body).subarray(0, -20) });
      assert.deepEqual([torn.status, errorOf(torn).code], [400, "invalid_encoding"]);
    }
    const unknown = await askChat(rig, version, { headers: { "content-encoding": "gzip, br" } });
    assert.deepEqual([unknown.status, errorOf(unknown).code], [415, "unsupported_encoding"]);
    assert.equal((await askChat(rig, version, { headers: { "content-encoding": "identity" } })).status, 200);
  });

  test(`over HTTP/${version} what is no JSON is refused without repeating it`, async (t) => {
    const rig = await startGateway(t);
    for (const body of [
      "",
      "canary",
      '{"canary":',
      "\u{feff}{}",
      Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]),
    ]) {
      const refused = await askChat(rig, version, { body });
      assert.equal(refused.status, 400);
      assert.ok(!String(errorOf(refused).message).includes("canary"));
    }
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/jsonx",
      "multipart/form-data",
    ]) {
      const refused = await askChat(rig, version, { headers: { "content-type": type } });
      assert.deepEqual([refused.status, errorOf(refused).code], [415, "unsupported_media_type"], type);
    }
    for (const type of ["application/json; charset=utf-8", "Application/JSON"]) {
      assert.equal((await askChat(rig, version, { headers: { "content-type": type } })).status, 200);
    }
    for (const body of ["null", "[]", "{}", '{"model":1}', '"x"']) {
      const refused = await askChat(rig, version, { body });
      assert.deepEqual([refused.status, errorOf(refused).type], [400, "invalid_request_error"], body);
    }
  });

  test(`F2: over HTTP/${version} bodies under way share a bounded memory, which comes back`, async (t) => {
    const rig = await startGateway(t, { bodiesBytesMax: 10_000 });
    assert.equal((await askChat(rig, version, { body: bodyOf(5_000) })).status, 200);
    const refused = await askChat(rig, version, { body: bodyOf(5_001) });
    assert.deepEqual([refused.status, errorOf(refused).type], [429, "rate_limit_error"]);
    assert.ok(Number(refused.headers["retry-after"]) > 0);
    assert.equal((await askChat(rig, version, { body: bodyOf(5_000) })).status, 200);
  });
}

for (const version of VERSIONS) {
  test(`F2: over HTTP/${version} what a packed body becomes is charged, refused at the bound, and given back`, async (t) => {
    const rig = await startGateway(t, { bodiesBytesMax: 200_000 });
    const headers = { "content-encoding": "br" };
    const packed = (bytes: number): Buffer => brotliCompressSync(bodyOf(bytes));
    const fits = 100_000 - packed(99_000).length;
    for (let attempt = 0; attempt < 3; attempt++) {
      assert.equal((await askChat(rig, version, { headers, body: packed(fits) })).status, 200);
      const refused = await askChat(rig, version, { headers, body: packed(100_001) });
      assert.deepEqual([refused.status, errorOf(refused).code], [429, "bodies_limit"]);
    }
  });

  test(`F2: over HTTP/${version} a body is charged until the request is accepted`, async (t) => {
    const rig = await startGateway(t, { bodiesBytesMax: 20_000 });
    const body = bodyOf(6_000);
    const accept = Promise.withResolvers<ScriptedAnswer>();
    rig.answers.give(accept.promise);
    const first = askChat(rig, version, { body });
    await eventually(() => rig.answers.chats.length === 1, "the first is being considered");
    const refused = await askChat(rig, version, { body });
    assert.deepEqual([refused.status, errorOf(refused).code], [429, "bodies_limit"]);
    accept.resolve(new ScriptedAnswer("stream-1", [text(1, "hello"), ended(2)]));
    assert.equal((await first).status, 200);
    assert.equal((await askChat(rig, version, { body })).status, 200);
  });
}

test("F2: while a large body is parsed the others get their turn after every slice", async () => {
  const bytes = Buffer.from(bodyOf(4 * 1024 * 1024));
  const parsing = parseJson(bytes, 1_000, new AbortController().signal);
  const state = { isOver: false };
  void parsing.then(() => (state.isOver = true));
  let turns = 0;
  for (; !state.isOver; turns++) await new Promise((resolve) => setImmediate(resolve));
  const { value, hash } = await parsing;
  assert.ok(turns >= bytes.length / SLICE_BYTES, `${turns} turns`);
  assert.deepEqual(value, JSON.parse(bytes.toString()));
  assert.equal(hash, hashOf(bytes));
});

test("F2: parsing a large body ends with its request", async () => {
  const hangUp = new AbortController();
  const parsing = parseJson(Buffer.from(bodyOf(4 * 1024 * 1024)), 1_000, hangUp.signal);
  hangUp.abort();
  await assert.rejects(parsing, { name: "AbortError" });
});

test("E8: a large body is refused for what a small one is refused for", async () => {
  const { signal } = new AbortController();
  const padding = '"x":"'.padEnd(1024 * 1024, "x");
  const refusal = (text: string, message: RegExp): Promise<void> =>
    assert.rejects(parseJson(Buffer.from(text), 1_000, signal), {
      status: 400,
      code: "invalid_json",
      message,
    });
  await refusal(`{${padding}"`, /not valid JSON/);
  await refusal(`{${padding}"} {}`, /not valid JSON/);
  await refusal(`{${padding}","y":${"[".repeat(64)}${"]".repeat(64)}}`, /deeper than 64/);
  await refusal(`{${padding}","y":[${"0,".repeat(1_000)}0]}`, /more than 1000 values/);
  await assert.rejects(
    parseJson(Buffer.concat([Buffer.from(`{${padding}`), Buffer.from([0xff, 0x22, 0x7d])]), 9, signal),
  );
});

test("F2: a request that is over takes nothing more, and has given everything back", () => {
  const memory = new BodyMemory(100);
  const [alice, bob] = [memory.begin("alice"), memory.begin("bob")];
  alice.take(50);
  bob.take(50);
  assert.throws(() => alice.take(1), { status: 429, code: "bodies_limit" });
  alice.release();
  alice.release();
  assert.equal(memory.heldBytes, 50);
  assert.throws(() => alice.take(1), { status: 429 });
  bob.release();
  assert.equal(memory.heldBytes, 0);
});

test("F2: a body that trickles in is refused, and one that is never sent holds nothing", async (t) => {
  const rig = await startGateway(t, { bodyTimeoutMs: 50 });
  const socket = await openSocket(t, rig);
  const head = `POST ${CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${ALICE_KEY}\r\n`;
  socket.write(`${head}content-type: application/json\r\ncontent-length: 1000\r\nconnection: close\r\n\r\n{`);
  const said = await readToEnd(socket);
  assert.match(said.toString(), /^HTTP\/1\.1 400 [^]*request_timeout/);
});

test("a client that hangs up within its body leaves nothing behind", async (t) => {
  const rig = await startGateway(t);
  const socket = await openSocket(t, rig);
  const head = `POST ${CHAT} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${ALICE_KEY}\r\n`;
  socket.write(`${head}content-type: application/json\r\ncontent-length: 1000\r\n\r\n{`);
  await eventually(async () => {
    const { body } = await ask(rig, 1, { path: "/metrics" });
    return body.toString().includes('holdfast_http_requests_open{kind="gateway"} 1');
  }, "it has begun");
  socket.destroy();
  await eventually(() => rig.logLines.some((line) => line.includes('"kind":"gateway"')), "it is over");
  assert.equal(rig.answers.chats.length, 0);
});

/** The code of an answer that may be an error. */
function errorMaybe(answer: Parameters<typeof errorOf>[0]): unknown {
  return answer.status === 200 ? undefined : errorOf(answer).code;
}

test("what a request asks has one name, however it is to be told, and however it is written", () => {
  const name = (body: object | string): string =>
    hashOf(typeof body === "string" ? body : JSON.stringify(body));
  const asked = { model: "m", messages: [{ role: "user", content: "a" }] };
  assert.equal(name({ ...asked, stream: true, stream_options: { include_usage: true } }), name(asked));
  assert.equal(name(JSON.stringify(asked, undefined, 2)), name(asked));
  const others: readonly object[] = [
    { ...asked, n: 1 },
    { ...asked, messages: [] },
    { ...asked, messages: [{ role: "user", content: "b" }] },
    { ...asked, messages: [{ role: "user", content: "a", stream: true }] },
    { ...asked, messages: [{ role: "user", content: ["a"] }] },
    { ...asked, messages: [{ role: "user" }, { content: "a" }] },
  ];
  assert.equal(new Set([asked, ...others].map(name)).size, others.length + 1);
});

function hashOf(body: string | Uint8Array): string {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const hashing = hashRequest(JSON.parse(text));
  let slice = hashing.next();
  while (slice.done !== true) slice = hashing.next();
  return slice.value;
}
