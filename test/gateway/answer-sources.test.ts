/**
 * What an answer cost: each response says what the model did for it, and so do the metrics and the log.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { until } from "../e2e/rig.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { bodyOf, CHAT, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const LINE = z.object({ route: z.string().optional(), answer: z.string().optional() });

test("new, attached, replayed and resumed answers are told apart by a header, by the metrics and in the log", async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await World.begin(t, new PacedModel(() => ["One ", () => gate.promise, "two."]));
  const headers = {
    authorization: `Bearer ${ALICE_KEY}`,
    "idempotency-key": "mine",
    "content-type": "application/json",
  };
  const ask = (): Promise<Response> =>
    fetch(world.url + CHAT, { method: "POST", headers, body: bodyOf([user("Say")]) });
  const first = await ask();
  const attached = await ask();
  const path = first.headers.get("x-holdfast-resume") ?? "";
  const resumed = await fetch(world.url + path, { headers });
  gate.resolve();
  const texts = await Promise.all([first, attached, resumed].map((response) => response.text()));
  assert.equal(new Set(texts.map((text) => text.includes("two."))).size, 1);
  const replayed = await ask();
  await replayed.text();
  assert.deepEqual(
    [first, attached, resumed, replayed].map((response) => response.headers.get("x-holdfast-answer")),
    ["new", "attached", "resumed", "replayed"],
  );
  assert.equal(world.model.calls.length, 1);
  const metrics = world.gateway.metrics();
  for (const how of ["attached", "resumed", "replayed"])
    assert.match(metrics, new RegExp(`^holdfast_gateway_requests_total\\{how="${how}"\\} 1$`, "m"));
  // The line of a request is written when its connection has seen the end of it.
  const sources = (): readonly (string | undefined)[] =>
    world.logLines
      .map((line) => LINE.parse(JSON.parse(line)))
      .filter(({ route }) => route === "chat" || route === "answer")
      .map(({ answer }) => answer);
  await until(() => sources().length === 4, "each request has its line");
  assert.deepEqual(new Set(sources()), new Set(["attached", "new", "replayed", "resumed"]));
});
