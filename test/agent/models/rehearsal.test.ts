import assert from "node:assert/strict";
import { test } from "node:test";
import { type ModelCall, ModelFailure, type ModelPart } from "../../../src/agent/model.ts";
import { rehearsalModel } from "../../../src/agent/models/index.ts";
import { readScript } from "../../../src/agent/models/rehearsal-script.ts";
import { CONTINUE, SUMMARIZE } from "../../../src/turn/prompts.ts";
import type { ChatMessage } from "../../../src/protocol/chat-message.ts";
import { messageOf, resultsOf } from "./conversation.ts";
import { callOf, partsOf, textIn, user } from "./providers/server.ts";

const model = rehearsalModel();
const ECHO = { name: "echo", description: "", parameters: { type: "object" }, strict: false };

const says = (text: string, call: Partial<ModelCall> = {}): Promise<readonly ModelPart[]> =>
  partsOf(model, { messages: [user(text)], ...call });

/** Every step of a script, each after the results of the one before. */
async function steps(
  script: string,
  more: Partial<ModelCall> = {},
): Promise<readonly (readonly ModelPart[])[]> {
  const messages: ChatMessage[] = [user(script)];
  const all: (readonly ModelPart[])[] = [];
  for (let step = 0; step < 10; step++) {
    const parts = await partsOf(model, { ...more, messages });
    all.push(parts);
    const last = parts.at(-1);
    if (last?.kind !== "finish" || last.reason !== "tool_calls") return all;
    messages.push(messageOf(parts), resultsOf(parts));
  }
  throw new Error("the script does not end");
}

const callsIn = (parts: readonly ModelPart[]): readonly (readonly [string, string])[] =>
  parts.flatMap((part) => (part.kind === "tool_call" ? [[part.tool, part.args] as const] : []));

test("counts as the demonstration does", async () => {
  const parts = await says("Count to 3 every 1 ms");
  const texts = parts.flatMap((part) => (part.kind === "text" ? [part.text] : []));
  assert.deepEqual(texts, ["1 ", "2 ", "3 "]);
});

test("writes on behind the beginning of its answer that it is given, at once and to the character", async () => {
  const script = "think Well.\npace 60000 ms\nsay one two three\npace 0 ms\ncount to 3";
  assert.equal(textIn(await says(script, { prefill: "one two three\n1 " })), "2 3 ");
  const parts = await says("think Well.\nsay one two\nthink Now.\ncount to 2", { prefill: "one t" });
  assert.equal(textIn(parts), "wo1 2 ");
  assert.deepEqual(
    parts.flatMap((part) => (part.kind === "thinking" ? [part.text] : [])),
    ["Now."],
  );
});

test("free text comes back word by word, after a line that says what this is", async () => {
  const text = `two  words, a\nline and ${"x".repeat(10_000)} 🌊`;
  const parts = await says(text);
  const [notice = "", ...rest] = textIn(parts).split("\n");
  assert.match(notice, /^Rehearsal, no AI/);
  assert.equal(rest.join("\n"), text);
  assert.ok(parts.every((part) => part.kind !== "text" || part.text.length <= 4_200));
});

test("a question that names a tool calls it with what stands in it, and says what came of it", async () => {
  const parameters = {
    type: "object",
    properties: {
      city: { type: "string" },
      days: { type: "integer" },
      unit: { enum: ["celsius", "kelvin"] },
    },
    required: ["city"],
  };
  const tools = [{ name: "getWeather", description: "", parameters, strict: false }];
  const asked = async (text: string) => callsIn((await steps(text, { tools }))[0] ?? []);
  assert.deepEqual(await asked("What weather does New York get in the next 3 days, in kelvin?"), [
    ["getWeather", '{"city":"New York","days":3,"unit":"kelvin"}'],
  ]);
  assert.deepEqual(await asked('Can you get the weather of "den Haag"?'), [
    ["getWeather", '{"city":"den Haag"}'],
  ]);
  // No tool is named, an argument is missing, it is no question, it is more than a question.
  for (const text of [
    "How is Oslo?",
    "Can you get the weather?",
    "Get the weather of Oslo.",
    "a\nget weather Oslo?",
  ])
    assert.deepEqual(await asked(text), [], text);
  const [, second = []] = await steps("Can you get the weather of Oslo?", { tools });
  assert.match(
    textIn(second),
    /^The tool's outcome is "done": .*\n\(This is the rehearsal model, not an AI/s,
  );
});

test("says and thinks at a chosen pace; usage counts words", async () => {
  const parts = await says("pace 1 ms\nthink hm hm\nsay one two\nthree");
  assert.equal(textIn(parts), "one two\nthree");
  assert.deepEqual(parts[2], { kind: "thinking_end" });
  assert.deepEqual(parts.at(-1), {
    kind: "finish",
    reason: "stop",
    usage: { inputTokens: 10, outputTokens: 5, cacheReadTokens: 3, cacheWriteTokens: 0, reasoningTokens: 2 },
  });
});

test("tool calls that follow each other are one step; what comes after them is the next", async () => {
  const script = [
    "say look",
    'call read {"path":"a.txt"}',
    "shell ls -l",
    "say the result",
    'edit a.txt "old\\n" -> "new"',
    "then",
    "subagent count to 3",
  ].join("\n");
  const all = await steps(script);
  assert.deepEqual(all.map(callsIn), [
    [
      ["read", '{"path":"a.txt"}'],
      ["shell", '{"command":"ls -l"}'],
    ],
    [["edit", '{"path":"a.txt","edits":[{"old_text":"old\\n","new_text":"new"}]}']],
    [["subagent", '{"description":"a rehearsed task","prompt":"count to 3"}']],
    [],
  ]);
  assert.equal(textIn(all[0] ?? []), "look");
  assert.match(
    textIn(all[1] ?? []),
    /The outcome of read is "done": result of .*\nThe outcome of shell is "done"/,
  );
  assert.match(textIn(all[3] ?? []), /^The tool's outcome is "done": result of /);
  const ids = all.flat().flatMap((part) => (part.kind === "tool_call" ? [part.toolCallId] : []));
  assert.equal(new Set(ids).size, ids.length, "ids are unique in the conversation");
});

test("the pieces of a tool call add up to its arguments", async () => {
  const parts = await says("shell echo hello");
  const written = parts.flatMap((part) => (part.kind === "tool_call_delta" ? [part.args] : []));
  assert.equal(written.join(""), '{"command":"echo hello"}');
});

test("says an answer that its log has the beginning of again from the first word, and waits for none of it", async () => {
  const script = 'pace 60000 ms\nthink One two.\nsay Three four.\ncall read {"path":"a"}';
  const signal = AbortSignal.timeout(15_000);
  const messages = [user(script)];
  let asked = 0;
  const counted = rehearsalModel({ onCall: () => asked++ });
  const parts = await partsOf(counted, { messages, signal, mode: "attach", isLogged: () => true });
  assert.equal(textIn(parts), "Three four.");
  assert.deepEqual(callsIn(parts), [["read", '{"path":"a"}']]);
  assert.equal(asked, 0, "no second call is counted");
  const slow = AbortSignal.timeout(50);
  await assert.rejects(partsOf(counted, { messages, signal: slow, mode: "attach", isLogged: () => false }));
});

test("asks the declared tool echo, and says what is missing without it", async () => {
  const [asking = [], answered = []] = await steps("tool hello", { tools: [ECHO] });
  assert.equal(textIn(asking), 'Asking the tool "echo". ');
  assert.deepEqual(callsIn(asking), [["echo", '{"text":"hello"}']]);
  assert.match(textIn(answered), /^The tool's outcome is "done": /);
  assert.match(textIn(await says("tool hello")), /Declare a function tool named "echo"/);
});

test("fails as it is told to, at once or after some words", async () => {
  const kinds = [
    ["invalid_request", 400],
    ["model_not_found", 404],
    ["rate_limited", 429],
    ["unavailable", 503],
    ["unauthenticated", 401],
    ["context_too_long", 400],
    ["content_filtered", 400],
  ] as const;
  for (const [kind, status] of kinds) {
    await assert.rejects(says(`error ${kind}`), (error) => {
      assert.ok(error instanceof ModelFailure);
      assert.deepEqual([error.kind, error.status], [kind, status]);
      return true;
    });
  }
  const given: string[] = [];
  await assert.rejects(async () => {
    for await (const part of model.call(callOf({ messages: [user("error unavailable after 3 words")] }))) {
      if (part.kind === "text") given.push(part.text);
    }
  });
  assert.equal(given.length, 3);
  assert.match(textIn(await says("error 404")), /^Rehearsal, no AI/, "what is no directive is free text");
});

test("a very long answer is as long as it was asked to be, and others get their turn", async () => {
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  const parts = await says("long 20000");
  clearInterval(timer);
  assert.equal(textIn(parts).trim().split(" ").length, 20_000);
  assert.ok(turns > 0);
  const last = parts.at(-1);
  assert.ok(last?.kind === "finish" && last.usage.outputTokens === 20_000);

  // Said again, it waits for none of its pauses, and others get their turn all the same.
  let late = 0;
  setImmediate(() => late++);
  await says("pace 60000 ms\nlong 20000", { mode: "attach", isLogged: () => true });
  assert.equal(late, 1);
});

test("ends a step as it is told to", async () => {
  const last = (await says("say half\nfinish length")).at(-1);
  assert.ok(last?.kind === "finish" && last.reason === "length");
});

test("keeps nothing: the same prompt gives the same answer, whoever is asked", async () => {
  const messages = [user("shell ls\nsay done")];
  const first = await partsOf(rehearsalModel(), { messages });
  assert.deepEqual(await partsOf(rehearsalModel(), { messages }), first);
});

test("goes on with the script when told to continue, and says when it has ended", async () => {
  const first = await says("say one\nthen\nsay two");
  const messages = [user("say one\nthen\nsay two"), messageOf(first), user(CONTINUE)];
  const second = await partsOf(model, { messages });
  assert.equal(textIn(second), "two");
  const third = await partsOf(model, { messages: [...messages, messageOf(second), user(CONTINUE)] });
  assert.match(textIn(third), /the script has ended/);
});

test("a summary is honest about how it was made", async () => {
  const messages = [user("say one"), messageOf(await says("say one")), user(SUMMARIZE)];
  assert.equal(
    textIn(await partsOf(model, { messages })),
    "A rehearsed summary, made without AI. The user said:\n- say one",
  );
});

test("help shows every directive", async () => {
  const help = textIn(await says("help"));
  for (const word of [
    "say",
    "think",
    "pace",
    "count",
    "long",
    "call",
    "shell",
    "edit",
    "subagent",
    "then",
    "error",
  ]) {
    assert.match(help, new RegExp(`^${word} `, "m"), word);
  }
});

test("an abort ends a pause", async () => {
  const controller = new AbortController();
  const listening = (async () => {
    const call = callOf({ messages: [user("pace 60000 ms\nsay one two")], signal: controller.signal });
    for await (const part of model.call(call))
      if (part.kind === "text") setImmediate(() => controller.abort());
  })();
  await assert.rejects(listening, { name: "AbortError" });
});

test("without a pace nothing is paced", () => {
  const acts = readScript("Hello\nthen\nerror unavailable", []).flat();
  const paces = acts.flatMap((act) => ("paceMs" in act ? [act.paceMs] : []));
  assert.deepEqual([...new Set(paces)], [0]);
});
