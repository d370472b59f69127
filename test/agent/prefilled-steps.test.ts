/**
 * A provider breaks an answer off in its text, and its model is asked to write on: every kind of provider, at every piece of the text.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { createAgent } from "../../src/agent/index.ts";
import { createModels, type ModelsOptions } from "../../src/agent/models/index.ts";
import { decodeChatMessage } from "../../src/protocol/chat-message.ts";
import { FailureKind, type StepOptionsSchema, TurnEndReason } from "../../src/protocol/messages.ts";
import type { MessageInitShape } from "../../src/protocol/message.ts";
import { KeepingClient, readDone } from "./keeping-client.ts";
import { type Break, saying } from "./models/providers/breaking.ts";
import { CHAT, type Said } from "./models/providers/formats.ts";
import {
  type Flavour,
  FLAVOURS,
  scriptedProvider,
  type ScriptedProvider,
  STEADY_TEXT,
  textOf as promptedText,
} from "./models/providers/scripted.ts";
import { type Act, type Fields, listOf } from "./models/providers/server.ts";
import { endOf, kindsOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

type Rules = Pick<NonNullable<ModelsOptions["providers"]>[string], "prefill" | "continue">;

interface Played {
  readonly host: TurnHost;
  readonly client: KeepingClient;
  readonly provider: ScriptedProvider;
  readonly metrics: () => string;
  /** Another turn, by the same models. */
  readonly ask: (options?: MessageInitShape<typeof StepOptionsSchema>) => Promise<TurnHost>;
}

async function play(
  t: TestContext,
  flavour: Flavour,
  breaks: readonly (Break | undefined)[],
  {
    model = "quill",
    script,
    ...rules
  }: Rules & { model?: string; script?: Parameters<typeof scriptedProvider>[2] } = {},
): Promise<Played> {
  const provider = await scriptedProvider(t, flavour, { ...script, breaks });
  const models = createModels({
    providers: { test: { ...provider.config, apiKeyEnv: "KEY", ...rules } },
    environment: { KEY: "sk-test" },
    patience: { backoffMs: 1 },
  });
  const agent = createAgent({ models, backoffMs: 1 });
  const [host, client] = hosted();
  const ask = async (options = {}): Promise<TurnHost> => {
    const [own, user] = host.inputs.length === 0 ? [host, client] : hosted();
    user.ask("Which way is the wind?", {
      model: `test/${model}`,
      options: { shownIsFinal: true, ...options },
    });
    await own.finish(agent);
    return own;
  };
  return { host, client, provider, metrics: () => models.metrics(), ask };
}

function hosted(): readonly [TurnHost, KeepingClient] {
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => readDone("calm");
  return [host, client];
}

/** The text of the model's message, as later turns get it. */
function keptText({ messages }: TurnHost): readonly string[] {
  return messages.flatMap(({ message }) => {
    if (message.case !== "kvServerMessage" || message.value.message.case !== "setBlobArgs") return [];
    const { blobData } = message.value.message.value;
    try {
      const kept = decodeChatMessage(blobData ?? new Uint8Array());
      return kept.role === "assistant"
        ? kept.content.map((part) => (part.type === "text" ? part.text : part.type))
        : [];
    } catch {
      return [];
    }
  });
}

const PIECES = STEADY_TEXT.split(/(?<=\s)(?=\S)/u).length;
const CONTINUING: readonly (readonly [Flavour, Rules & { model?: string }])[] = [
  [FLAVOURS.vllm, {}],
  [FLAVOURS.prefixed, { prefill: "prefix" }],
  [FLAVOURS.olderClaude, { model: "claude-sonnet-4-5" }],
];

for (const [flavour, rules] of CONTINUING) {
  test(`G1: ${flavour.name}: broken at any piece of its text, the answer is continued and is whole`, async (t) => {
    let continuations = 0;
    for (let behind = 1; behind <= PIECES + 4; behind += 2) {
      const { host, ask, provider } = await play(t, flavour, [{ behind, how: "rst" }], rules);
      await ask();
      const shown = kindsOf(host.messages).filter((kind) => kind === "stepContinued").length;
      const { reason, failure } = endOf(host.messages);
      // Behind a first word there is nothing to begin with.
      if (failure?.kind === FailureKind.UPSTREAM_INTERRUPTED && shown === 0) {
        assert.match(textOf(host.messages), /^\S*\s*$/);
        continue;
      }
      assert.equal(reason, TurnEndReason.COMPLETED, `broken behind ${behind}`);
      assert.equal(textOf(host.messages), STEADY_TEXT, `broken behind ${behind}`);
      assert.deepEqual(keptText(host), [STEADY_TEXT]);
      assert.ok(provider.calls.length <= 2);
      continuations += shown;
    }
    assert.ok(continuations > PIECES / 4, `continued ${continuations} times`);
  });
}

test("G1: a model that begins anew, or refuses, is asked once; then text that is final ends with a clean error", async (t) => {
  for (const [flavour, rules] of [
    [FLAVOURS.ollama, {}],
    [FLAVOURS.olderVllm, {}],
    [FLAVOURS.chat, {}],
    [FLAVOURS.claude, { prefill: "plain" }],
  ] as const) {
    const broken = { behind: 8, how: "rst" } as const;
    // A request that is refused has no answer that could break.
    const isRefusing = flavour === FLAVOURS.chat || flavour === FLAVOURS.claude;
    const breaks = [broken, ...(isRefusing ? [] : [undefined]), broken];
    const { ask, provider, metrics } = await play(t, flavour, breaks, rules);
    for (const calls of [2, 3]) {
      const { messages } = await ask();
      const { failure } = endOf(messages);
      assert.equal(failure?.kind, FailureKind.UPSTREAM_INTERRUPTED, flavour.name);
      assert.equal(provider.calls.length, calls, `${flavour.name}: it is remembered`);
    }
    assert.doesNotMatch(metrics(), /how="prefill"/);
  }
});

test("a client that can roll back is shown a continued answer too, and an answer anew where there is none", async (t) => {
  for (const [flavour, kind] of [
    [FLAVOURS.vllm, "stepContinued"],
    [FLAVOURS.ollama, "stepRestarted"],
  ] as const) {
    const { ask, provider } = await play(t, flavour, [{ behind: 8, how: "end" }]);
    const { messages } = await ask({ shownIsFinal: false });
    assert.equal(endOf(messages).reason, TurnEndReason.COMPLETED);
    assert.ok(kindsOf(messages).includes(kind));
    assert.equal(provider.calls.length, kind === "stepContinued" ? 2 : 3);
  }
});

test("G2: an answer that breaks again and again is continued twice, and each time counted", async (t) => {
  const broken = { behind: 10, how: "rst" } as const;
  const { ask, provider, metrics } = await play(t, FLAVOURS.vllm, [broken, broken, broken, broken]);
  const { messages } = await ask();
  assert.equal(endOf(messages).failure?.kind, FailureKind.UPSTREAM_INTERRUPTED);
  assert.equal(provider.calls.length, 3);
  assert.ok(STEADY_TEXT.startsWith(textOf(messages)));
  assert.match(
    metrics(),
    /holdfast_provider_continued_total\{provider="test",how="prefill",join="proved"\} 2/,
  );
});

test("G1: a model that has proved a join, and writes something else here, gets all of the text once more; the join is counted as unproved", async (t) => {
  let prompts = 0;
  const script = (messages: readonly Fields[]) => {
    const last = messages.at(-1);
    if (last?.["role"] !== "assistant") return { text: STEADY_TEXT };
    prompts++;
    if (prompts === 2) return { text: "Nothing of the kind." };
    return { text: prompts === 1 ? STEADY_TEXT : `${promptedText(last)} — and so on.` };
  };
  const broken = { behind: 10, how: "rst" } as const;
  const { ask, provider, metrics } = await play(t, FLAVOURS.vllm, [broken, undefined, broken], {
    script: { script },
  });
  assert.equal(textOf((await ask()).messages), STEADY_TEXT);
  const { messages } = await ask();
  assert.equal(endOf(messages).reason, TurnEndReason.COMPLETED);
  assert.equal(provider.calls.length, 5);
  const all = promptedText(listOf(provider.calls[4]?.body["messages"]).at(-1));
  assert.equal(textOf(messages), `${all} — and so on.`);
  assert.ok(STEADY_TEXT.startsWith(all) && all.length > 12);
  assert.match(metrics(), /how="prefill",join="proved"\} 1\n.*how="prefill",join="unproved"\} 1/);
});

test("continue and prefill of the configuration hold", async (t) => {
  for (const [rules, calls] of [
    [{ continue: "off" }, 1],
    [{ continue: "restart" }, 1],
    [{ prefill: "off" }, 1],
    [{ continue: "exact", prefill: "auto" }, 2],
  ] as const) {
    const { ask, provider } = await play(t, FLAVOURS.vllm, [{ behind: 8, how: "rst" }], rules);
    const { messages } = await ask();
    assert.equal(endOf(messages).failure === undefined, calls === 2);
    assert.equal(provider.calls.length, calls);
  }
  const { ask, provider } = await play(t, FLAVOURS.vllm, [{ behind: 8, how: "rst" }], { continue: "off" });
  await ask({ shownIsFinal: false });
  assert.equal(provider.calls.length, 1, "off: nothing begins anew");
});

test("G3: a call that broke behind text is made anew, and its arguments are of one generation", async (t) => {
  const script = (messages: readonly unknown[]) =>
    messages.length > 2 && !isPrefilled(messages)
      ? { text: "Calm." }
      : { text: STEADY_TEXT, calls: [{ name: "read", args: { path: "wind.txt" } }] };
  const behind = "arguments";
  const { ask, client, provider } = await play(t, FLAVOURS.vllm, [{ behind, how: "rst" }], {
    script: { script },
  });
  const { messages } = await ask();
  assert.equal(endOf(messages).reason, TurnEndReason.COMPLETED);
  assert.equal(textOf(messages), `${STEADY_TEXT}Calm.`);
  assert.equal(client.carriedOut.length, 1);
  assert.equal(provider.calls.length, 3);
  assert.ok(kindsOf(messages).includes("stepContinued"));
});

function isPrefilled(messages: readonly unknown[]): boolean {
  return JSON.stringify(messages.at(-1)).includes('"role":"assistant"');
}

test("thoughts of an answer that is continued are in no history: not those before the break, nor those of its continuation", async (t) => {
  const script = (messages: readonly Fields[]): Said | Act => {
    const last = messages.at(-1) ?? {};
    if (last["role"] !== "assistant") return { thinking: ["Which way?"], text: STEADY_TEXT };
    const rest = STEADY_TEXT.slice(promptedText(last).length);
    return saying(CHAT, CHAT.frames({ thinking: ["And on."], text: rest }));
  };
  const breaks = [{ behind: 8, how: "rst" } as const];
  const { ask, provider } = await play(t, FLAVOURS.vllm, breaks, { script: { script } });
  const host = await ask();
  assert.deepEqual([textOf(host.messages), keptText(host)], [STEADY_TEXT, [STEADY_TEXT]]);
  assert.equal(provider.calls.length, 2);
  const thoughts = host.messages.flatMap(({ message }) =>
    message.case === "interactionUpdate" && message.value.message.case === "thinkingDelta"
      ? [message.value.message.value.text]
      : [],
  );
  assert.deepEqual(thoughts, ["Which way?"], "what was shown stays");
});

test("G1: JSON is never continued: what cannot be rolled back ends with a clean error, and all else begins anew", async (t) => {
  const responseFormat = { format: { case: "json", value: {} } } as const;
  for (const shownIsFinal of [true, false]) {
    const { ask, provider } = await play(t, FLAVOURS.vllm, [{ behind: 8, how: "rst" }]);
    const { messages } = await ask({ responseFormat, shownIsFinal });
    const failure = shownIsFinal ? FailureKind.UPSTREAM_INTERRUPTED : undefined;
    assert.equal(endOf(messages).failure?.kind, failure);
    assert.equal(provider.calls.length, shownIsFinal ? 1 : 2);
    assert.equal(kindsOf(messages).includes("stepRestarted"), !shownIsFinal);
    if (!shownIsFinal) assert.equal(textOf(messages), STEADY_TEXT);
  }
});
