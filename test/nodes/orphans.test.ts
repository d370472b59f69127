/**
 * A turn that waits for its tool's result at a node that is killed and does not return, and that no request asks for again: another node ends it with its time.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { asked, startPostgres } from "../store/postgres/server.ts";
import { CountedProvider, MODEL } from "./counted-provider.ts";
import { startNode } from "./processes.ts";

const API_KEY = "one-api-key-for-all-nodes";
const SESSION_MS = 6_000;

test("F1: the node of a turn that waits dies for good: another one ends the turn when its time is over", async (t) => {
  const postgres = await startPostgres();
  t.after(() => postgres.close());
  const url = await postgres.newDatabase();
  const provider = await CountedProvider.start(t);
  const env = {
    HOLDFAST_HOME_KEY: randomBytes(32).toString("base64url"),
    HOLDFAST_API_KEY: API_KEY,
    ...provider.env,
  };
  const settings = { ...provider.settings, sessionTtlMs: SESSION_MS };
  const [dies, lives] = await Promise.all([0, 1].map(() => startNode(t, url, env, settings)));
  assert.ok(dies !== undefined && lives !== undefined);
  const client = new OpenAI({ baseURL: `${dies.running.url}/v1`, apiKey: API_KEY, maxRetries: 0 });
  const echo = { type: "function", function: { name: "echo", parameters: { type: "object" } } } as const;
  const messages = [{ role: "user", content: "forgotten: use the tool" }] as const;
  const { choices } = await client.chat.completions.create({
    model: MODEL,
    messages: [...messages],
    tools: [echo],
  });
  assert.equal(choices[0]?.finish_reason, "tool_calls");
  const stream = async () => (await asked(url, "SELECT host_id, end_reason FROM holdfast.streams"))[0];
  assert.deepEqual(await stream(), { host_id: dies.hostId, end_reason: null });
  await dies.kill();
  while ((await stream())?.["end_reason"] === null) await sleep(50);
  assert.deepEqual(await stream(), { host_id: lives.hostId, end_reason: "aborted" });
});
