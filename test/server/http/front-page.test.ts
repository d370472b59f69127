/** The page at `/` as a server hands it out, and who is signed in by a one-time token. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { brotliCompressSync, brotliDecompressSync } from "node:zlib";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import { ask, startHttp, VERSIONS } from "./rig.ts";

const HTML = "<!doctype html><style>a{}</style><script type=module>go()</script>";
const FILE = { html: Buffer.from(HTML), brotli: brotliCompressSync(HTML), languages: Buffer.from("[]") };

test("a page comes compressed to whoever can read that, under a policy of its own", async (t) => {
  const page = { read: async () => FILE, signIn: async () => undefined };
  const rig = await startHttp(t, { http: { page } });
  for (const version of VERSIONS) {
    const get = (headers: Readonly<Record<string, string>>) => ask(rig, version, { path: "/", headers });
    const small = await get({ "accept-encoding": "gzip, deflate, br" });
    assert.equal(small.headers["content-encoding"], "br");
    assert.equal(brotliDecompressSync(small.body).toString(), HTML);
    assert.match(
      String(small.headers["content-security-policy"]),
      /script-src 'sha256-.*trusted-types 'none'$/,
    );
    for (const accepted of ["gzip", "br;q=0", "br; q=0.0", ""]) {
      const plain = await get({ "accept-encoding": accepted });
      assert.equal(plain.headers["content-encoding"], undefined, accepted);
      assert.equal(plain.body.toString(), HTML);
    }
    assert.equal((await ask(rig, version, { method: "HEAD", path: "/" })).body.length, 0);
    const later = await ask(rig, version, { path: "/languages.json" });
    assert.deepEqual([later.headers["content-type"], later.body.toString()], ["application/json", "[]"]);
  }
});

test("a page that could not be built says why and what to do, and nothing of it is markup", async (t) => {
  const read = async (): Promise<never> => {
    throw new HoldfastError("unavailable", "no <vite>: run npm ci");
  };
  const rig = await startHttp(t, { http: { page: { read, signIn: async () => undefined } } });
  const { status, body } = await ask(rig, 1, { path: "/" });
  assert.equal(status, 503);
  assert.match(body.toString(), /could not be built[^]*no &lt;vite>: run npm ci/);
  assert.equal((await ask(rig, 1, { path: "/health" })).status, 200);
});

test("E4, E7: a token signs in from this machine alone, and no log has it", async (t) => {
  const page = {
    read: async () => FILE,
    signIn: async (token: string) => (token === "once" ? "hf_new" : undefined),
  };
  const rig = await startHttp(t, { http: { page, allowedHosts: ["name.example"] } });
  const enter = (headers: Readonly<Record<string, string>>) =>
    ask(rig, 1, { method: "POST", path: "/sign-in", headers });
  const good = await enter({ authorization: "Bearer once" });
  assert.deepEqual([good.status, good.body.toString()], [200, '{"apiKey":"hf_new"}\n']);
  assert.equal(good.headers["cache-control"], "no-store");
  assert.equal((await enter({ authorization: "Bearer twice" })).status, 401);
  assert.equal((await enter({})).status, 401);
  // As a proxy in front would ask.
  assert.equal((await enter({ authorization: "Bearer once", host: "name.example" })).status, 401);
  assert.equal((await enter({ authorization: "Bearer once", origin: "https://evil.example" })).status, 403);
  assert.equal((await ask(rig, 1, { path: "/sign-in?token=once" })).status, 405);
  assert.ok(rig.logLines.length >= 6);
  assert.deepEqual(
    rig.logLines.filter((line) => /\bonce\b|hf_new/.test(line)),
    [],
  );
  const bare = await startHttp(t);
  assert.equal((await ask(bare, 1, { path: "/languages.json" })).status, 404);
  assert.equal((await ask(bare, 1, { method: "POST", path: "/sign-in" })).status, 401);
});
