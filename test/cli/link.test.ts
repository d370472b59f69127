/** `holdfast link`: another browser gets in without a restart. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf } from "../../src/protocol/fields.ts";
import { Cli, isLetIn } from "./cli-process.ts";

/** As the page does it. */
async function signIn(link: string): Promise<Response> {
  const { origin, hash } = new URL(link);
  const authorization = `Bearer ${hash.replace("#sign-in=", "")}`;
  return fetch(`${origin}/sign-in`, { method: "POST", headers: { authorization } });
}

test("E4, E7: holdfast link makes a link of the running server that signs in once", async (t) => {
  const cli = new Cli(t);
  const none = await cli.run(["link", ...cli.inDataDir]);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no server runs on .*serve/);
  const server = await cli.serve();
  const printed = await cli.run(["link", ...cli.inDataDir]);
  assert.deepEqual([printed.code, printed.stderr], [0, ""]);
  const link = printed.stdout.trim();
  assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/#sign-in=[\w-]{43}$/);
  const answer = await signIn(link);
  const { apiKey } = fieldsOf(await answer.json());
  assert.ok(await isLetIn(server.url, String(apiKey)));
  assert.equal((await signIn(link)).status, 401, "once");
  const { stdout } = await cli.run(["link", "--json", ...cli.inDataDir]);
  const another = String(fieldsOf(JSON.parse(stdout))["link"]);
  assert.notEqual(another, link);
  assert.equal((await signIn(another)).status, 200);
  assert.ok(!(server.stdout() + server.stderr()).includes(link), "no log has it");
});
