/**
 * `holdfast backup` beside a server that writes, and a server that is started on the copy.
 */
import assert from "node:assert/strict";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Cli, type Running } from "./cli-process.ts";

function ask(server: Pick<Running, "url">, apiKey: string, key: string, content: string): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      "idempotency-key": key,
    },
    body: JSON.stringify({ model: "rehearsal", stream: true, messages: [{ role: "user", content }] }),
  });
}

test("a backup made while the server writes is whole, and a server on it has what was acknowledged before", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const { apiKey } = server;
  const first = await (await ask(server, apiKey, "before", "count to 5")).text();
  const running = await ask(server, apiKey, "under-way", "count to 200 every 20 ms");
  assert.equal(running.status, 200);
  const copy = join(cli.home, "copies", "today");
  const made = await cli.run(["backup", copy, ...cli.inDataDir]);
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stdout, /today: 2 streams, .*, checked\.\n$/);
  assert.deepEqual(readdirSync(join(copy, "..")), ["today"]);
  assert.deepEqual(readdirSync(copy), ["holdfast.db"]);
  assert.equal(statSync(copy).mode & 0o777, 0o700);
  assert.equal(statSync(join(copy, "holdfast.db")).mode & 0o777, 0o600);
  const again = await cli.run(["backup", copy, ...cli.inDataDir]);
  assert.equal(again.code, 2);
  assert.match(again.stderr, /already exists; name a directory/);
  await running.body?.cancel();
  server.signal("SIGKILL");
  await server.exit;

  const restored = await cli.serve(["--data-dir", copy]);
  const replayed = await ask(restored, apiKey, "before", "count to 5");
  assert.equal(replayed.headers.get("x-holdfast-answer"), "replayed");
  assert.equal(await replayed.text(), first);
  const resumed = await ask(restored, apiKey, "under-way", "count to 200 every 20 ms");
  assert.equal(resumed.headers.get("x-holdfast-answer"), "attached", "an answer that was under way is known");
  await resumed.body?.cancel();
});

test("nothing is left behind where there is nothing to copy", async (t) => {
  const cli = new Cli(t);
  const refused = await cli.run(["backup", join(cli.home, "copy"), ...cli.inDataDir]);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /there is no database of a server/);
  assert.ok(!existsSync(join(cli.home, "copy.partial")));
});

test("a new API key of the same principal has the answers of the old one, which can then be revoked", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const first = await (await ask(server, server.apiKey, "once", "count to 3")).text();
  const made = (await cli.run(["keys", "create", "--label", "new", ...cli.inDataDir])).stdout.trim();
  assert.equal((await cli.run(["keys", "revoke", server.apiKey, ...cli.inDataDir])).code, 0);
  assert.equal((await ask(server, server.apiKey, "once", "count to 3")).status, 401);
  const again = await ask(server, made, "once", "count to 3");
  assert.equal(again.headers.get("x-holdfast-answer"), "replayed");
  assert.equal(await again.text(), first);
});
