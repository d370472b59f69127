/**
 * What an Anthropic model alone says through the Messages door: which stop text ended its answer, and thoughts that it has signed. A client that sends its history
 * back brings them along, also when nothing is left of its session.
 *
 * The provider refuses a tool call of its own that comes without the thought that led to it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic, { BadRequestError } from "@anthropic-ai/sdk";
import { ANTHROPIC, anthropicStop, SIGNATURE } from "../../agent/models/providers/formats.ts";
import { events } from "../../agent/models/providers/server.ts";
import { anthropicProvider, bySteps } from "../../agent/models/providers/scripted.ts";
import { LOCAL, serveGateway } from "../clients/served-gateway.ts";
import { NOTE } from "../clients/note-tool.ts";

const STOPPED = { stop_reason: "stop_sequence", stop_sequence: "three" };

const SCRIPT = bySteps({
  "Write a note.": [
    { thinking: "One note.", text: "I do.", calls: [{ name: "note", args: { file: "a.txt", text: "one" } }] },
    { thinking: "That is all.", text: "It is written." },
  ],
});

test("without any session the provider gets its signed thoughts back by the client, and by no other key", async (t) => {
  const provider = await anthropicProvider(t, SCRIPT);
  const gateway = await serveGateway(t, {
    provider,
    format: "anthropic",
    env: { HOLDFAST_SESSION_REUSE: "0" },
  });
  const { baseURL, apiKey } = gateway;
  const { messages } = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
  const tools = [
    {
      name: NOTE.name,
      description: NOTE.description,
      input_schema: { ...NOTE.parameters, type: "object" as const },
    },
  ];
  const asked = { model: LOCAL, max_tokens: 1_000, tools };
  const said: Anthropic.MessageParam[] = [{ role: "user", content: "Write a note." }];
  const { content } = await messages.stream({ ...asked, messages: said }).finalMessage();
  const [thought, text, call] = content;
  assert.ok(thought?.type === "thinking" && text?.type === "text" && call?.type === "tool_use");
  assert.deepEqual([thought.thinking, text.text], ["One note.", "I do."]);
  assert.ok(thought.signature.length > 20 && thought.signature !== SIGNATURE, "sealed");
  const result = { type: "tool_result" as const, tool_use_id: call.id, content: "noted" };
  const history = (first: readonly Anthropic.ContentBlockParam[]): Anthropic.MessageParam[] => [
    ...said,
    { role: "assistant", content: [...first] },
    { role: "user", content: [result] },
  ];
  const whole = await messages.create({ ...asked, messages: history(content) });
  assert.equal(whole.stop_reason, "end_turn");
  const told: unknown = provider.calls[1]?.body["messages"];
  assert.ok(JSON.stringify(told).includes(SIGNATURE), "the provider has its own again");
  for (const first of [content.slice(1), [{ ...thought, signature: "forged" }, text, call]])
    await assert.rejects(messages.create({ ...asked, messages: history(first) }), BadRequestError);
  assert.equal(provider.calls.length, 4);
  assert.deepEqual(await gateway.answers(), { "fresh reuse_off": 4 });
});

test("effort, the form of the answer and betas of the model's own work reach an Anthropic model; other betas are named", async (t) => {
  const provider = await anthropicProvider(t, () => ({ text: '{"city":"Oslo"}' }));
  const { baseURL, apiKey } = await serveGateway(t, { provider, format: "anthropic" });
  const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
  const schema = { type: "object", properties: { city: { type: "string" } }, additionalProperties: false };
  const asked = client.beta.messages.create({
    model: LOCAL,
    max_tokens: 100,
    messages: [{ role: "user", content: "Where?" }],
    output_config: { effort: "low", format: { type: "json_schema", schema } },
    betas: ["interleaved-thinking-2025-05-14", "context-management-2025-06-27"],
  });
  const { response } = await asked.withResponse();
  assert.equal(response.headers.get("x-holdfast-ignored"), "anthropic-beta");
  const [call] = provider.calls;
  assert.deepEqual(call?.body["output_config"], { effort: "low" });
  assert.ok(
    call.text.includes(JSON.stringify(schema)),
    "the SDK offers the form as a tool to a model that it does not know",
  );
  const betas = String(call.headers["anthropic-beta"]).split(",");
  assert.ok(betas.includes("interleaved-thinking-2025-05-14"), betas.join());
  assert.ok(!betas.includes("context-management-2025-06-27"), betas.join());
  const passed = client.beta.messages.create({
    model: LOCAL,
    max_tokens: 100,
    messages: [{ role: "user", content: "And who?" }],
    betas: ["interleaved-thinking-2025-05-14"],
  });
  assert.equal((await passed.withResponse()).response.headers.get("x-holdfast-ignored"), null);
});

test("Anthropic says which stop text ended its answer, and so does the message", async (t) => {
  const provider = await anthropicProvider(t, (_, asked) => {
    const end = Object.assign(anthropicStop("stop_sequence"), { delta: STOPPED });
    const frames = ANTHROPIC.frames({ text: "One, two," }).map(({ place, data }) =>
      place === "finish" ? end : data,
    );
    assert.deepEqual(asked.body["stop_sequences"], ["three"]);
    return events(...frames);
  });
  const { baseURL, apiKey } = await serveGateway(t, { provider, format: "anthropic" });
  const { messages } = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
  const asked = { model: LOCAL, max_tokens: 100, stop_sequences: ["three"] };
  const said = [{ role: "user" as const, content: "Count." }];
  const streamed = await messages.stream({ ...asked, messages: said }).finalMessage();
  assert.deepEqual([streamed.stop_reason, streamed.stop_sequence], ["stop_sequence", "three"]);
});
