import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import {
  array,
  assert as assertProperty,
  asyncProperty,
  constant,
  constantFrom,
  integer,
  nat,
  oneof,
  record,
  tuple,
} from "fast-check";
import type { ModelPart } from "../../../src/agent/model.ts";
import { ChatChunkReader } from "../../../src/agent/models/chat-chunks.ts";
import { NAMESPACES } from "../../../src/agent/models/dialect.ts";
import { PartReader } from "../../../src/agent/models/stream-parts.ts";

/** What the AI SDK makes of the same body. */
async function readBySdk(chunks: readonly object[]): Promise<readonly LanguageModelV4StreamPart[]> {
  const body = `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`;
  const fetch = (): Promise<Response> => Promise.resolve(new Response(body));
  const provider = createOpenAICompatible({
    name: NAMESPACES["openai-compatible"],
    baseURL: "http://x",
    fetch,
  });
  const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "?" }] }];
  const { stream } = await provider.chatModel("m").doStream({ prompt });
  return Array.fromAsync(stream);
}

/** Each of these comes at once. */
function readHere(...together: readonly (readonly object[])[]): readonly LanguageModelV4StreamPart[] {
  const reader = new ChatChunkReader();
  return [...together.flatMap((chunks) => reader.read(...chunks)), ...reader.end()];
}

/** The parts of the step, and whether it broke. Words in a row are one part: how many came at once is the socket's lot. */
function stepOf(parts: readonly LanguageModelV4StreamPart[]): readonly (ModelPart | "broken")[] {
  const reader = new PartReader();
  const read: (ModelPart | "broken")[] = [];
  try {
    for (const one of parts)
      for (const part of reader.read(one).map(withoutDrawnId)) {
        const last = read.at(-1);
        const isMore = last !== undefined && last !== "broken" && "text" in last && last.kind === part.kind;
        if (isMore && "text" in part) read[read.length - 1] = { ...part, text: last.text + part.text };
        else read.push(part);
      }
  } catch {
    read.push("broken");
  }
  return read;
}

/** A call without an id gets one by lot. */
function withoutDrawnId(part: ModelPart): ModelPart {
  const isDrawn = "toolCallId" in part && !part.toolCallId.startsWith("call-");
  return isDrawn ? { ...part, toolCallId: "drawn" } : part;
}

const text = constantFrom("", "north", " by ", "\u{1F9ED}", "{");
const args = constantFrom(undefined, "", "{", '{"city":', '"Oslo"}', "{}");
const call = record(
  {
    index: integer({ min: 0, max: 2 }),
    id: constantFrom("call-a", "call-b"),
    function: record({ name: constantFrom("look", "walk"), arguments: args }, { requiredKeys: [] }),
    extra_content: constant({ google: { thought_signature: "signed" } }),
  },
  { requiredKeys: ["function"] },
);
const delta = record(
  {
    role: constant("assistant"),
    content: oneof(
      text,
      constant(null),
      array(
        oneof(
          record({ type: constant("text"), text }),
          record({
            type: constant("thinking"),
            thinking: array(record({ type: constant("text"), text })),
          }),
          record({ type: constant("image") }),
        ),
      ),
    ),
    reasoning_content: text,
    reasoning: text,
    refusal: oneof(text, constant(null)),
    tool_calls: oneof(array(call), constant(null)),
  },
  { requiredKeys: [] },
);
const finish = constantFrom(null, null, "stop", "length", "tool_calls", "content_filter", "eos", "");
const usage = record(
  {
    prompt_tokens: nat(100),
    completion_tokens: nat(100),
    prompt_tokens_details: record({ cached_tokens: nat(9) }),
    completion_tokens_details: record({ reasoning_tokens: nat(9) }),
  },
  { requiredKeys: ["prompt_tokens", "completion_tokens"] },
);
const chunk = oneof(
  { weight: 8, arbitrary: record({ choices: tuple(record({ delta, finish_reason: finish })) }) },
  { weight: 1, arbitrary: record({ choices: constant([]), usage }) },
  {
    weight: 1,
    arbitrary: record({ choices: constant([{ delta: null, finish_reason: "stop" }]), usage }),
  },
);

test("a chat completion is read as the AI SDK reads it, whatever its chunks say", async () => {
  await assertProperty(
    asyncProperty(array(chunk, { maxLength: 8 }), async (chunks) => {
      const bySdk = await readBySdk(chunks).catch(() => undefined);
      // The SDK's own reader throws where a call has no name at all; here that is a broken answer, too.
      const expected = bySdk === undefined ? undefined : stepOf(bySdk);
      for (const together of [chunks.map((one) => [one]), [chunks]]) {
        let here: ReturnType<typeof stepOf> | undefined;
        try {
          here = stepOf(readHere(...together));
        } catch {
          here = undefined;
        }
        assert.deepEqual(here, expected, JSON.stringify(together));
      }
    }),
    { numRuns: 300 },
  );
});

test("an error in the stream breaks the answer behind what was said", () => {
  const reader = new ChatChunkReader();
  assert.deepEqual(
    reader.read({ choices: [{ delta: { content: "north" } }] }).map(({ type }) => type),
    ["text-start", "text-delta"],
  );
  assert.deepEqual(reader.read({ error: { message: "overloaded" } }), [
    { type: "error", error: { message: "overloaded" } },
  ]);
});

test("what is of the wrong type counts as absent", () => {
  const chunks = [
    null,
    7,
    { choices: 5 },
    { choices: [{ delta: { content: 5, reasoning: {}, tool_calls: "x" }, finish_reason: 3 }] },
    { choices: [{ delta: { content: "north" }, finish_reason: "stop" }], usage: { prompt_tokens: "many" } },
  ];
  const reader = new ChatChunkReader();
  const parts = [...chunks.flatMap((one) => reader.read(one)), ...reader.end()];
  assert.deepEqual(
    parts.map(({ type }) => type),
    ["text-start", "text-delta", "text-end", "finish"],
  );
});
