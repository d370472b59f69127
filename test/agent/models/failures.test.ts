import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { inspect } from "node:util";
import { type Model, type ModelCall, ModelFailure, type ModelPart } from "../../../src/agent/model.ts";
import { createModels } from "../../../src/agent/models/index.ts";
import {
  API_KEY,
  callOf,
  partsOf,
  portOf,
  ProviderServer,
  refuses,
  silent,
  silentAfter,
  textIn,
  user,
} from "./providers/server.ts";
import {
  answers,
  breaksOff,
  endsEarly,
  failsInside,
  fallsSilent,
  saysGarbage,
  type Wire,
  WIRES,
} from "./providers/wires.ts";

const SECRET_PROMPT = "the anchor lies under the third stone of the pier";

interface Failed {
  readonly failure: ModelFailure;
  readonly parts: readonly ModelPart[];
}

/** Runs a call that must fail, and checks what must be true of every failure. */
async function failing(model: Model, call: Partial<ModelCall> = {}): Promise<Failed> {
  const parts: ModelPart[] = [];
  try {
    for await (const part of model.call(callOf({ messages: [user(SECRET_PROMPT)], ...call })))
      parts.push(part);
  } catch (error) {
    assert.ok(error instanceof ModelFailure, `not a ModelFailure: ${String(error)}`);
    const shown = inspect(error, { depth: null, showHidden: true });
    assert.ok(!shown.includes(API_KEY), "E4: the API key is shown");
    assert.ok(!shown.includes(SECRET_PROMPT), "the prompt is shown");
    assert.match(error.message, /^test\/test-model: .+\. [A-Z].+\.$/s);
    return { failure: error, parts };
  }
  throw new Error("the call did not fail");
}

const quoting = `wrong: ${API_KEY} said "${SECRET_PROMPT}"`;

for (const wire of WIRES) {
  const { type } = wire;

  test(`${type}: the answer comes through`, async (t) => {
    const server = await ProviderServer.start(t, answers(wire));
    const parts = await partsOf(server.model(type));
    assert.equal(textIn(parts), "northeast");
    const last = parts.at(-1);
    assert.ok(last?.kind === "finish" && last.reason === "stop");
  });

  test(`${type}: E4: statuses become kinds, with a remedy and without API key and prompt`, async (t) => {
    const cases = [
      [401, "authentication_error", "unauthenticated"],
      [403, "permission_error", "unauthenticated"],
      [404, "not_found_error", "model_not_found"],
      [400, "invalid_request_error", "invalid_request"],
      [413, "request_too_large", "context_too_long"],
    ] as const;
    for (const [status, code, kind] of cases) {
      const server = await ProviderServer.start(t, refuses(status, wire.error(status, code, quoting)));
      const { failure } = await failing(server.model(type));
      assert.equal(failure.kind, kind, `${status}`);
      assert.equal(failure.status, status);
      assert.equal(server.asked.length, 1, "what will not pass is not tried again");
    }
  });

  test(`${type}: a conversation that is too long is told apart from a wrong request`, async (t) => {
    const server = await ProviderServer.start(t, wire.tooLong);
    const { failure } = await failing(server.model(type));
    assert.equal(failure.kind, "context_too_long");
    assert.match(failure.message, /Summarize/);
  });

  test(`${type}: a failure that passes is tried again before anything was said, three times in all`, async (t) => {
    for (const [status, kind] of [
      [429, "rate_limited"],
      [500, "unavailable"],
      [529, "unavailable"],
    ] as const) {
      const busy = refuses(status, wire.error(status, "busy", "busy"));
      const recovering = await ProviderServer.start(t, busy, busy, answers(wire));
      assert.equal(textIn(await partsOf(recovering.model(type))), "northeast");
      const bodies = new Set(recovering.asked.map(({ text }) => text));
      assert.equal(bodies.size, 1, "each try sends the same bytes");
      const down = await ProviderServer.start(t, busy);
      const { failure } = await failing(down.model(type));
      assert.deepEqual([failure.kind, failure.status, down.asked.length], [kind, status, 3]);
    }
  });

  test(`${type}: a long retry-after is reported and not waited for`, async (t) => {
    const busy = wire.error(429, "rate_limit_error", "busy");
    const server = await ProviderServer.start(t, refuses(429, busy, { "retry-after": "2000" }));
    const { failure } = await failing(server.model(type));
    assert.deepEqual(
      [failure.kind, failure.retryAfterMs, server.asked.length],
      ["rate_limited", 2_000_000, 1],
    );
    assert.match(failure.message, /Wait 2000 s, or use another model\.$/);
  });

  test(`${type}: what breaks after the first word is thrown, and nothing is asked twice`, async (t) => {
    for (const act of [breaksOff, endsEarly, saysGarbage, failsInside]) {
      const server = await ProviderServer.start(t, act(wire));
      const { failure, parts } = await failing(server.model(type));
      assert.equal(failure.kind, "unavailable", act.name);
      assert.equal(textIn(parts), "north", act.name);
      assert.equal(server.asked.length, 1, act.name);
    }
  });

  test(`${type}: an answer that is no answer is a failure`, async (t) => {
    const server = await ProviderServer.start(t, refuses(200, "<html>It works!</html>"));
    const { failure } = await failing(server.model(type));
    assert.equal(failure.kind, "unavailable");
  });

  test(`${type}: a content filter is a failure when nothing was said, else the end of the answer`, async (t) => {
    const server = await ProviderServer.start(t, wire.filtered, wire.filteredLate);
    const { failure } = await failing(server.model(type));
    assert.equal(failure.kind, "content_filtered");
    const parts = await partsOf(server.model(type));
    const last = parts.at(-1);
    assert.ok(last?.kind === "finish");
    assert.deepEqual([textIn(parts), last.reason], ["north", "content_filter"]);
  });

  test(`${type}: F4: silence is a failure, before the first word and after it, and the request is closed`, async (t) => {
    for (const [act, words, requests, clocks] of [
      [silent, "", 3, { firstContentMs: 300 }],
      [fallsSilent(wire), "north", 1, { writingMs: 300 }],
    ] as const) {
      const server = await ProviderServer.start(t, act);
      const { failure, parts } = await failing(server.model(type, { patience: { backoffMs: 1, ...clocks } }));
      assert.equal(failure.kind, "unavailable");
      assert.match(failure.message, /nothing of the answer was received/);
      assert.equal(textIn(parts), words);
      assert.equal(server.asked.length, requests, "a stall is a break like any other");
      await Promise.all(server.asked.map(({ gone }) => gone));
    }
  });

  test(`${type}: an abort ends the request, in the middle of an answer and in a pause between tries`, async (t) => {
    await abortsAt(t, wire);
  });
}

async function abortsAt(t: Parameters<typeof ProviderServer.start>[0], wire: Wire): Promise<void> {
  const server = await ProviderServer.start(t, fallsSilent(wire));
  const controller = new AbortController();
  const reason = new Error("the user has stopped the turn");
  const listening = (async () => {
    const call = callOf({ signal: controller.signal });
    for await (const part of server.model(wire.type).call(call))
      if (part.kind === "text") controller.abort(reason);
  })();
  await assert.rejects(listening, (error) => error === reason);
  await server.asked[0]?.gone;

  const asked = Promise.withResolvers<void>();
  const busy = await ProviderServer.start(t, async (response, request) => {
    await refuses(503, wire.error(503, "busy", "busy"), { "retry-after": "15" })(response, request);
    asked.resolve();
  });
  const pausing = new AbortController();
  const waiting = partsOf(busy.model(wire.type), { signal: pausing.signal });
  await asked.promise;
  pausing.abort(reason);
  await assert.rejects(waiting, (error) => error === reason);
}

// Half of what the clock of a silent provider takes, which would end it as well.
test("G4: a caller that stops listening ends the request", { timeout: 30_000 }, async (t) => {
  const [wire] = WIRES;
  assert.ok(wire !== undefined);
  const server = await ProviderServer.start(t, fallsSilent(wire));
  for await (const part of server.model(wire.type).call(callOf())) if (part.kind === "text") break;
  await server.asked[0]?.gone;
});

test("an answer that is complete may end late: its connection is left alone", async (t) => {
  const wire = WIRES.find(({ type }) => type === "anthropic");
  assert.ok(wire !== undefined);
  const isWhole = Promise.withResolvers<boolean>();
  const isHeard = Promise.withResolvers<void>();
  const server = await ProviderServer.start(t, async (response, asked) => {
    response.once("close", () => isWhole.resolve(response.writableFinished));
    await silentAfter(...wire.answer)(response, asked);
    await isHeard.promise;
    setTimeout(() => response.end(), 50);
  });
  for await (const part of server.model(wire.type).call(callOf())) if (part.kind === "finish") break;
  isHeard.resolve();
  assert.equal(await isWhole.promise, true);
});

test("nobody listens at the address: said, with the system's code", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => closed.once("listening", resolve));
  const port = portOf(closed);
  await new Promise((resolve) => closed.close(resolve));
  const models = createModels({
    providers: { test: { type: "openai-compatible", baseURL: `http://127.0.0.1:${port}/v1` } },
    environment: {},
    patience: { backoffMs: 1 },
  });
  const { failure } = await failing(models.resolve("test/test-model"));
  assert.equal(failure.kind, "unavailable");
  assert.match(failure.message, /ECONNREFUSED.*baseURL/s);
});

test("an account without credit is not asked again", async (t) => {
  const body = {
    error: {
      message: "You exceeded your current quota",
      type: "insufficient_quota",
      code: "insufficient_quota",
    },
  };
  const server = await ProviderServer.start(t, refuses(429, body));
  const { failure } = await failing(server.model("openai"));
  assert.deepEqual([failure.kind, server.asked.length], ["rate_limited", 1]);
  assert.match(failure.message, /billing/);
});

test("Google says a wrong API key and a pause in its own way", async (t) => {
  const wrongKey = {
    error: {
      code: 400,
      status: "INVALID_ARGUMENT",
      message: `bad ${API_KEY}`,
      details: [{ reason: "API_KEY_INVALID" }],
    },
  };
  const later = {
    error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "quota", details: [{ retryDelay: "34.5s" }] },
  };
  const server = await ProviderServer.start(t, refuses(400, wrongKey), refuses(429, later));
  assert.equal((await failing(server.model("google"))).failure.kind, "unauthenticated");
  assert.equal((await failing(server.model("google"))).failure.retryAfterMs, 34_500);
});

test("E4: an API key is hidden as it was sent, also when its variable has white space around it", async (t) => {
  const refusal = { error: { message: "canary_5d41402abc4b2a76 may not do this", type: "x", code: "x" } };
  const server = await ProviderServer.start(t, refuses(400, refusal));
  const environment = { TEST_KEY: " canary_5d41402abc4b2a76\r\n" };
  const { failure } = await failing(server.model("openai-compatible", { environment }));
  assert.match(failure.message, /\*\*\* may not do this/);
  assert.doesNotMatch(failure.message, /canary/);
});

test("without its API key a provider is not asked at all, and the variable is named", async (t) => {
  const server = await ProviderServer.start(t, refuses(200, {}));
  const model = server.model("anthropic", { environment: {} });
  await assert.rejects(partsOf(model), (error) => {
    assert.ok(error instanceof ModelFailure && error.kind === "unauthenticated");
    assert.match(error.message, /TEST_KEY/);
    return true;
  });
  assert.equal(server.asked.length, 0);
});
