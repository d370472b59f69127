/**
 * A provider that redirects: the API key stays with the host that it was configured for.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ModelFailure } from "../../../src/agent/model.ts";
import { createModels } from "../../../src/agent/models/index.ts";
import { API_KEY, partsOf, ProviderServer, refuses } from "./providers/server.ts";
import { answers, WIRES } from "./providers/wires.ts";

for (const wire of WIRES) {
  test(`E4: ${wire.type}: a redirect is not followed; the failure names the host to configure`, async (t) => {
    const elsewhere = await ProviderServer.start(t, answers(wire));
    for (const status of [301, 302, 307, 308]) {
      const server = await ProviderServer.start(
        t,
        refuses(status, "", { location: `${elsewhere.origin}/v1/${API_KEY}` }),
      );
      const failure = await partsOf(server.model(wire.type)).then(
        () => assert.fail("the redirect was followed"),
        (error: unknown) => error,
      );
      assert.ok(failure instanceof ModelFailure, String(failure));
      assert.equal(failure.status, status);
      assert.ok(failure.message.includes(`redirects to ${elsewhere.origin},`), failure.message);
      assert.ok(!failure.message.includes(API_KEY));
      assert.equal(server.asked.length, 1, "it is not asked again");
    }
    assert.equal(elsewhere.asked.length, 0, "the other host heard nothing");
  });
}

// What a program hands in follows redirects by itself; Holdfast's own fetch never does.
for (const { whose, given } of [
  { whose: "its own fetch", given: {} },
  { whose: "the platform's fetch", given: { fetch: globalThis.fetch } },
])
  test(`E4: the list of models is not asked for elsewhere either, by ${whose}`, async (t) => {
    const elsewhere = await ProviderServer.start(t, refuses(200, { data: [{ id: "far" }] }));
    const server = await ProviderServer.start(
      t,
      refuses(307, "", { location: `${elsewhere.origin}/v1/models` }),
    );
    const models = createModels({
      providers: {
        test: {
          type: "openai-compatible",
          baseURL: `${server.origin}/v1`,
          apiKeyEnv: "TEST_KEY",
          headers: { "x-team": "harbour" },
        },
      },
      environment: { TEST_KEY: API_KEY },
      ...given,
    });
    await models.discover();
    assert.deepEqual(
      models.list().map(({ id }) => id),
      ["test/default", "rehearsal/rehearsal"],
    );
    assert.match(models.troubles.join(), /^test: the provider cannot answer .*redirects to/);
    assert.deepEqual([server.asked.length, elsewhere.asked.length], [1, 0]);
  });
