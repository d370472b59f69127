/** Tokens a day: one server and one API key, at every door and by streams, over a restart. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { z } from "zod";
import { connect, type RunningServer, serve, type ServeOptions } from "../../src/node/index.ts";

const HOME_KEY: Uint8Array = new Uint8Array(32).fill(7);
const DAY_S = 24 * 60 * 60;

const USED = z.object({ usage: z.object({ total_tokens: z.number() }) });
const REFUSED = z.object({
  error: z.object({ message: z.string(), type: z.string(), param: z.null(), code: z.string() }),
});
const REFUSED_MESSAGE = z.object({
  type: z.literal("error"),
  error: z.object({ type: z.string(), message: z.string() }),
});

test("an API key with tokens a day: counted at every door and by streams, refused when used up, over a restart", async (t) => {
  const home = mkdtempSync(join(tmpdir(), "holdfast-spending-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const options: ServeOptions = {
    data: join(home, "data"),
    port: 0,
    onNotice: () => undefined,
    machine: {
      env: { HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url") },
      home,
      platform: process.platform,
      now: Date.now,
    },
  };
  let app: RunningServer = await serve(options);
  t.after(() => app.close());
  const { apiKey, id } = await app.keys.create("alice", "", { tokensPerDay: 30 });
  const { apiKey: free } = await app.keys.create("alice", "", {});
  const post = (path: string, body: object, key = apiKey, headers = {}): Promise<Response> =>
    fetch(`${app.baseUrl}/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "rehearsal", ...body }),
    });
  const ask = (content: string) => ({ messages: [{ role: "user", content }] });
  const spent = async (): Promise<number> =>
    (await app.keys.list()).find((key) => key.id === id)?.tokensToday ?? 0;
  const named = { "idempotency-key": "first" };

  const first = await post("chat/completions", ask("count to 3"), apiKey, named);
  const { usage } = USED.parse(await first.json());
  assert.ok(usage.total_tokens > 0);
  assert.equal(await spent(), usage.total_tokens, "what the model reported is what is counted");
  const again = await post("chat/completions", ask("count to 3"), apiKey, named);
  assert.equal(again.headers.get("x-holdfast-answer"), "replayed");
  await again.text();
  await (await post("chat/completions", ask("count to 3"), free)).text();
  assert.equal(await spent(), usage.total_tokens, "a replay costs nothing, nor does another API key");

  const holdfast = await connect(app.url, { apiKey, directory: home, homeKey: HOME_KEY });
  t.after(() => holdfast.close());
  const turn = await holdfast.conversation("counting").send("count to 40");
  const { usage: used } = await turn.ended;
  assert.equal(
    await spent(),
    usage.total_tokens + used.inputTokens + used.outputTokens + used.cacheReadTokens,
  );
  const late = await (await holdfast.conversation("counting").send("count to 2")).ended;
  assert.equal(late.reason, "lost");
  assert.match(late.error?.message ?? "", /has used its 30 tokens of today/);

  await app.close();
  app = await serve(options);
  for (const path of ["chat/completions", "responses"]) {
    const refused = await post(path, path === "responses" ? { input: "count to 2" } : ask("count to 2"));
    assert.equal(refused.status, 429);
    const { error } = REFUSED.parse(await refused.json());
    assert.deepEqual([error.type, error.code], ["rate_limit_error", "tokens_per_day_exceeded"]);
    assert.match(error.message, /after midnight UTC.*--tokens-per-day/);
    const waitS = Number(refused.headers.get("retry-after"));
    const toMidnightS = DAY_S - ((Date.now() / 1000) % DAY_S);
    assert.ok(Math.abs(waitS - toMidnightS) < 60, `${waitS} and ${toMidnightS}`);
    assert.equal(refused.headers.get("x-should-retry"), "false");
  }
  const message = await post("messages", { ...ask("count to 2"), max_tokens: 50 }, apiKey, {
    "anthropic-version": "2023-06-01",
  });
  assert.equal(message.status, 429);
  assert.equal(REFUSED_MESSAGE.parse(await message.json()).error.type, "rate_limit_error");
  const passed = await post("embeddings", { input: "a" });
  assert.equal(passed.status, 429);
  await passed.text();

  const kept = await post("chat/completions", ask("count to 3"), apiKey, named);
  assert.deepEqual([kept.status, kept.headers.get("x-holdfast-answer")], [200, "replayed"]);
  assert.match(await kept.text(), /1 2 3/);
  assert.equal((await post("chat/completions", ask("count to 2"), free)).status, 200);
  const metrics = await (await fetch(`${app.url}/metrics`)).text();
  assert.match(metrics, new RegExp(`^holdfast_api_key_tokens_refused_total\\{key="${id}"\\} 4$`, "m"));
});

test("every API key without a limit of its own has that of the configuration", async (t) => {
  const home = mkdtempSync(join(tmpdir(), "holdfast-spending-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const env = { HOLDFAST_HOME_KEY: Buffer.from(HOME_KEY).toString("base64url") };
  await using app = await serve({
    data: join(home, "data"),
    port: 0,
    tokensPerDay: 1,
    onNotice: () => undefined,
    machine: { env, home, platform: process.platform, now: Date.now },
  });
  const { apiKey: more } = await app.keys.create("bob", "", { tokensPerDay: 1_000_000 });
  let asked = 0;
  const status = async (key = ""): Promise<number> => {
    const content = `count to ${++asked}`;
    const response = await fetch(`${app.baseUrl}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "rehearsal", messages: [{ role: "user", content }] }),
    });
    await response.text();
    return response.status;
  };
  assert.deepEqual([await status(app.apiKey), await status(app.apiKey)], [200, 429]);
  assert.deepEqual([await status(more), await status(more)], [200, 200]);
});
