/**
 * Another Holdfast as the provider: an answer of it that breaks is read on from the very frame, and its model is asked once.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test, type TestContext } from "node:test";
import { ModelFailure, type ModelPart } from "../../src/agent/index.ts";
import { createModels, type ProviderModels } from "../../src/agent/models/index.ts";
import { callOf, textIn } from "../agent/models/providers/server.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { behind } from "./cable.ts";
import { PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const TEXT = "The wind is north by east — über dem Meer 🌊 — and it turns before the night.";

async function upstream(
  t: TestContext,
  model = new PacedModel((_, count) => [`Take ${count}. `, TEXT]),
): Promise<{ readonly world: World; readonly models: ProviderModels }> {
  const world = await World.begin(t, model);
  const models = createModels({
    providers: { far: { type: "openai-compatible", baseURL: `${world.url}/v1`, apiKeyEnv: "KEY" } },
    environment: { KEY: ALICE_KEY },
    patience: { backoffMs: 1 },
  });
  return { world, models };
}

async function hear(models: ProviderModels): Promise<readonly ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of models.resolve("far/paced/model").call(callOf())) parts.push(part);
  return parts;
}

test("an answer of another Holdfast is read on behind every cut, and its model is asked once", async (t) => {
  // Behind its head: before it, the request is sent again.
  for (const words of ["Take", "north", "Meer", "turns", '"finish_reason":"stop"']) {
    const { world, models } = await upstream(t);
    const cut = world.cable.cutNextAt(behind(words, 5));
    const parts = await hear(models);
    await Promise.race([cut, delay(10_000).then(() => assert.fail(`not cut at ${words}`))]);
    assert.equal(textIn(parts), `Take 1. ${TEXT}`, words);
    assert.equal(parts.at(-1)?.kind, "finish");
    assert.equal(world.model.calls.length, 1, words);
  }
});

test("an error that the other Holdfast says is its last word: it is not read on, and the client gets its words", async (t) => {
  const refused = (): Promise<never> => Promise.reject(new ModelFailure("invalid_request", "not like this"));
  const { models } = await upstream(t, new PacedModel(() => ["Take it. ", refused]));
  await assert.rejects(hear(models), /not like this/);
});

test("G4: an answer that is not wanted any more is stopped at the other Holdfast", async (t) => {
  const { world, models } = await upstream(t);
  const forever = Promise.withResolvers<void>();
  world.model.script = () => [TEXT, () => forever.promise];
  const stop = new AbortController();
  const hearing = async (): Promise<void> => {
    const call = callOf({ signal: stop.signal });
    for await (const part of models.resolve("far/paced/model").call(call))
      if (part.kind === "text") stop.abort();
  };
  await hearing().catch((error: unknown) => error);
  const [call = assert.fail()] = world.model.calls;
  for (let tries = 0; !call.signal.aborted; tries++) {
    assert.ok(tries < 1_000, "it is stopped");
    await delay(10);
  }
});
