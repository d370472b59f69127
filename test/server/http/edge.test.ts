import assert from "node:assert/strict";
import { test } from "node:test";
import { readErrorResponse } from "../../../src/transport/connect/errors.ts";
import { ALICE_KEY, ask, bearer, readJson, startHttp, VERSIONS } from "./rig.ts";

const CALLS = ["Stream", "Attach", "Append", "Listen"].map((name) => `/holdfast.v1.StreamService/${name}`);
const BLOB_CALLS = ["Put", "Get", "Forget"].map((name) => `/holdfast.v1.BlobService/${name}`);
const typeOf = (path: string): string =>
  path.endsWith("Append") ? "application/proto" : "application/connect+proto";

test("E7: a foreign Host is refused on every path, before the key is looked at, over both versions", async (t) => {
  const rig = await startHttp(t);
  for (const version of VERSIONS) {
    for (const path of ["/", "/health", "/metrics", "/nowhere", ...CALLS, ...BLOB_CALLS]) {
      const headers = { host: "evil.example", ...bearer(ALICE_KEY), "content-type": typeOf(path) };
      const answer = await ask(rig, version, { method: "POST", path, headers });
      assert.equal(answer.status, 403, `${version} ${path}`);
      assert.match(answer.body.toString(), /Host/);
    }
  }
  assert.equal(rig.server.counters.refusals.unauthenticated, 0);
});

test("E7: a foreign Origin is refused, and gets no header of CORS", async (t) => {
  const rig = await startHttp(t, { http: { allowedOrigins: ["https://app.example"] } });
  for (const version of VERSIONS) {
    for (const method of ["GET", "POST", "OPTIONS"]) {
      const headers = { origin: "https://evil.example", ...bearer(ALICE_KEY) };
      const answer = await ask(rig, version, { method, path: CALLS[1] ?? "", headers });
      assert.equal(answer.status, 403);
      assert.deepEqual(
        Object.keys(answer.headers).filter((name) => name.startsWith("access-control")),
        [],
      );
    }
  }
});

test("E7: the preflight of an allowed origin names our headers, and answers carry its name, never a star", async (t) => {
  const origin = "https://app.example";
  const rig = await startHttp(t, { http: { allowedOrigins: [origin] } });
  for (const version of VERSIONS) {
    const preflight = await ask(rig, version, {
      method: "OPTIONS",
      path: "/holdfast.v1.StreamService/Append",
      headers: { origin, "access-control-request-method": "POST", "sec-fetch-site": "cross-site" },
    });
    assert.equal(preflight.status, 204);
    assert.equal(preflight.body.length, 0);
    assert.equal(preflight.headers["access-control-allow-origin"], origin);
    const allowed = String(preflight.headers["access-control-allow-headers"]).split(", ");
    for (const name of [
      "x-idempotency-key",
      "x-idempotency-event-id",
      "x-idempotent-encryption-key",
      "x-holdfast-connection",
      "authorization",
      "connect-protocol-version",
      "connect-timeout-ms",
      "content-type",
    ]) {
      assert.ok(allowed.includes(name), name);
    }
    assert.equal(preflight.headers["access-control-allow-credentials"], undefined);
    for (const path of ["/health", "/nowhere", "/holdfast.v1.StreamService/Append"]) {
      const answer = await ask(rig, version, { method: "POST", path, headers: { origin } });
      assert.equal(answer.headers["access-control-allow-origin"], origin, path);
      assert.match(String(answer.headers["vary"]), /origin/);
    }
  }
});

test("E7: a token is needed on loopback too; without one a call is 401 and Connect's unauthenticated", async (t) => {
  const rig = await startHttp(t, { http: { failedSignIns: { burst: 1_000, refillMs: 1 } } });
  for (const version of VERSIONS) {
    for (const path of [...CALLS, ...BLOB_CALLS]) {
      for (const headers of [{}, bearer("wrong"), { authorization: `Basic ${ALICE_KEY}` }]) {
        const answer = await ask(rig, version, {
          method: "POST",
          path,
          headers: { ...headers, "content-type": typeOf(path) },
          body: "x".repeat(10_000),
        });
        assert.equal(answer.status, 401, `${version} ${path}`);
        assert.equal(answer.headers["www-authenticate"], "Bearer");
        assert.equal(readJson(answer.body).get("code"), "unauthenticated");
        assert.equal(readErrorResponse(401, answer.body, undefined).code, "unauthenticated");
      }
    }
  }
  assert.equal(rig.server.counters.refusals.unauthenticated, 2 * 7 * 3);
});

test("E1: sign-ins that fail too often are told to wait, with Retry-After", async (t) => {
  const rig = await startHttp(t, { http: { failedSignIns: { burst: 2, refillMs: 60_000 } } });
  const statuses: number[] = [];
  for (const version of [1, 2, 1] as const) {
    const headers = { ...bearer("wrong"), "content-type": "application/proto" };
    const answer = await ask(rig, version, { method: "POST", path: CALLS[2] ?? "", headers });
    statuses.push(answer.status);
    if (answer.status === 429) assert.ok(Number(answer.headers["retry-after"]) > 0);
  }
  assert.deepEqual(statuses, [401, 401, 429]);
});

test("unknown paths are told what there is, wrong methods and types what is right", async (t) => {
  const rig = await startHttp(t);
  for (const version of VERSIONS) {
    const nowhere = await ask(rig, version, { path: "/v1/chat?x=1" });
    assert.equal(nowhere.status, 404);
    const told = readJson(nowhere.body);
    assert.equal(told.get("code"), "not_found");
    assert.deepEqual(told.get("served"), [
      "/",
      "/languages.json",
      "/sign-in",
      "/health",
      "/api/hello",
      "/ready",
      "/metrics",
      ...CALLS,
      ...BLOB_CALLS,
    ]);

    for (const path of [...CALLS, ...BLOB_CALLS]) {
      const got = await ask(rig, version, { path, headers: bearer(ALICE_KEY) });
      assert.equal(got.status, 405, path);
      assert.equal(got.headers["allow"], "POST");
      for (const type of ["application/json+x", "text/plain", "application/grpc", undefined]) {
        const headers = { ...bearer(ALICE_KEY), ...(type === undefined ? {} : { "content-type": type }) };
        const posted = await ask(rig, version, { method: "POST", path, headers, body: "{}" });
        assert.equal(posted.status, 415, `${path} ${String(type)}`);
      }
    }
    const health = await ask(rig, version, { method: "DELETE", path: "/health" });
    assert.equal(health.status, 405);
    assert.equal(health.headers["allow"], "GET, HEAD");
    for (const path of [
      "/health/",
      "//health",
      "/%68ealth",
      "/../health",
      "/holdfast.v1.StreamService/",
      "/holdfast.v1.StreamService/attach",
    ]) {
      assert.equal((await ask(rig, version, { method: "POST", path })).status, 404, path);
    }
  }
});

test("health and ready are open and say nothing else; HEAD has no body", async (t) => {
  const rig = await startHttp(t);
  for (const version of VERSIONS) {
    const health = await ask(rig, version, { path: "/health" });
    assert.deepEqual([health.status, health.body.toString()], [200, '{"status":"alive"}\n']);
    const ready = await ask(rig, version, { path: "/ready" });
    assert.deepEqual([ready.status, ready.body.toString()], [200, '{"status":"ready"}\n']);
    const head = await ask(rig, version, { method: "HEAD", path: "/health" });
    assert.deepEqual([head.status, head.body.length], [200, 0]);
  }
});

test("F5: a server whose store has failed is alive and not ready", async (t) => {
  const rig = await startHttp(t);
  await rig.store.close();
  const ready = await ask(rig, 1, { path: "/ready" });
  assert.equal(ready.status, 503);
  assert.match(ready.body.toString(), /store/);
  assert.equal((await ask(rig, 1, { path: "/health" })).status, 200);
});

test("F5: a server that is ill says so to whoever would restart it", async (t) => {
  const reasons: string[] = [];
  const rig = await startHttp(t, { http: { illness: () => reasons[0] } });
  assert.equal((await ask(rig, 1, { path: "/health" })).status, 200);
  reasons.push("the store has been down for 60 s");
  const health = await ask(rig, 1, { path: "/health" });
  assert.equal(health.status, 503);
  assert.deepEqual(readJson(health.body), new Map(Object.entries({ status: "ill", reason: reasons[0] })));
});

test("a server may have reasons of its own not to be ready", async (t) => {
  let reason: string | undefined = "warming up";
  const rig = await startHttp(t, { http: { unreadyReason: async () => reason } });
  assert.match((await ask(rig, 2, { path: "/ready" })).body.toString(), /warming up/);
  reason = undefined;
  assert.equal((await ask(rig, 2, { path: "/ready" })).status, 200);
});

test("every answer forbids caching and guessing, and the page runs nothing", async (t) => {
  const rig = await startHttp(t);
  for (const version of VERSIONS) {
    for (const path of ["/", "/health", "/nowhere", CALLS[0] ?? ""]) {
      const { headers } = await ask(rig, version, { path });
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["cache-control"], "no-store");
      assert.equal(headers["server"], undefined);
      assert.equal(headers["x-powered-by"], undefined);
    }
    const page = await ask(rig, version, { path: "/" });
    assert.equal(page.status, 200);
    assert.match(String(page.headers["content-security-policy"]), /default-src 'none'/);
    assert.match(page.body.toString(), /Holdfast server/);
  }
});

test("errors carry our own code for those who know it", async (t) => {
  const rig = await startHttp(t);
  const headers = { "content-type": "application/json" };
  const answer = await ask(rig, 1, { method: "POST", path: CALLS[2] ?? "", headers, body: "{}" });
  assert.match(answer.body.toString(), /"type":"holdfast\.v1\.Error","value":"[\w+/=-]+"/);
  const error = readErrorResponse(answer.status, answer.body, undefined);
  assert.equal(error.code, "unauthenticated");
  assert.match(error.message, /bring one/);
});
