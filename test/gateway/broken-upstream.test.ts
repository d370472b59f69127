/**
 * A provider breaks off, and what an OpenAI client sees of it: nothing, where nothing was final; a clean error, where it was.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { createAgent } from "../../src/agent/index.ts";
import { createModels } from "../../src/agent/models/index.ts";
import {
  type Act,
  API_KEY,
  cutAfter,
  events,
  ProviderServer,
  refuses,
} from "../agent/models/providers/server.ts";
import { answers, type Wire, WIRES } from "../agent/models/providers/wires.ts";
import { bodyOf, Exchange, type Reply, tool, user } from "./openai-user.ts";
import { PacedModel } from "./paced-model.ts";
import { World } from "./world.ts";

interface Asked {
  readonly world: World;
  readonly server: ProviderServer;
  readonly ask: (more?: object) => Promise<Reply>;
}

/** The gateway and the agent as in production, with a provider on loopback behind the model that the world lists. */
async function provided(t: TestContext, { type }: Wire, ...acts: readonly Act[]): Promise<Asked> {
  const server = await ProviderServer.start(t, ...acts);
  const models = createModels({
    providers: { paced: { type, baseURL: `${server.origin}/v1`, apiKeyEnv: "KEY" } },
    environment: { KEY: API_KEY },
    patience: { backoffMs: 1 },
  });
  const application = createAgent({ models, backoffMs: 1 });
  const world = await World.begin(t, new PacedModel(() => []), { application });
  const ask = (more: object = {}): Promise<Reply> =>
    new Exchange(
      world.url,
      bodyOf([user("Which way is the wind?")], { tools: [tool("read")], ...more }),
    ).reply();
  return { world, server, ask };
}

test("the fallback that answers is the model of the response, streamed or not", async (t) => {
  const [chat, claude] = [wireOf("openai-compatible"), wireOf("anthropic")];
  const down = await ProviderServer.start(t, refuses(503, { error: { message: "down" } }));
  const spare = await ProviderServer.start(t, answers(chat));
  const providers = {
    paced: { type: claude.type, baseURL: `${down.origin}/v1`, apiKeyEnv: "KEY" },
    spare: { type: chat.type, baseURL: `${spare.origin}/v1`, apiKeyEnv: "KEY" },
  };
  const models = createModels({ providers, environment: { KEY: API_KEY }, patience: { backoffMs: 1 } });
  const application = createAgent({ models, backoffMs: 1 });
  const world = await World.begin(t, new PacedModel(() => []), { application, providers: models });
  const modelsIn = (body: string): ReadonlySet<string> =>
    new Set([...body.matchAll(/"model":"(?<id>[^"]+)"/g)].map(({ groups }) => groups?.["id"] ?? ""));
  const ask = (more: object): Promise<Reply> =>
    new Exchange(
      world.url,
      bodyOf([user("Which way is the wind?")], { models: ["spare/m"], ...more }),
    ).reply();
  const streamed = await ask({});
  assert.equal(streamed.text, "northeast", streamed.body);
  const whole = await ask({ stream: false });
  assert.deepEqual([...modelsIn(whole.body)], ["spare/m"]);
  const [, ...later] = [...modelsIn(streamed.body)];
  assert.deepEqual(later, ["spare/m"], "behind the role, which leaves before it is known");
  const other = await ask({ models: ["nobody/m"] });
  assert.equal(other.status, 404, other.body);
});

const wireOf = (type: Wire["type"]): Wire =>
  WIRES.find((wire) => wire.type === type) ?? assert.fail(`no wire ${type}`);

function reasoningIn({ body }: Reply): string {
  return [...body.matchAll(/"reasoning_content":(?<words>"[^"]*")/g)]
    .map(({ groups }) => String(JSON.parse(groups?.["words"] ?? '""')))
    .join("");
}

for (const wire of WIRES) {
  const { type, answer, begun, calling, thought, calledHalf } = wire;

  test(`${type}: a break in a tool call is not noticed by a client that streams`, async (t) => {
    const broken = events(...calling.slice(0, calledHalf));
    const { server, ask } = await provided(t, wire, broken, events(...calling));
    const reply = await ask();
    assert.deepEqual([reply.status, reply.finish, reply.error], [200, "tool_calls", undefined]);
    assert.deepEqual(
      reply.calls.map(({ name, args }) => [name, args]),
      [["read", '{"path":"a.txt"}']],
    );
    assert.ok(reply.isWhole);
    assert.equal(server.asked.length, 2);
  });

  test(`${type}: a break in a thought is followed by another thought, not compared with it`, async (t) => {
    const other = calling.map((event): unknown =>
      JSON.parse(JSON.stringify(event).replaceAll('"hm"', '"aha"')),
    );
    const { server, ask } = await provided(t, wire, cutAfter(...calling.slice(0, thought)), events(...other));
    const reply = await ask();
    assert.deepEqual([reply.finish, reply.error, reply.calls.length], ["tool_calls", undefined, 1]);
    assert.equal(reasoningIn(reply), "hm\n\naha");
    assert.ok(reply.isWhole);
    assert.equal(server.asked.length, 2);
  });

  test(`${type}: a break in text that was streamed is a clean error; one that was not streamed is made good`, async (t) => {
    const broken = cutAfter(...answer.slice(0, begun));
    const { server, ask } = await provided(t, wire, broken, answers(wire), broken, answers(wire));
    const cut = await ask();
    assert.deepEqual(
      [cut.text, cut.finish, cut.error],
      ["north", undefined, "server_error upstream_interrupted"],
    );
    assert.ok(!cut.isWhole);
    assert.doesNotMatch(cut.body, /\[DONE\]/);
    assert.equal(server.asked.length, 1);
    const again = await ask();
    assert.deepEqual([again.text, again.isWhole], ["northeast", true], "the same request is asked anew");
    const whole = await ask({ stream: false });
    assert.equal(whole.status, 200);
    assert.match(whole.body, /"content":"northeast"/);
    assert.equal(server.asked.length, 4);
  });

  test(`${type}: a stream that has said nothing yet answers with the provider's status and pause`, async (t) => {
    const later = refuses(429, wire.error(429, "rate_limit_error", "busy"), { "retry-after": "15" });
    const { server, ask } = await provided(t, wire, later);
    const reply = await ask();
    assert.equal(reply.status, 429);
    assert.match(reply.body, /rate_limit_exceeded/);
    assert.equal(server.asked.length, 1);
  });
}
