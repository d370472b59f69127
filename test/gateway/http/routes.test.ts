import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { ALICE_KEY, ask, bearer, openSocket, readJson, VERSIONS } from "../../server/http/rig.ts";
import { askChat, CHAT, chatBody, errorOf, JSON_TYPE, startGateway } from "./gateway-rig.ts";

const AUTH = bearer(ALICE_KEY);

for (const version of VERSIONS) {
  test(`over HTTP/${version} models are listed, and found by ids with slashes, coded or not`, async (t) => {
    const rig = await startGateway(t);
    const list = await ask(rig, version, { path: "/v1/models", headers: AUTH });
    assert.equal(list.status, 200);
    const { object, data } = Object.fromEntries(readJson(list.body));
    assert.equal(object, "list");
    assert.ok(Array.isArray(data) && data.length === 3);
    for (const path of ["/v1/models/acme/one", "/v1/models/acme%2Fone"]) {
      const one = readJson((await ask(rig, version, { path, headers: AUTH })).body);
      assert.deepEqual([one.get("id"), one.get("object")], ["acme/one", "model"]);
    }
    const head = await ask(rig, version, { method: "HEAD", path: "/v1/models", headers: AUTH });
    assert.deepEqual([head.status, head.body.length], [200, 0]);
    for (const path of ["/v1/models/none", "/v1/models/acme%2fon", "/v1/models/acme/one/"]) {
      const missing = await ask(rig, version, { path, headers: AUTH });
      assert.equal(missing.status, 404, path);
      assert.equal(errorOf(missing).code, "model_not_found");
    }
  });

  test(`over HTTP/${version} a stream is stopped; one that is not there is not found`, async (t) => {
    const rig = await startGateway(t);
    const path = "/v1/streams/abc-1/";
    const stop = { method: "DELETE", path: path.slice(0, -1), headers: AUTH };
    const done = readJson((await ask(rig, version, stop)).body);
    assert.deepEqual([done.get("id"), done.get("stopped")], ["abc-1", true]);
    assert.deepEqual(rig.answers.stopped, [{ principal: "alice", streamId: "abc-1" }]);
    rig.answers.stopping = () => Promise.reject(new HoldfastError("not_found", "there is no such stream"));
    const missing = await ask(rig, version, stop);
    assert.equal(missing.status, 404);
    assert.equal(errorOf(missing).code, "not_found");
    rig.answers.stopping = () =>
      Promise.reject(new HoldfastError("overloaded", "later", { retryAfterMs: 100 }));
    const later = await ask(rig, version, stop);
    assert.deepEqual([later.status, later.headers["retry-after"]], [503, "1"]);
  });

  test(`over HTTP/${version} what no rule foresees is a 500, and the log names it`, async (t) => {
    const rig = await startGateway(t);
    rig.answers.stopping = () => Promise.reject(new TypeError("nothing is not a function"));
    const failed = await ask(rig, version, { method: "DELETE", path: "/v1/streams/abc-1", headers: AUTH });
    assert.equal(failed.status, 500);
    assert.ok(rig.logLines.splice(0).some((line) => line.includes("nothing is not a function")));
  });

  test(`over HTTP/${version} unknown paths, wrong methods and upgrades are told in OpenAI's shape`, async (t) => {
    const rig = await startGateway(t);
    const paths = [
      "/v1/",
      "/v1/chat",
      "/v1/chat/completions/",
      "/v1/files",
      "/v1/models/",
      "/v1/models/%zz",
      `/v1/models/${"x".repeat(513)}`,
      "/v1/streams/",
      "/v1/streams/a%0d%0ab",
      `/v1/streams/${"x".repeat(129)}`,
      "/v1/streams/a/b/events",
      "/v1/../health",
    ];
    for (const path of paths) {
      const answer = await ask(rig, version, { path, headers: AUTH });
      assert.equal(answer.status, 404, path);
      assert.match(String(errorOf(answer).message), /POST \/v1\/chat\/completions/);
    }
    const wrong = [
      ["GET", CHAT, "POST, DELETE"],
      ["POST", "/v1/models", "GET, HEAD"],
      ["POST", "/v1/streams/abc", "DELETE"],
      ["DELETE", "/v1/streams/abc/events", "GET"],
    ] as const;
    for (const [method, path, allow] of wrong) {
      const answer = await ask(rig, version, { method, path, headers: AUTH });
      assert.deepEqual([answer.status, answer.headers["allow"]], [405, allow]);
      assert.equal(answer.headers["upgrade"], undefined);
      assert.equal(errorOf(answer).type, "invalid_request_error");
    }
    if (version === 2) return;
    const socket = await openSocket(t, rig);
    const upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
    socket.write(`GET /v1/responses HTTP/1.1\r\nhost: localhost\r\n${upgrade}\r\n`);
    const [said] = await new Promise<[Buffer]>((resolve) =>
      socket.once("data", (data: Buffer) => resolve([data])),
    );
    assert.match(said.toString(), /^HTTP\/1\.1 426 [^]*\r\nupgrade: HTTP\/1\.1\r\n/i);
  });

  test(`over HTTP/${version} a client with a wrong base URL is told the right one, in OpenAI's shape and in Connect's`, async (t) => {
    const rig = await startGateway(t);
    const asked = [
      ["POST", "/chat/completions"],
      ["GET", "/models"],
      ["POST", "/api/v1/chat/completions"],
      ["GET", "/v1"],
    ] as const;
    for (const [method, path] of asked) {
      const answer = await ask(rig, version, { method, path, headers: AUTH });
      assert.equal(answer.status, 404, path);
      const told = readJson(answer.body);
      assert.equal(told.get("code"), "not_found");
      assert.deepEqual(told.get("error"), {
        message: `Nothing is served under this path. Use ${rig.http.url}/v1 as the base URL.`,
        type: "invalid_request_error",
        param: null,
        code: "unknown_url",
      });
    }
    const twice = await ask(rig, version, { method: "POST", path: "/v1/v1/chat/completions", headers: AUTH });
    assert.match(String(errorOf(twice).message), /The base URL ends with \/v1, once/);
  });

  test(`E7: over HTTP/${version} a foreign Host or Origin reaches nothing`, async (t) => {
    const rig = await startGateway(t, {}, { allowedOrigins: ["https://app.example"] });
    const foreign = [
      { host: "evil.example" },
      { origin: "https://evil.example" },
      { "sec-fetch-site": "cross-site" },
    ];
    for (const headers of foreign) {
      const answer = await askChat(rig, version, { headers: { ...headers } });
      assert.equal(answer.status, 403);
      assert.deepEqual([errorOf(answer).type, errorOf(answer).code], ["permission_error", "foreign"]);
      assert.equal(answer.headers["access-control-allow-origin"], undefined);
    }
    assert.equal(rig.answers.chats.length, 0);
    const origin = "https://app.example";
    const asked = { origin, "access-control-request-method": "POST" };
    const preflight = await ask(rig, version, { method: "OPTIONS", path: CHAT, headers: asked });
    assert.equal(preflight.status, 204);
    assert.match(
      String(preflight.headers["access-control-allow-headers"]),
      /idempotency-key.*x-stainless-os/,
    );
    const answer = await askChat(rig, version, { headers: { origin } });
    assert.equal(answer.headers["access-control-allow-origin"], origin);
    assert.match(String(answer.headers["access-control-expose-headers"]), /x-holdfast-stream/);
  });

  test(`E7: over HTTP/${version} an API key is needed, as Bearer or as x-api-key`, async (t) => {
    const rig = await startGateway(t, {}, { failedSignIns: { burst: 6, refillMs: 600_000 } });
    const post = { method: "POST", path: CHAT, body: chatBody() };
    for (const headers of [
      {},
      bearer("wrong"),
      { "x-api-key": "wrong" },
      { authorization: `Basic ${ALICE_KEY}` },
    ]) {
      const answer = await ask(rig, version, { ...post, headers: { ...JSON_TYPE, ...headers } });
      assert.equal(answer.status, 401);
      assert.deepEqual(
        [errorOf(answer).type, errorOf(answer).code],
        ["authentication_error", "invalid_api_key"],
      );
      assert.equal(answer.headers["www-authenticate"], "Bearer");
    }
    for (const path of ["/v1/models", "/v1/streams/abc/events"]) {
      assert.equal((await ask(rig, version, { path })).status, 401);
    }
    const limited = await ask(rig, version, { path: "/v1/models" });
    assert.deepEqual([limited.status, errorOf(limited).type], [429, "rate_limit_error"]);
    assert.ok(Number(limited.headers["retry-after"]) > 0);
    assert.equal(rig.answers.chats.length, 0);
    assert.equal(rig.server.counters.refusals.unauthenticated, 6);
  });

  test(`E7: over HTTP/${version} an API key that is good is found beside an Authorization that is not`, async (t) => {
    const rig = await startGateway(t, {}, { failedSignIns: { burst: 1, refillMs: 600_000 } });
    const statusOf = async (headers: Record<string, string>): Promise<number> =>
      (await ask(rig, version, { path: "/v1/models", headers })).status;
    for (const authorization of ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer of-another-service"]) {
      assert.equal(await statusOf({ authorization, "x-api-key": ALICE_KEY }), 200, authorization);
      assert.equal(await statusOf({ authorization, "api-key": ALICE_KEY }), 200, authorization);
    }
    assert.equal(await statusOf({ "api-key": ALICE_KEY }), 200);
    assert.equal(await statusOf({ "x-api-key": "", "api-key": ALICE_KEY }), 200);
    assert.equal(await statusOf({ ...bearer(ALICE_KEY), "x-api-key": "wrong" }), 200);
    assert.equal(await statusOf({ authorization: "", "x-api-key": "wrong", "api-key": "wrong" }), 401);
    assert.equal(await statusOf({ "api-key": "wrong" }), 429, "it counted once");
  });

  test(`over HTTP/${version} the request id is the client's if it is one, and is on every answer`, async (t) => {
    const rig = await startGateway(t);
    const idOf = async (given: string, path = "/v1/models"): Promise<unknown> => {
      const headers = { ...AUTH, "x-request-id": given };
      return (await ask(rig, version, { path, headers })).headers["x-request-id"];
    };
    assert.equal(await idOf("my-request.1"), "my-request.1");
    assert.equal(await idOf("a".repeat(128), "/v1/nowhere"), "a".repeat(128));
    for (const given of ["a".repeat(129), "a b", "a\tb", '"', "a,b", "<script>"]) {
      assert.match(String(await idOf(given)), /^req_[0-9a-f]{32}$/, given);
    }
    const { requestId } =
      (await askChat(rig, version, { headers: { "x-request-id": "mine" } }), rig.answers.chats[0]) ?? {};
    assert.equal(requestId, "mine");
  });

  test(`over HTTP/${version} the headers of a request are passed on, and those that are wrong are not`, async (t) => {
    const rig = await startGateway(t);
    await askChat(rig, version, { headers: { "idempotency-key": "once-1" } });
    await askChat(rig, version);
    const [first, second] = rig.answers.chats;
    assert.deepEqual([first?.idempotencyKey, first?.principal], ["once-1", "alice"]);
    assert.equal(second?.idempotencyKey, undefined);
    assert.match(first?.bodyHash ?? "", /^[0-9a-f]{64}$/);
    assert.equal(first?.bodyHash, second?.bodyHash);
    for (const given of ["x".repeat(257), "a b"]) {
      const refused = await askChat(rig, version, { headers: { "idempotency-key": given } });
      assert.deepEqual([refused.status, errorOf(refused).param], [400, "Idempotency-Key"]);
    }
  });

  test(`E4: over HTTP/${version} the log names the route, never the path, the body or an API key`, async (t) => {
    const rig = await startGateway(t);
    await askChat(rig, version, { body: chatBody({ user: "canary-in-body" }) });
    await ask(rig, version, { path: "/v1/streams/canary-in-path/events", headers: AUTH });
    await ask(rig, version, {
      path: "/v1/canary-in-path?canary=1",
      headers: { "x-api-key": "canary-in-header" },
    });
    const log = rig.logLines.join("");
    assert.match(
      log,
      /"kind":"gateway","route":"chat","method":"POST".*"principal":"alice","stream":"[0-9a-f]{12}"/,
    );
    assert.match(log, /"route":"events"/);
    assert.match(log, /"error":"unknown_url"/);
    for (const secret of ["canary", ALICE_KEY]) assert.ok(!log.includes(secret), secret);
  });
}
