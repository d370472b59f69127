/**
 * A provider breaks a step off, at every place and in every wire format: what begins anew, what fails, and what it costs.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { createAgent, type Model, type ModelPart } from "../../src/agent/index.ts";
import { createModels } from "../../src/agent/models/index.ts";
import { type AgentServerMessage, FailureKind, TurnEndReason } from "../../src/protocol/messages.ts";
import { StepRequests } from "../../src/agent/step-requests.ts";
import { KeepingClient, readDone } from "./keeping-client.ts";
import {
  type Act,
  API_KEY,
  cutAfter,
  events,
  ProviderServer,
  refuses,
  silentAfter,
} from "./models/providers/server.ts";
import { answers, upTo, type Wire, WIRES } from "./models/providers/wires.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { endOf, kindsOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

interface Played {
  readonly host: TurnHost;
  readonly client: KeepingClient;
  readonly server: ProviderServer;
  /** Asks, and resolves when the turn is over. */
  readonly finish: () => Promise<void>;
}

interface Question {
  readonly isFinal?: boolean;
  readonly isJson?: boolean;
}

async function play(t: TestContext, wire: Wire, acts: readonly Act[], asked: Question = {}): Promise<Played> {
  const server = await ProviderServer.start(t, ...acts);
  const models = createModels({
    providers: { test: { type: wire.type, baseURL: `${server.origin}/v1`, apiKeyEnv: "KEY" } },
    environment: { KEY: API_KEY },
    patience: { backoffMs: 1, writingMs: 1_000, pingedWritingMs: 1_000 },
  });
  const { isFinal = false, isJson = false } = asked;
  const agent = createAgent({ models, backoffMs: 1 });
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => readDone("calm");
  const format = { format: { case: "json", value: {} } } as const;
  const options = { shownIsFinal: isFinal, ...(isJson ? { responseFormat: format } : {}) };
  const finish = async (): Promise<void> => {
    const over = host.finish(agent);
    // Behind the beginning of the run: nothing was lost before.
    client.ask("Which way is the wind?", { model: "test/test-model", options });
    await over;
  };
  return { host, client, server, finish };
}

/** What else the other side does about an update, when it is durable. */
function onUpdate(host: TurnHost, kind: string, act: () => void): void {
  const { onEvent } = host;
  host.onEvent = (event, eventId) => {
    onEvent(event, eventId);
    const { message } = event;
    if (message.case === "interactionUpdate" && message.value.message.case === kind) act();
  };
}

function restartsIn(messages: readonly AgentServerMessage[]): readonly number[] {
  return messages.flatMap(({ message }) =>
    message.case === "interactionUpdate" && message.value.message.case === "stepRestarted"
      ? [message.value.message.value.requestsBefore]
      : [],
  );
}

const wireOf = (type: Wire["type"]): Wire =>
  WIRES.find((wire) => wire.type === type) ?? assert.fail(`no wire ${type}`);

const thinkingBreaks = ({ calling, thought }: Wire): Act => cutAfter(...calling.slice(0, thought));
const argumentsBreak = ({ calling, calledHalf }: Wire): Act => events(...calling.slice(0, calledHalf));
const textBreaks = ({ answer, begun }: Wire): Act => cutAfter(...answer.slice(0, begun));
/** Its last event ends with the first half of a character. */
const characterBegun = ({ format }: Wire): readonly unknown[] => {
  const frames = format.frames({ text: ["north \ud83c", "\udf0a"] });
  return frames.slice(0, upTo(frames, "text")).map(({ data }) => data);
};
const textStalls = ({ answer, begun }: Wire): Act => silentAfter(...answer.slice(0, begun));

for (const wire of WIRES) {
  for (const isFinal of [false, true]) {
    const who = isFinal ? "for an OpenAI stream" : "for a client that can roll back";
    test(`${wire.type}: G1: a step that breaks before any text begins anew, ${who}`, async (t) => {
      for (const broken of [thinkingBreaks(wire), argumentsBreak(wire)]) {
        const played = await play(t, wire, [broken, answers(wire)], { isFinal });
        await played.finish();
        const { messages } = played.host;
        assert.equal(endOf(messages).reason, TurnEndReason.COMPLETED);
        assert.equal(textOf(messages), "northeast");
        assert.deepEqual(restartsIn(messages), [1]);
        assert.equal(played.server.asked.length, 2);
        assert.equal(played.client.carriedOut.length, 0, "a call of a broken step is never carried out");
      }
    });
  }

  test(`${wire.type}: G1: a step that breaks in its text begins anew where it can be rolled back`, async (t) => {
    for (const broken of [textBreaks(wire), textStalls(wire)]) {
      const { host, finish, server } = await play(t, wire, [broken, answers(wire)]);
      await finish();
      assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
      assert.equal(textOf(host.messages), "northeast");
      assert.equal(restartsIn(host.messages).length, 1);
      assert.equal(server.asked.length, 2);
      await Promise.all(server.asked.slice(0, 1).map(({ gone }) => gone));
    }
  });

  test(`${wire.type}: G1: half of a character that was broken off is never said`, async (t) => {
    const begun = characterBegun(wire);
    for (const broken of [cutAfter(...begun), events(...begun)]) {
      const { host, finish } = await play(t, wire, [broken], { isFinal: true });
      await finish();
      assert.equal(endOf(host.messages).failure?.kind, FailureKind.UPSTREAM_INTERRUPTED);
      assert.equal(textOf(host.messages), "north ");
    }
  });

  test(`${wire.type}: G1: text that is final is never begun anew: the turn fails as interrupted`, async (t) => {
    for (const [broken, isJson] of [
      [textBreaks(wire), false],
      [textStalls(wire), false],
      [textBreaks(wire), true],
    ] as const) {
      const { host, finish, server } = await play(t, wire, [broken, answers(wire)], {
        isFinal: true,
        isJson,
      });
      await finish();
      const { reason, failure } = endOf(host.messages);
      // Anthropic's SDK keeps JSON back until it is whole: nothing of it was shown.
      const isUnshown = isJson && textOf(host.messages) !== "north";
      if (isUnshown) continue;
      assert.equal(reason, TurnEndReason.FAILED);
      assert.equal(failure?.kind, FailureKind.UPSTREAM_INTERRUPTED);
      assert.equal(textOf(host.messages), "north");
      assert.equal(server.asked.length, 1, "nothing is paid twice");
    }
  });

  test(`${wire.type}: a call that came whole is carried out once, whatever broke before`, async (t) => {
    const acts = [argumentsBreak(wire), events(...wire.calling), answers(wire)];
    const { host, client, finish, server } = await play(t, wire, acts, { isFinal: true });
    await finish();
    assert.equal(textOf(host.messages), "northeast");
    assert.equal(client.carriedOut.length, 1);
    assert.equal(server.asked.length, 3);
  });
}

test("G1: arguments that break behind text which is final are as text", async (t) => {
  const wire = wireOf("openai-compatible");
  const said = [...wire.answer.slice(0, wire.begun), ...wire.calling.slice(wire.thought, wire.calledHalf)];
  for (const isFinal of [false, true]) {
    const { host, finish, server } = await play(t, wire, [cutAfter(...said), answers(wire)], { isFinal });
    await finish();
    const { failure } = endOf(host.messages);
    assert.equal(failure?.kind, isFinal ? FailureKind.UPSTREAM_INTERRUPTED : undefined);
    assert.equal(server.asked.length, isFinal ? 1 : 2);
  }
});

test("F1: a step that breaks every time begins anew three times; then the turn fails with what the provider did", async (t) => {
  const wire = wireOf("anthropic");
  const { host, finish, server } = await play(t, wire, [textBreaks(wire)]);
  await finish();
  const { failure } = endOf(host.messages);
  assert.equal(failure?.kind, FailureKind.MODEL_UNAVAILABLE);
  assert.match(failure?.message ?? "", /its answer broke off/);
  assert.deepEqual(restartsIn(host.messages), [1, 2, 3]);
  assert.equal(server.asked.length, 4);
});

const BUSY = refuses(503, { error: { message: "busy" } });

test("G2: a step sends at most twelve requests, over all tries and new attempts", async (t) => {
  const wire = wireOf("openai-compatible");
  const attempt = [BUSY, BUSY, thinkingBreaks(wire)];
  const acts = [...attempt, ...attempt, ...attempt, ...attempt, answers(wire)];
  const { host, finish, server } = await play(t, wire, acts);
  await finish();
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.MODEL_UNAVAILABLE);
  assert.deepEqual(restartsIn(host.messages), [3, 6, 9]);
  assert.equal(server.asked.length, 12);
});

test("G2: kills are counted: a step whose server dies each time sends twelve requests, and no more", async (t) => {
  const wire = wireOf("openai-compatible");
  const hangs = silentAfter(...wire.calling.slice(0, wire.thought));
  const attempt = [BUSY, BUSY, hangs];
  const acts = [...attempt, ...attempt, ...attempt, ...attempt, answers(wire)];
  const { host, finish, server } = await play(t, wire, acts);
  onUpdate(host, "thinkingDelta", () => host.lose());
  await finish();
  assert.equal(endOf(host.messages).failure?.kind, FailureKind.RESTARTS_EXHAUSTED);
  assert.deepEqual(restartsIn(host.messages), [3, 6, 9]);
  assert.equal(server.asked.length, 12);
  assert.equal(host.runs, 5);
  await Promise.all(server.asked.filter((_, at) => at % 3 === 2).map(({ gone }) => gone));
});

/** Google ends a long answer in the middle, and the SDK asks for the rest with another request. */
const continues = (text: string): Act =>
  events({
    candidates: [
      {
        content: { role: "model", parts: [{ text }] },
        finishReason: "CONTINUATION",
        continuationToken: "more",
      },
    ],
    usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 2 },
  });

test("G2: the requests by which an answer is continued are counted, also in an attempt that was killed", async (t) => {
  const wire = wireOf("google");
  // The last one hangs: while it is read, no further request can be under way.
  const hangs = silentAfter({ candidates: [{ content: { role: "model", parts: [{ text: "piece 4 " }] } }] });
  const pieces = [...Array.from({ length: 4 }, (_, at) => continues(`piece ${at} `)), hangs];
  const { host, finish, server } = await play(t, wire, [...pieces, ...pieces, ...pieces, ...pieces]);
  onUpdate(host, "textDelta", () => {
    if (textOf(host.messages).includes("piece 4")) host.lose();
  });
  await finish();
  assert.deepEqual(restartsIn(host.messages), [5, 10]);
  assert.equal(server.asked.length, 12);
});

test("G1: that text is final is in the log: a server that was restarted decides the same", async (t) => {
  for (const isFinal of [false, true]) {
    const wire = wireOf("anthropic");
    const hangs = silentAfter(...wire.calling.slice(0, wire.thought));
    const acts = [hangs, textBreaks(wire), answers(wire)];
    const { host, finish, server } = await play(t, wire, acts, { isFinal });
    onUpdate(host, "thinkingDelta", () => host.lose());
    await finish();
    const { failure } = endOf(host.messages);
    assert.equal(failure?.kind, isFinal ? FailureKind.UPSTREAM_INTERRUPTED : undefined);
    assert.deepEqual(restartsIn(host.messages), isFinal ? [3] : [3, 4]);
    assert.equal(server.asked.length, isFinal ? 2 : 3);
  }
});

test("G2: a first request whose event was lost with its server is counted all the same", async () => {
  const host = new TurnHost();
  let calls = 0;
  const answering = ScriptedModel.steps(["Hello"]);
  const dying: Model = {
    id: answering.id,
    contextTokensMax: 1_000,
    call(call): AsyncIterable<ModelPart> {
      if (calls++ === 0) host.lose();
      return answering.call(call);
    },
  };
  const client = new KeepingClient(host);
  client.ask("Hi");
  await host.finish(createAgent({ models: { resolve: () => dying, list: () => [] } }));
  const begun = host.messages.flatMap(({ message }) =>
    message.case === "interactionUpdate" && message.value.message.case === "stepStarted"
      ? [message.value.message.value.requestsBefore]
      : [],
  );
  assert.deepEqual(begun, [1]);
  assert.equal(calls, 2);
});

test("a provider that asks for a pause beyond the head of a stream fails at once, with its status and its pause", async (t) => {
  for (const wire of WIRES) {
    const later = refuses(429, wire.error(429, "rate_limit_error", "busy"), { "retry-after": "15" });
    const { host, finish, server } = await play(t, wire, [later, answers(wire)], { isFinal: true });
    await finish();
    const { failure } = endOf(host.messages);
    assert.equal(failure?.kind, FailureKind.RATE_LIMITED);
    assert.deepEqual([failure?.providerStatus, failure?.retryAfterMs], [429, 15_000]);
    assert.equal(server.asked.length, 1);
  }
});

test("a pause that ends within the head of a stream is waited for", async (t) => {
  const wire = wireOf("openai");
  const soon = refuses(429, wire.error(429, "rate_limit_error", "busy"), { "retry-after-ms": "20" });
  const { host, finish, server } = await play(t, wire, [soon, answers(wire)], { isFinal: true });
  await finish();
  assert.equal(textOf(host.messages), "northeast");
  assert.equal(server.asked.length, 2);
});

test("how long a step may wait: within the held head, and freely once it has left or is none", async () => {
  let nowMs = 50_000;
  const tell = (): void => undefined;
  const options = { before: 0, now: () => nowMs, tell, untilDurable: () => Promise.resolve() };
  const held = new StepRequests({ ...options, isHeadHeld: true });
  await held.take();
  nowMs += 4_000;
  assert.deepEqual(
    [6_000, 6_001].map((pauseMs) => held.mayWait(pauseMs)),
    [true, false],
  );
  nowMs += 6_000;
  assert.ok(held.mayWait(20_000), "the head has left: there is nothing to tell by a status");
  const free = new StepRequests({ ...options, isHeadHeld: false });
  await free.take();
  assert.ok(free.mayWait(20_000));
  const spent = new StepRequests({ ...options, before: 12, isHeadHeld: false });
  assert.ok(!spent.mayWait(0));
  await assert.rejects(spent.take(), /12 times/);
});

test("G2: another request leaves when what was said so far is on disk", async () => {
  const disk = Promise.withResolvers<void>();
  const tell = (): void => undefined;
  const options = { before: 0, now: () => 0, isHeadHeld: false, tell, untilDurable: () => disk.promise };
  const requests = new StepRequests(options);
  await requests.take();
  let hasLeft = false;
  const second = requests.take().then(() => (hasLeft = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(hasLeft, false);
  disk.resolve();
  await second;
  assert.equal(requests.sent, 2);
});

test("G4: a turn that is cancelled or aborted leaves nothing running at the provider, and asks no more", async (t) => {
  for (const wire of WIRES) {
    for (const how of ["cancel", "abort"] as const) {
      const hangs = silentAfter(...wire.answer.slice(0, wire.begun));
      const { host, finish, server } = await play(t, wire, [hangs]);
      onUpdate(host, "textDelta", () => {
        const action = { case: "cancelAction", value: { reason: "enough" } } as const;
        if (how === "abort") host.abort();
        else host.say({ case: "conversationAction", value: { action } });
      });
      await finish();
      await server.asked[0]?.gone;
      assert.deepEqual(restartsIn(host.messages), []);
      assert.equal(server.asked.length, 1, `${wire.type} ${how}`);
      assert.ok(kindsOf(host.messages).includes("turnEnded"));
    }
  }
});

test("G4: a turn that is cancelled in the pause before a new attempt asks no more", async (t) => {
  const wire = wireOf("google");
  const details = [{ retryDelay: "15s" }];
  const later = { error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "quota", details } };
  const acts = [events(...wire.calling.slice(0, wire.thought), later), answers(wire)];
  const { host, finish, server } = await play(t, wire, acts);
  onUpdate(host, "thinkingDelta", () => {
    const action = { case: "cancelAction", value: { reason: "enough" } } as const;
    // Within the pause; earlier it would end the call itself, which asks no more either.
    setTimeout(() => host.say({ case: "conversationAction", value: { action } }), 300);
  });
  await finish();
  assert.equal(server.asked.length, 1);
  assert.equal(endOf(host.messages).reason, TurnEndReason.ABORTED);
});
