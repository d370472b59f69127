/**
 * A turn that fails before it has shown anything is answered with the provider's own status and `retry-after`: clients have rules for each.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ModelFailure, type ModelFailureKind } from "../../src/agent/index.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { bodyOf, CHAT, Exchange, type Line, result, said, user } from "./openai-user.ts";
import { lastTold, PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

const REFUSALS = [
  ["unavailable", 408, "timeout_error"],
  ["rate_limited", 429, "rate_limit_error"],
  ["unavailable", 500, "server_error"],
  ["unavailable", 503, "server_error"],
  ["unavailable", 529, "server_error"],
] as const satisfies readonly (readonly [ModelFailureKind, number, string])[];

function ask(world: World, messages: readonly Line[], more: object): Promise<Response> {
  return fetch(`${world.url}${CHAT}`, {
    method: "POST",
    headers: { authorization: `Bearer ${ALICE_KEY}`, "content-type": "application/json" },
    body: bodyOf(messages, more),
  });
}

for (const stream of [true, false]) {
  const how = stream ? "streamed" : "in one piece";
  test(`${how}: a provider's refusal before the first word is the client's, with its status, type and retry-after`, async (t) => {
    let refusal: readonly [ModelFailureKind, number] = ["unavailable", 503];
    const model = new PacedModel((call) => {
      if (lastTold(call) === "Look") return [{ tool: "look", args: {} }];
      const [kind, status] = refusal;
      return [() => Promise.reject(new ModelFailure(kind, "not now", { status, retryAfterMs: 7_000 }))];
    });
    const world = await World.begin(t, model, { httpLimits: { headHeldMs: 600_000 } });
    const looked = await new Exchange(world.url, bodyOf([user("Look")])).reply();
    const results = looked.calls.map(({ id }) => result(id, "a house"));
    for (const [kind, status, type] of REFUSALS) {
      refusal = [kind, status];
      for (const messages of [[user(`Hello ${status}`)], [user("Look"), said(looked), ...results]]) {
        const response = await ask(world, messages, { stream });
        assert.equal(response.status, status);
        assert.equal(response.headers.get("retry-after"), "7");
        assert.equal(response.headers.get("x-should-retry"), "true");
        assert.match(await response.text(), new RegExp(`"type":"${type}"`));
      }
    }
  });
}
