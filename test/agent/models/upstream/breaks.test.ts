/**
 * A provider whose connection breaks at every place: what is whole counts, what is not counts nothing, and nobody waits for a ping.
 */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { type Model, ModelFailure, type ModelPart } from "../../../../src/agent/model.ts";
import { createModels, type ModelsOptions } from "../../../../src/agent/models/index.ts";
import { TOOLS } from "../conversation.ts";
import {
  begin,
  type Act,
  API_KEY,
  callOf,
  cutAfter,
  events,
  partsOf,
  ProviderServer,
  silentAfter,
  textIn,
} from "../providers/server.ts";
import { answers, type Wire, WIRES } from "../providers/wires.ts";

/** Short, for what is to run out; everything else takes as long as it takes. */
const SHORT = 200;

interface Heard {
  readonly parts: readonly ModelPart[];
  readonly failure: ModelFailure | undefined;
}

async function hear(model: Model): Promise<Heard> {
  const parts: ModelPart[] = [];
  try {
    for await (const part of model.call(callOf({ tools: TOOLS }))) parts.push(part);
  } catch (failure) {
    assert.ok(failure instanceof ModelFailure, String(failure));
    return { parts, failure };
  }
  return { parts, failure: undefined };
}

const kindsOf = (parts: readonly ModelPart[]): readonly string[] => parts.map(({ kind }) => kind);

const ENDS: readonly (readonly [string, (...events: readonly unknown[]) => Act])[] = [
  ["the connection is cut", cutAfter],
  ["the body ends in good order", events],
  ["the server keeps the connection open", silentAfter],
];

for (const wire of WIRES) {
  for (const [how, act] of ENDS) {
    test(`${wire.type}: behind its finish marker an answer is whole, although ${how}`, async (t) => {
      for (const [said, finished] of [
        [wire.answer, wire.finished],
        [wire.calling, wire.calling.length - (wire.answer.length - wire.finished)],
      ] as const) {
        const server = await ProviderServer.start(t, act(...said.slice(0, finished)));
        const { parts, failure } = await hear(server.model(wire.type));
        assert.equal(failure, undefined, failure?.message);
        assert.equal(parts.at(-1)?.kind, "finish");
        if (said === wire.answer) assert.equal(textIn(parts), "northeast");
        else assert.ok(kindsOf(parts).includes("tool_call"));
        assert.equal(server.asked.length, 1);
      }
    });
  }

  test(`${wire.type}: G3: before its finish marker an answer is broken at every place, and none of its calls counts`, async (t) => {
    const whole = wire.calling.length - (wire.answer.length - wire.finished);
    for (const act of [cutAfter, events]) {
      for (let count = wire.thought; count < whole; count++) {
        const server = await ProviderServer.start(t, act(...wire.calling.slice(0, count)));
        const { parts, failure } = await hear(server.model(wire.type));
        const place = `${act.name} behind ${count} of ${whole} events`;
        assert.equal(failure?.kind, "unavailable", place);
        assert.ok(failure.isPassing, place);
        assert.ok(!kindsOf(parts).includes("finish"), place);
        // Chat completions have no end of a call but the answer's own; Google says a call whole.
        const isOpen = wire.type === "openai-compatible" || count < wire.calledHalf;
        if (isOpen || (count === wire.calledHalf && wire.type !== "google"))
          assert.ok(!kindsOf(parts).includes("tool_call"), `${place}: ${JSON.stringify(parts)}`);
      }
    }
  });

  test(`${wire.type}: half an event is never passed on`, async (t) => {
    const server = await ProviderServer.start(t, (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const one of wire.answer.slice(0, wire.begun)) response.write(frame(one));
      const next = frame(wire.answer[wire.begun]);
      response.end(next.slice(0, next.length / 2));
    });
    const { parts, failure } = await hear(server.model(wire.type));
    assert.equal(textIn(parts), "north");
    assert.match(failure?.message ?? "", /its answer broke off/);
  });

  test(`${wire.type}: before any content a break is tried again, three times in all`, async (t) => {
    const [first] = wire.answer.slice(0, wire.type === "google" ? 0 : 1);
    for (const act of [cutAfter, events]) {
      const nothing = act(...(first === undefined ? [] : [first]));
      const server = await ProviderServer.start(t, nothing, nothing, answers(wire));
      assert.equal(textIn((await hear(server.model(wire.type))).parts), "northeast");
      assert.equal(server.asked.length, 3);
    }
  });
}

test("openai: an item in which nothing was said is no content: a break behind it is tried again", async (t) => {
  const wire = wireOf("openai");
  const [created, added] = wire.answer;
  const done = wire.answer[wire.answer.length - 2];
  const sealed = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: "sealed" };
  const beginnings = [
    [created, added],
    [created, added, done],
    [
      created,
      { type: "response.output_item.added", output_index: 0, item: sealed },
      { type: "response.output_item.done", output_index: 0, item: sealed },
    ],
  ];
  for (const said of beginnings) {
    const server = await ProviderServer.start(t, cutAfter(...said), answers(wire));
    const { parts, failure } = await hear(server.model(wire.type));
    assert.equal(failure, undefined, failure?.message);
    assert.equal(textIn(parts), "northeast");
    // What the broken try left behind is not part of the answer.
    assert.deepEqual(kindsOf(parts), ["text", "text", "text_end", "finish"]);
    assert.equal(server.asked.length, 2);
  }
});

function frame(event: unknown): string {
  const data = typeof event === "string" ? event : JSON.stringify(event);
  return `data: ${data}\n\n`;
}

function wireOf(type: Wire["type"]): Wire {
  return WIRES.find((wire) => wire.type === type) ?? assert.fail(`no wire ${type}`);
}

/** Says it, and then pings for ever. */
function pinging(said: readonly unknown[], ping: string): Act {
  return (response, { gone }) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const one of said) response.write(frame(one));
    const timer = setInterval(() => response.write(ping), 20);
    void gone.then(() => clearInterval(timer));
  };
}

const PINGS = [
  ["anthropic", 'event: ping\ndata: {"type":"ping"}\n\n'],
  ["openai-compatible", ": OPENROUTER PROCESSING\n\n"],
  ["openai", ": keep-alive\n\n"],
  ["google", ": keep-alive\n\n"],
] as const;

for (const [type, ping] of PINGS) {
  test(`G5: ${type}: a provider that only pings is not waited for without end`, async (t) => {
    const wire = wireOf(type);
    const places: readonly (readonly [string, readonly unknown[], NonNullable<ModelsOptions["patience"]>])[] =
      [
        ["first", [], { firstContentMs: SHORT }],
        ["text", wire.answer.slice(0, wire.begun), { writingMs: SHORT, pingedWritingMs: SHORT }],
        ["thinking", wire.calling.slice(0, wire.thought), { thinkingMs: SHORT }],
      ];
    for (const [place, said, clocks] of places) {
      const server = await ProviderServer.start(t, pinging(said, ping));
      const { failure } = await hear(server.model(type, { patience: { backoffMs: 1, ...clocks } }));
      assert.match(failure?.message ?? "", /nothing of the answer was received/, place);
      assert.equal(server.asked.length, place === "first" ? 3 : 1, place);
      await Promise.all(server.asked.map(({ gone }) => gone));
    }
  });
}

for (const own of ["silenceMs", "writingSilenceMs"] as const)
  test(`F4: ${own} of a provider ends an answer that stands still in its text`, async (t) => {
    const { type, answer, begun } = wireOf("openai-compatible");
    const server = await ProviderServer.start(t, (response) => {
      begin(response);
      response.write(answer.slice(0, begun).map(frame).join(""));
    });
    const baseURL = `${server.origin}/v1`;
    const providers = { test: { type, baseURL, apiKeyEnv: "TEST_KEY", [own]: SHORT } };
    const { failure } = await hear(server.model(type, { providers }));
    const seconds = /nothing of the answer was received for (?<seconds>\d+) s/.exec(failure?.message ?? "");
    assert.ok(Number(seconds?.groups?.["seconds"]) < 60, "another clock ended it");
    await Promise.all(server.asked.map(({ gone }) => gone));
  });

test("a slow reader is not the provider's silence", async (t) => {
  const wire = wireOf("openai-compatible");
  const goOn = Promise.withResolvers<void>();
  const words = wire.answer.slice(0, wire.begun);
  const server = await ProviderServer.start(t, async (response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(Array.from({ length: 50 }, () => words.map(frame).join("")).join(""));
    await goOn.promise;
    // Its reader waits by then.
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const one of wire.answer.slice(wire.begun)) response.write(frame(one));
    response.end();
  });
  const model = server.model(wire.type, { patience: { writingMs: 2_000 } });
  let text = "";
  for await (const part of model.call(callOf())) {
    if (part.kind !== "text") continue;
    const isFirst = text === "";
    text += part.text;
    if (!isFirst) continue;
    // Longer than the clock: it is our own time.
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    goOn.resolve();
  }
  assert.equal(text, `${"north".repeat(50)}east`);
});

test("words that came at once are one part, also before an error that came with them", async (t) => {
  const wire = wireOf("openai-compatible");
  const words = wire.answer.slice(0, wire.begun);
  const server = await ProviderServer.start(t, (response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    // In one write, and so in one read.
    response.end([...words, ...words, { error: { message: "overloaded" } }].map(frame).join(""));
  });
  const { parts, failure } = await hear(server.model(wire.type));
  assert.deepEqual([kindsOf(parts), textIn(parts)], [["text"], "northnorth"]);
  assert.equal(failure?.kind, "unavailable");
});

test("G3: a call that ran out of tokens is no call; one that is wrong JSON is the model's to mend", async (t) => {
  const wire = wireOf("openai-compatible");
  const finish = (reason: string) => ({
    id: "c1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: {}, finish_reason: reason }],
  });
  const half = wire.calling.slice(0, wire.calledHalf);
  const server = await ProviderServer.start(
    t,
    events(...half, finish("length"), "[DONE]"),
    events(...half, finish("tool_calls"), "[DONE]"),
  );
  const cut = await partsOf(server.model(wire.type), { tools: TOOLS });
  const last = cut.at(-1);
  assert.ok(!kindsOf(cut).includes("tool_call"));
  assert.ok(last?.kind === "finish" && last.reason === "length");
  const wrong = await partsOf(server.model(wire.type), { tools: TOOLS });
  assert.ok(wrong.some((part) => part.kind === "tool_call" && part.args === '{"path":'));
});

/** A model that runs out of tokens right behind the name of its tool: up to there, and how its provider ends the answer. */
const OUT_OF_TOKENS: readonly (readonly [Wire["type"], readonly unknown[]])[] = [
  ["openai-compatible", [{ choices: [{ index: 0, delta: {}, finish_reason: "length" }] }, "[DONE]"]],
  [
    "openai",
    [
      {
        type: "response.output_item.done",
        output_index: 1,
        item: {
          id: "fc_1",
          type: "function_call",
          call_id: "call_1",
          name: "read",
          arguments: "",
          status: "incomplete",
        },
      },
      {
        type: "response.incomplete",
        response: {
          incomplete_details: { reason: "max_output_tokens" },
          usage: { input_tokens: 9, output_tokens: 2 },
        },
      },
    ],
  ],
  [
    "anthropic",
    [
      { type: "content_block_stop", index: 1 },
      { type: "message_delta", delta: { stop_reason: "max_tokens" }, usage: { output_tokens: 2 } },
      { type: "message_stop" },
    ],
  ],
];

for (const [type, ending] of OUT_OF_TOKENS) {
  test(`G3: ${type}: a call that was cut right behind its name is no call without arguments`, async (t) => {
    const { calling, named } = wireOf(type);
    const server = await ProviderServer.start(t, events(...calling.slice(0, named), ...ending));
    const parts = await partsOf(server.model(type), { tools: TOOLS });
    const last = parts.at(-1);
    assert.ok(!kindsOf(parts).includes("tool_call"));
    assert.ok(last?.kind === "finish" && last.reason === "length");
  });
}

test("a call without arguments counts when its model wrote on behind it, or ended as it wanted to", async (t) => {
  const said = (delta: object, reason: string | null = null) => ({
    choices: [{ index: 0, delta, finish_reason: reason }],
  });
  const called = (index: number, args: string) =>
    said({ tool_calls: [{ index, id: `call_${index}`, function: { name: "read", arguments: args } }] });
  const server = await ProviderServer.start(
    t,
    events(called(0, ""), called(1, '{"path":"a"}'), said({}, "length"), "[DONE]"),
    events(called(0, ""), said({}, "tool_calls"), "[DONE]"),
  );
  for (const args of [["{}", '{"path":"a"}'], ["{}"]]) {
    const parts = await partsOf(server.model("openai-compatible"), { tools: TOOLS });
    assert.deepEqual(
      parts.flatMap((part) => (part.kind === "tool_call" ? [part.args] : [])),
      args,
    );
  }
});

test("an error behind the finish marker takes nothing from an answer that is whole", async (t) => {
  for (const wire of WIRES) {
    if (wire.type === "openai") continue;
    const server = await ProviderServer.start(
      t,
      events(...wire.answer.slice(0, wire.finished), wire.overloaded),
    );
    const { parts, failure } = await hear(server.model(wire.type));
    assert.equal(failure, undefined, wire.type);
    assert.equal(textIn(parts), "northeast", wire.type);
  }
});

test("a refusal without words, or whose words do not come, is known by its status", async (t) => {
  const wire = wireOf("openai-compatible");
  const server = await ProviderServer.start(
    t,
    (response) => void response.writeHead(400).end(),
    (response) => void response.writeHead(404, { "content-length": "100" }).write("{"),
  );
  for (const status of [400, 404]) {
    const { failure } = await hear(server.model(wire.type));
    assert.equal(failure?.status, status);
  }
});

test("breaks are counted by where and why, with the tokens that were thrown away", async (t) => {
  const wire = wireOf("anthropic");
  const { answer, begun, finished, calling, thought, calledHalf, overloaded } = wire;
  const server = await ProviderServer.start(
    t,
    cutAfter(...answer.slice(0, begun)),
    events(...calling.slice(0, thought)),
    cutAfter(...calling.slice(0, calledHalf)),
    events(...answer.slice(0, begun), overloaded),
    events(...answer.slice(0, begun), '{"half an obj'),
    cutAfter(...answer.slice(0, finished)),
    silentAfter(...answer.slice(0, begun)),
    events(answer[0]),
    events(...answer),
  );
  const config = { type: "anthropic", baseURL: `${server.origin}/v1`, apiKeyEnv: "KEY" } as const;
  const models = createModels({
    providers: { work: config },
    environment: { KEY: API_KEY },
    patience: { backoffMs: 1, writingMs: 3_000 },
  });
  for (let call = 0; call < 8; call++) await hear(models.resolve("work/m"));
  const counted = models
    .metrics()
    .split("\n")
    .filter((line) => /^holdfast_provider_(?!silence_)/.test(line));
  assert.deepEqual(counted.toSorted(), [
    'holdfast_provider_breaks_total{provider="work",phase="after_finish",cause="reset"} 1',
    'holdfast_provider_breaks_total{provider="work",phase="arguments",cause="reset"} 1',
    'holdfast_provider_breaks_total{provider="work",phase="first",cause="eof"} 1',
    'holdfast_provider_breaks_total{provider="work",phase="text",cause="decode"} 1',
    'holdfast_provider_breaks_total{provider="work",phase="text",cause="error"} 1',
    'holdfast_provider_breaks_total{provider="work",phase="text",cause="reset"} 1',
    'holdfast_provider_breaks_total{provider="work",phase="text",cause="stall"} 1',
    'holdfast_provider_breaks_total{provider="work",phase="thinking",cause="eof"} 1',
    'holdfast_provider_lost_tokens_total{provider="work"} 63',
    'holdfast_provider_requests_total{provider="work"} 9',
    'holdfast_provider_silences_total{provider="work"} 1',
  ]);
  assert.match(models.metrics(), /^holdfast_provider_silence_seconds_total\{provider="work"\} \d/m);
});
