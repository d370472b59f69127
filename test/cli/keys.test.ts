import assert from "node:assert/strict";
import { get } from "node:http";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Cli, isLetIn } from "./cli-process.ts";

const SHAPE = /^hf_(?<id>[0-9a-f]{10})_[\w-]{43}\n$/;

test("makes, lists and revokes while no server runs", async (t) => {
  const cli = new Cli(t);
  const created = await cli.run([
    "keys",
    "create",
    "--principal",
    "alice",
    "--label",
    "my laptop",
    ...cli.inDataDir,
  ]);
  assert.equal(created.code, 0);
  assert.match(created.stdout, SHAPE);
  assert.match(created.stderr, /shown this once/);
  const id = SHAPE.exec(created.stdout)?.groups?.["id"] ?? "";
  const listed = await cli.run(["keys", "list", ...cli.inDataDir]);
  assert.match(listed.stdout, /^ID +PRINCIPAL +LABEL +CREATED +LAST USED +STATE\n/);
  assert.match(listed.stdout, new RegExp(`^${id} +alice +my laptop +20\\d\\d-.* UTC +never +valid$`, "m"));
  const whole = await cli.run(["keys", "revoke", created.stdout.trim(), ...cli.inDataDir]);
  assert.deepEqual([whole.code, whole.stdout], [0, `API key ${id} is revoked.\n`]);
  const { stdout } = await cli.run(["keys", "list", "--json", ...cli.inDataDir]);
  const all: unknown = JSON.parse(stdout);
  assert.ok(Array.isArray(all) && all.length === 1);
  const only: unknown = all[0];
  assert.ok(typeof only === "object" && only !== null && "revoked" in only && "lastUsed" in only);
  assert.deepEqual(Object.keys(only), [
    "id",
    "principal",
    "label",
    "created",
    "lastUsed",
    "revoked",
    "limits",
    "tokensToday",
  ]);
  assert.match(String(only.revoked), /^20\d\d-/);
  assert.equal(only.lastUsed, null);
  assert.deepEqual(readdirSync(cli.dataDir).toSorted(), ["holdfast.db", "holdfast.lock"]);
});

test("a running server is asked: a new API key works at once, a revoked one stops at once", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const { stdout } = await cli.run(["keys", "create", "--principal", "bob", "--json", ...cli.inDataDir]);
  const created: unknown = JSON.parse(stdout);
  assert.ok(typeof created === "object" && created !== null && "apiKey" in created && "id" in created);
  assert.ok(typeof created.apiKey === "string" && typeof created.id === "string");
  assert.equal(await isLetIn(server.url, created.apiKey), true);
  const listed = await cli.run(["keys", "list", ...cli.inDataDir]);
  assert.match(listed.stdout, new RegExp(`^${created.id} +bob .* valid$`, "m"));
  assert.ok(!listed.stdout.includes("never\n"), "the state is the last column");
  const revoked = await cli.run(["keys", "revoke", created.id, ...cli.inDataDir]);
  assert.equal(revoked.code, 0);
  assert.equal(await isLetIn(server.url, created.apiKey), false);
  assert.equal(await isLetIn(server.url, server.apiKey), true);
  assert.equal((await fetch(`${server.url}/ready`)).status, 200);
});

test("E7: the control channel wants its token, and no web page", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const file: unknown = JSON.parse(readFileSync(join(cli.dataDir, "control.json"), "utf8"));
  assert.ok(typeof file === "object" && file !== null && "url" in file && "token" in file);
  const { url, token } = file;
  assert.ok(typeof url === "string" && typeof token === "string");
  const ask = async (headers: Record<string, string>, path = "/keys"): Promise<number> =>
    (await fetch(`${url}${path}`, { headers })).status;
  assert.equal(await ask({}), 401);
  assert.equal(await ask({ authorization: `Bearer ${server.apiKey}` }), 401);
  assert.equal(await ask({ authorization: `Bearer ${token}`, origin: "http://127.0.0.1" }), 401);
  assert.equal(await statusUnder("rebound.example", url, token), 401);
  assert.equal(await ask({ authorization: `Bearer ${token}` }, "/other"), 400);
  assert.equal(await ask({ authorization: `Bearer ${token}` }), 200);
  assert.equal(await isLetIn(server.url, token), false);
});

/** By another name for the same address; `fetch` would not lie about it. */
function statusUnder(host: string, url: string, token: string): Promise<number | undefined> {
  const headers = { host, authorization: `Bearer ${token}` };
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  get(`${url}/keys`, { headers, agent: false }, (response) => {
    response.resume();
    resolve(response.statusCode);
  }).on("error", reject);
  return promise;
}

test("what a killed server left behind does not stand in the way", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  server.signal("SIGKILL");
  await server.exit;
  assert.ok(readdirSync(cli.dataDir).includes("control.json"));
  const created = await cli.run(["keys", "create", ...cli.inDataDir]);
  assert.match(created.stdout, SHAPE);
  // Somebody else has the port now: it does not know the token.
  const stranger = new Cli(t);
  const other = await stranger.serve();
  const control = { url: other.url, token: "guessed", pid: other.pid, server: other.url };
  writeFileSync(join(cli.dataDir, "control.json"), JSON.stringify(control));
  assert.match((await cli.run(["keys", "create", ...cli.inDataDir])).stdout, SHAPE);
});

test("mistakes: no directory, no such id, names that cannot be", async (t) => {
  const cli = new Cli(t);
  const none = await cli.run(["keys", "list", ...cli.inDataDir]);
  assert.equal(none.code, 2);
  assert.match(none.stderr, /^holdfast: there is no database of a server in .*--data-dir\n$/);
  assert.ok(!readdirSync(cli.home).includes("data"), "looking leaves nothing behind");
  await cli.run(["keys", "create", ...cli.inDataDir]);
  const unknown = await cli.run(["keys", "revoke", "0123456789", ...cli.inDataDir]);
  assert.deepEqual([unknown.code, unknown.stdout], [1, ""]);
  assert.match(
    unknown.stderr,
    /^holdfast: there is no API key 0123456789; see: \S.* keys list --data-dir .*\n$/,
  );
  const named = await cli.run(["keys", "create", "--principal", "a\tb", ...cli.inDataDir]);
  assert.equal(named.code, 2);
  assert.match(named.stderr, /^holdfast: a principal is plain text without control characters\n$/);
});

test("limits are set at the making, shown by the list, and kept by a running server too", async (t) => {
  const cli = new Cli(t);
  const flags = [
    "--models",
    "acme/*, other/one",
    "--rate",
    "60",
    "--concurrency",
    "4",
    "--parked",
    "20",
  ].concat("--tokens-per-day", "5000000");
  const made = await cli.run(["keys", "create", ...flags, ...cli.inDataDir]);
  assert.match(made.stdout, SHAPE);
  const words = "models acme/*,other/one; 60/min; 4 at once; 20 parked; 5000000 tokens/day";
  assert.ok(made.stderr.includes(words), made.stderr);
  await cli.run(["keys", "create", ...cli.inDataDir]);
  const listed = await cli.run(["keys", "list", ...cli.inDataDir]);
  assert.match(listed.stdout, /^ID .* STATE +LIMITS\n/);
  assert.ok(listed.stdout.includes(`valid  ${words}\n`), listed.stdout);
  assert.match(listed.stdout, /valid +none\n/);

  await cli.serve();
  const asked = await cli.run(["keys", "create", "--rate", "7", "--json", ...cli.inDataDir]);
  assert.match(asked.stdout, /"limits":\{"ratePerMinute":7\}/);
  const all = await cli.run(["keys", "list", "--json", ...cli.inDataDir]);
  assert.match(all.stdout, /"limits":null/);
  assert.match(all.stdout, /"limits":\{"models":\["acme\/\*","other\/one"\],"ratePerMinute":60/);

  const wrong = [
    ["--rate", "0"],
    ["--parked", "1.5"],
    ["--models", "a,,b"],
  ];
  for (const flag of wrong) {
    const { code, stdout } = await cli.run(["keys", "create", ...flag, ...cli.inDataDir]);
    assert.deepEqual([code, stdout], [2, ""], flag.join(" "));
  }
});
