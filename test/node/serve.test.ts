/** A server in a program of one's own: `serve` and `connect` of the package, over a real port and a real database. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { connect, serve, type ServeOptions } from "../../src/node/index.ts";

const HOME_KEY: Uint8Array = new Uint8Array(32).fill(7);

function optionsIn(t: TestContext): ServeOptions & { readonly data: string } {
  const home = mkdtempSync(join(tmpdir(), "holdfast-serve-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const env = { HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url") };
  return {
    data: join(home, "data"),
    port: 0,
    onNotice: () => undefined,
    machine: { env, home, platform: process.platform, now: Date.now },
  };
}

test("a program serves, is asked by an OpenAI client and by its own, stops, and serves the same again", async (t) => {
  const options = optionsIn(t);
  const first = await serve(options);
  t.after(() => first.close());
  const { apiKey } = first;
  assert.ok(apiKey !== undefined);
  const answered = await fetch(`${first.baseUrl}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content: "count to 3" }] }),
  });
  assert.match(await answered.text(), /"content":"1 2 3 "/);

  const holdfast = await connect(first.url, { apiKey, directory: options.data, homeKey: HOME_KEY });
  t.after(() => holdfast.close());
  const turn = await holdfast.conversation("counting").send("count to 2");
  assert.equal((await turn.ended).text, "1 2 ");
  assert.equal(first.runningTurns(), 0);
  await first.close();
  await first.close();

  await using again = await serve(options);
  assert.equal(again.apiKey, apiKey, "the API key of the first start is found again");
  assert.deepEqual((await again.keys.list()).length, 1);
});

test("what stands in the way of a start is said in one line, and nothing is left open behind it", async (t) => {
  const options = optionsIn(t);
  const other = createTcpServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  t.after(() => other.close());
  const { port } = addressOf(other.address());
  await assert.rejects(serve({ ...options, port }), {
    message: `port ${port} is in use on 127.0.0.1; stop the program that uses it, or choose another with HOLDFAST_PORT, the option port or --port`,
  });
  await assert.rejects(
    serve({ ...options, host: "0.0.0.0" }),
    /there is no API key: make one with `holdfast keys/,
  );
  // The database is free again, or this start would be refused.
  await (await serve(options)).close();
});

test("options that are wrong are refused by their names", async (t) => {
  const options = optionsIn(t);
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{ prot: 1 }, /: prot is not known; did you mean "port"\?$/],
    [{ port: 70_000 }, /: port must be a whole number from 0 to 65535, not 70000$/],
    [{ apiKey: "short" }, /apiKey must have at least 20/],
    [{ retentionMs: 0.5 }, /retentionMs must be a whole number/],
    [{ responseTtlMs: 0.5 }, /responseTtlMs must be a whole number/],
  ];
  for (const [more, message] of wrong) await assert.rejects(serve({ ...options, ...more }), message);
});

function addressOf(address: AddressInfo | string | null): AddressInfo {
  assert.ok(typeof address === "object" && address !== null);
  return address;
}
