/** The messages that feed a model, as JSON. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type ChatMessage,
  decodeChatMessage,
  encodeChatMessage,
  textOf,
} from "../../src/protocol/chat-message.ts";

const MESSAGES: readonly ChatMessage[] = [
  {
    role: "user",
    content: [
      { type: "text", text: "what is this?" },
      { type: "file", mediaType: "image/png", fileName: "a.png", blobId: "ab".repeat(32) },
      { type: "file", mediaType: "image/png", url: "https://example.com/a.png" },
    ],
  },
  {
    role: "system",
    name: "harbour",
    content: [{ type: "text", text: "Be brief.", cacheControl: { type: "ephemeral" } }],
  },
  {
    role: "user",
    name: "ann",
    content: [
      { type: "file", mediaType: "image/png", url: "https://a.example/", detail: "low", cacheControl: {} },
    ],
  },
  {
    role: "assistant",
    name: "bot",
    content: [
      { type: "reasoning", text: "hm", providerMetadata: { p: { signature: "s" } } },
      { type: "text", text: "A dog" },
      { type: "tool-call", toolCallId: "1", tool: "read", args: "{}", providerMetadata: { p: { x: 1 } } },
    ],
  },
  {
    role: "tool",
    content: [
      {
        type: "tool-result",
        toolCallId: "1",
        tool: "read",
        outcome: "unknown",
        text: "?",
        files: [{ type: "file", mediaType: "image/png", blobId: "cd".repeat(32) }],
      },
    ],
  },
];

test("messages come back as they were written, in the same bytes", () => {
  for (const message of MESSAGES) {
    const bytes = encodeChatMessage(message);
    assert.deepEqual(decodeChatMessage(bytes), message);
    assert.deepEqual(encodeChatMessage(decodeChatMessage(bytes)), bytes);
  }
  assert.deepEqual(MESSAGES.map(textOf), ["what is this?", "Be brief.", "", "A dog", "?"]);
});

test("what is not a message is refused, and it says what is wrong", () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["nonsense", /not JSON/u],
    ["[]", /not an object/u],
    ['{"role":"narrator","content":[]}', /no role "narrator"/u],
    ['{"role":"system","content":[{"type":"file"}]}', /text parts only/u],
    ['{"role":"user","name":1,"content":[]}', /name is not a text/u],
    ['{"role":"user","content":"text"}', /not a list/u],
    ['{"role":"user","content":[{"type":"tool-call"}]}', /no part "tool-call"/u],
    ['{"role":"user","content":[{"type":"text"}]}', /text is not a text/u],
    ['{"role":"user","content":[{"type":"file","mediaType":"a/b"}]}', /either a blobId or a url/u],
    ['{"role":"user","content":[{"type":"file","mediaType":"a/b","blobId":"x"}]}', /64 hexadecimal/u],
    [
      '{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","tool":"t","text":"","outcome":"fine"}]}',
      /no outcome/u,
    ],
    [
      '{"role":"assistant","content":[{"type":"text","text":"x","providerMetadata":[]}]}',
      /providerMetadata/u,
    ],
    [`{"role":"user","content":${"[".repeat(70)}${"]".repeat(70)}}`, /nested deeper/u],
  ];
  for (const [json, why] of cases) {
    assert.throws(() => decodeChatMessage(Buffer.from(json)), { code: "invalid_frame", message: why });
  }
});
