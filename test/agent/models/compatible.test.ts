import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create } from "../../../src/protocol/message.ts";
import { StepOptionsSchema } from "../../../src/protocol/messages.ts";
import type { ChatMessage } from "../../../src/protocol/chat-message.ts";
import { messageOf, resultsOf, TOOLS } from "./conversation.ts";
import { API_KEY, events, type Fields, listOf, partsOf, ProviderServer, user } from "./providers/server.ts";

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  id: "c1",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason }],
  ...more,
});
const piece = (index: number, args: string, more: object = {}) => ({
  tool_calls: [
    {
      index,
      ...more,
      function: { arguments: args, ...("id" in more ? { name: index === 0 ? "read" : "shell" } : {}) },
    },
  ],
});

/** Two calls, their pieces mixed, and a server that says "stop" after tool calls. */
const WORKING = events(
  chunk({ role: "assistant", reasoning_content: "look first" }),
  chunk({ content: "Reading." }),
  chunk(piece(0, "", { id: "call_1", type: "function" })),
  chunk(piece(1, '{"pa', { id: "call_2", type: "function" })),
  chunk(piece(0, '{"path":"a.txt"}')),
  chunk(piece(1, 'th":"b"}')),
  chunk({}, "stop"),
  {
    ...chunk({}),
    choices: [],
    usage: {
      prompt_tokens: 30,
      completion_tokens: 12,
      prompt_tokens_details: { cached_tokens: 20 },
      completion_tokens_details: { reasoning_tokens: 4 },
    },
  },
  "[DONE]",
);

const told = (server: ProviderServer, at: number): readonly Fields[] =>
  listOf(server.asked[at]?.body["messages"]);

test("reasoning, text and mixed pieces of parallel tool calls come through", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const parts = await partsOf(server.model("openai-compatible"), { tools: TOOLS });
  assert.deepEqual(
    parts.filter(({ kind }) => kind !== "tool_call_delta"),
    [
      { kind: "thinking", text: "look first" },
      { kind: "thinking_end" },
      { kind: "text", text: "Reading." },
      { kind: "text_end" },
      { kind: "tool_call", toolCallId: "call_1", tool: "read", args: '{"path":"a.txt"}' },
      { kind: "tool_call", toolCallId: "call_2", tool: "shell", args: '{"path":"b"}' },
      {
        kind: "finish",
        reason: "tool_calls",
        usage: {
          inputTokens: 10,
          outputTokens: 12,
          cacheReadTokens: 20,
          cacheWriteTokens: 0,
          reasoningTokens: 4,
        },
      },
    ],
  );
  const [asked] = server.asked;
  assert.equal(asked?.path, "/v1/chat/completions");
  assert.equal(asked?.headers.authorization, `Bearer ${API_KEY}`);
  assert.deepEqual(asked?.body["stream_options"], { include_usage: true });
});

test("each request begins with the one before, byte for byte; the same messages give the same bytes", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const model = server.model("openai-compatible");
  const messages = [user("hello")];
  for (let step = 0; step < 4; step++) {
    const parts = await partsOf(model, { messages, tools: TOOLS });
    messages.push(messageOf(parts), resultsOf(parts, { outcome: step === 1 ? "failed" : "done" }));
    if (step === 2) messages.push(user("and now?"));
  }
  for (let at = 1; at < 4; at++) {
    const before = JSON.stringify(told(server, at - 1)).slice(0, -1);
    assert.ok(JSON.stringify(told(server, at)).startsWith(before), `request ${at}`);
  }
  const again = server.model("openai-compatible");
  await partsOf(again, { messages: messages.slice(0, 1), tools: TOOLS });
  assert.equal(server.asked.at(-1)?.text, server.asked[0]?.text);
});

test("options that the SDK has no word for go into the body", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const options = create(StepOptionsSchema, {
    temperature: 0,
    topP: 0.5,
    topK: 9,
    seed: 7n,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    stop: ["END"],
    reasoningEffort: "low",
    parallelToolCalls: false,
    maxOutputTokens: 10,
    responseFormat: { format: { case: "json", value: {} } },
    toolChoice: { choice: { case: "mode", value: 2 } },
    providerOptionsJson: '{"min_p":0.05}',
  });
  await partsOf(server.model("openai-compatible"), { tools: TOOLS, options });
  const { body } = server.asked[0] ?? {};
  const expected = {
    temperature: 0,
    top_p: 0.5,
    top_k: 9,
    seed: 7,
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    stop: ["END"],
    reasoning_effort: "low",
    parallel_tool_calls: false,
    max_tokens: 10,
    response_format: { type: "json_object" },
    tool_choice: "none",
    min_p: 0.05,
  };
  for (const [name, value] of Object.entries(expected)) assert.deepEqual(body?.[name], value, name);
});

test("nothing is invented: blank, consecutive and trailing messages go out as they are; a call without a result gets one", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const call = { type: "tool-call", toolCallId: "c1", tool: "read", args: '{"path":' } as const;
  const messages: readonly ChatMessage[] = [
    { role: "user", content: [{ type: "text", text: "" }] },
    { role: "assistant", content: [{ type: "text", text: " " }, call] },
    user("never mind"),
    user("\n"),
    { role: "system", content: [{ type: "text", text: "Be brief." }] },
    { role: "assistant", content: [{ type: "text", text: "Well." }] },
    {
      role: "assistant",
      content: [
        { type: "text", text: "" },
        { type: "text", text: "And so" },
        { type: "text", text: " \n" },
      ],
    },
  ];
  await partsOf(server.model("openai-compatible"), { messages, system: "" });
  const seen = told(server, 0).map(({ role, content, tool_calls: calls }) =>
    calls === undefined ? [role, content] : [role, content, listOf(calls)[0]?.["function"]],
  );
  assert.deepEqual(seen, [
    ["user", ""],
    ["assistant", " ", { name: "read", arguments: '{"invalid_arguments":"{\\"path\\":"}' }],
    ["tool", "unknown: the conversation has no result of this call."],
    ["user", "never mind"],
    ["user", "\n"],
    ["system", "Be brief."],
    ["assistant", "Well."],
    ["assistant", "And so \n"],
  ]);
});

test("files: text is told as text, images as data, those of a tool by the user; another's reasoning stays out", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const [textBlob, imageBlob] = ["a".repeat(64), "b".repeat(64)];
  const image = { type: "file", mediaType: "image/png", blobId: imageBlob } as const;
  const blobs = new Map([
    [textBlob, new TextEncoder().encode("one\ntwo")],
    [imageBlob, Uint8Array.of(0x89, 0x50, 0x4e, 0x47)],
  ]);
  const messages: readonly ChatMessage[] = [
    {
      role: "user",
      content: [
        { type: "file", mediaType: "text/markdown", fileName: "a.md", blobId: textBlob },
        { type: "file", mediaType: "image/png", url: "https://example.com/a.png" },
        image,
      ],
    },
    {
      role: "assistant",
      content: [
        { type: "reasoning", text: "not yours", providerMetadata: { anthropic: { signature: "S" } } },
        { type: "tool-call", toolCallId: "c1", tool: "read", args: "{}" },
      ],
    },
    {
      role: "tool",
      content: [
        {
          type: "tool-result",
          toolCallId: "c1",
          tool: "read",
          outcome: "done",
          text: "an image",
          files: [image],
        },
      ],
    },
  ];
  const file = (blobId: string) => Promise.resolve(blobs.get(blobId) ?? new Uint8Array());
  await partsOf(server.model("openai-compatible"), { messages, file });
  const sent = server.asked[0]?.text ?? "";
  assert.match(sent, /File a\.md:\\none\\ntwo/);
  assert.match(sent, /https:\/\/example\.com\/a\.png/);
  assert.doesNotMatch(sent, /not yours/);
  assert.deepEqual(
    told(server, 0).map(({ role }) => role),
    ["system", "user", "assistant", "tool", "user"],
  );
  assert.match(JSON.stringify(told(server, 0).at(-1)), /data:image\/png;base64,iVBORw==/);
});

test("G2: two calls at once share the SDK's model, and each request counts for its own call", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const model = server.model("openai-compatible");
  const taken = [0, 0, 0];
  const calls = taken.map((_, at) =>
    partsOf(model, {
      requests: {
        take: async () => {
          taken[at] = (taken[at] ?? 0) + 1;
        },
        mayWait: () => true,
      },
    }),
  );
  const all = await Promise.all(calls);
  assert.deepEqual(taken, [1, 1, 1]);
  assert.equal(server.asked.length, 3);
  for (const parts of all) assert.equal(parts.at(-1)?.kind, "finish");
});

/** How many there are after a collection. */
async function living(made: readonly WeakRef<object>[]): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  for (let round = 0; round < 3; round++) {
    // A reference that was looked at lives to the end of its turn.
    await new Promise((resolve) => setImmediate(resolve));
    if (typeof collect === "function") Reflect.apply(collect, undefined, []);
  }
  return made.filter((one) => one.deref() !== undefined).length;
}

test("F2: of a call that is over nothing is kept, however long its turn still lasts", async (t) => {
  const server = await ProviderServer.start(t, WORKING);
  const model = server.model("openai-compatible");
  const [stream, cancel] = [new AbortController(), new AbortController()];
  /** Whatever a call listens to, its own signals among it. */
  const heard: WeakRef<object>[] = [];
  const target = EventTarget.prototype;
  const plain = Object.getOwnPropertyDescriptor(target, "addEventListener");
  const listen: unknown = plain?.value;
  assert.ok(plain !== undefined && typeof listen === "function");
  // Not by a mock of the test's: that keeps what it was called on.
  Object.defineProperty(target, "addEventListener", {
    ...plain,
    value(this: EventTarget, ...given: unknown[]) {
      if (this instanceof AbortSignal) heard.push(new WeakRef(this));
      Reflect.apply(listen, this, given);
    },
  });
  t.after(() => Object.defineProperty(target, "addEventListener", plain));
  const ask = async (): Promise<void> => {
    const parts = await partsOf(model, { signal: AbortSignal.any([stream.signal, cancel.signal]) });
    assert.ok(parts.length > 0);
  };
  for (let call = 0; call < 10; call++) await ask();
  assert.ok(heard.length >= 10, "each call listens to something");
  // The last one may still be in hand.
  const left = await living(heard);
  assert.ok(left <= heard.length / 5, `${left} of ${heard.length} are left`);
  assert.ok(!stream.signal.aborted && !cancel.signal.aborted);
});
