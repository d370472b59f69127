import assert from "node:assert/strict";
import { test } from "node:test";
import { type Claim, isLoopbackName, type Judgement, originJudge } from "../../../src/server/http/origin.ts";

const judge = originJudge({
  allowedHosts: ["holdfast.example", "exact.example:8443"],
  allowedOrigins: ["https://app.example", "http://localhost:5173/"],
});

function claim(host: string, headers: Record<string, string> = {}, more: Partial<Claim> = {}): Judgement {
  return judge({
    isSecure: false,
    method: "POST",
    path: "/holdfast.v1.StreamService/Attach",
    host,
    header: (name) => headers[name],
    ...more,
  });
}

const kind = (...given: Parameters<typeof claim>): string => claim(...given).kind;

test("E7: a request by a name of loopback is allowed, on any port", () => {
  for (const host of [
    "localhost",
    "localhost:4040",
    "LOCALHOST:1",
    "localhost.",
    "127.0.0.1:80",
    "127.8.8.8",
    "[::1]:4040",
    "[::1]",
  ]) {
    assert.equal(kind(host), "allowed", host);
  }
});

test("E7: a foreign Host is refused, whatever it looks like", () => {
  const foreign = [
    "",
    "evil.example",
    "evil.example:4040",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io:4040",
    "notlocalhost",
    "localhost@evil.example",
    "192.168.1.7",
    "0.0.0.0",
    "[::]",
    "[::ffff:127.0.0.1]",
    "127.1",
    "2130706433",
    "localhost:4040, evil.example",
  ];
  for (const host of foreign) assert.equal(kind(host), "refused", host);
});

test("E7: two different names for one request are none", () => {
  assert.equal(kind("localhost", { host: "localhost" }), "allowed");
  assert.equal(kind("localhost", { host: "evil.example" }), "refused");
});

test("E7: configured names are allowed: with a port only on that one", () => {
  assert.equal(kind("holdfast.example"), "allowed");
  assert.equal(kind("Holdfast.Example.:9"), "allowed");
  assert.equal(kind("exact.example:8443"), "allowed");
  assert.equal(kind("exact.example"), "refused");
  assert.equal(kind("exact.example:8444"), "refused");
});

test("E7: a foreign Origin is refused, and so is the null of sandboxes and files", () => {
  const origins = [
    "https://evil.example",
    "null",
    "",
    "http://localhost:3000",
    "https://localhost:4040",
    "https://app.example.evil.example",
    "https://app.example:444",
    "HTTPS://APP.EXAMPLE",
    "file://",
  ];
  for (const origin of origins) assert.equal(kind("localhost:4040", { origin }), "refused", origin);
});

test("E7: our own pages are allowed, without headers of CORS", () => {
  const own = { kind: "allowed", corsOrigin: undefined };
  assert.deepEqual(claim("localhost:4040", { origin: "http://localhost:4040" }), own);
  assert.deepEqual(claim("localhost:80", { origin: "http://localhost" }), own);
  assert.deepEqual(claim("[::1]:4040", { origin: "http://[::1]:4040" }), own);
  assert.deepEqual(
    claim("holdfast.example", { origin: "https://holdfast.example" }, { isSecure: true }),
    own,
  );
  assert.equal(
    kind("holdfast.example", { origin: "http://holdfast.example" }, { isSecure: true }),
    "refused",
  );
});

test("E7: a configured origin is allowed and told so by its own name", () => {
  for (const origin of ["https://app.example", "http://localhost:5173"]) {
    const headers = { origin, "sec-fetch-site": "cross-site" };
    assert.deepEqual(claim("localhost:4040", headers), { kind: "allowed", corsOrigin: origin });
  }
  assert.equal(kind("evil.example", { origin: "https://app.example" }), "refused", "the Host still counts");
});

test("E7: without an Origin the browser's Sec-Fetch-Site decides", () => {
  for (const site of ["cross-site", "same-site", "new-one"]) {
    assert.equal(kind("localhost", { "sec-fetch-site": site }), "refused", site);
  }
  for (const site of ["same-origin", "none"]) {
    assert.equal(kind("localhost", { "sec-fetch-site": site }), "allowed", site);
  }
});

test("E7: a link on another site may lead to the front page and nowhere else", () => {
  const visit = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
  };
  assert.equal(kind("localhost", visit, { method: "GET", path: "/" }), "allowed");
  assert.equal(kind("localhost", visit, { method: "POST", path: "/" }), "refused");
  assert.equal(kind("localhost", visit, { method: "GET", path: "/metrics" }), "refused");
  const framed = { ...visit, "sec-fetch-dest": "iframe" };
  assert.equal(kind("localhost", framed, { method: "GET", path: "/" }), "refused");
});

test("E7: only what cannot be reached from elsewhere is loopback", () => {
  assert.deepEqual(["localhost", "127.0.0.1", "127.9.9.9", "::1"].filter(isLoopbackName).length, 4);
  assert.deepEqual(["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", ""].filter(isLoopbackName), []);
});
