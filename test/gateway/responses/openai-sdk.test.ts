/**
 * The `openai` SDK's `responses` against a gateway: whole and streamed answers, tools, histories in full and by id, and what is kept.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { IncomingMessage, request } from "node:http";
import { test, type TestContext } from "node:test";
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import type {
  Response,
  ResponseInput,
  ResponseStreamEvent,
  Tool,
} from "openai/resources/responses/responses";
import { z } from "zod";
import { ALICE_KEY, BOB_KEY } from "../../server/http/rig.ts";
import { lastTold, PacedModel, type PacedScript } from "../paced-model.ts";
import { World, type WorldOptions } from "../world.ts";

const MODEL = "paced/model";

const NOTE: Tool = {
  type: "function",
  name: "note",
  description: "Writes a note.",
  parameters: { type: "object", properties: { text: { type: "string" } } },
  strict: false,
};

/** Says hello, calls tools when it is asked to note, and says what they told it. */
const SCRIPT: PacedScript = (call) => {
  const told = lastTold(call);
  if (told === "note twice") {
    return ["Two notes. ", { tool: "note", args: { text: "one" } }, { tool: "note", args: { text: "two" } }];
  }
  return [`You said ${told}.`];
};

const clientOf = (world: World, apiKey = ALICE_KEY): OpenAI =>
  new OpenAI({ baseURL: `${world.url}/v1`, apiKey, maxRetries: 0 });

async function begin(t: TestContext, script = SCRIPT, options: WorldOptions = {}) {
  const model = new PacedModel(script);
  const world = await World.begin(t, model, options);
  return { model, world, openai: clientOf(world) };
}

async function eventsOf(stream: AsyncIterable<ResponseStreamEvent>): Promise<readonly ResponseStreamEvent[]> {
  return Array.fromAsync(stream);
}

/** What a response said, as its client sends it back. */
function said({ output }: Pick<Response, "output">): ResponseInput {
  return output.filter(
    (item) => item.type === "message" || item.type === "reasoning" || item.type === "function_call",
  );
}

/** The results of all calls of a response, in order. */
function results({ output }: Pick<Response, "output">): ResponseInput {
  return output.flatMap((item) =>
    item.type === "function_call"
      ? [{ type: "function_call_output" as const, call_id: item.call_id, output: `noted ${item.arguments}` }]
      : [],
  );
}

test("a whole response has OpenAI's shape, repeats what was asked, and counts its tokens", async (t) => {
  const { openai } = await begin(t);
  const response = await openai.responses.create({
    model: MODEL,
    instructions: "Be brief.",
    input: "hello",
    metadata: { topic: "greeting" },
    temperature: 0.5,
  });
  assert.match(response.id, /^resp_[0-9a-f]{32}$/);
  assert.equal(response.object, "response");
  assert.equal(response.status, "completed");
  assert.equal(response.output_text, "You said hello.");
  assert.deepEqual(
    [response.instructions, response.metadata, response.temperature, response.model],
    ["Be brief.", { topic: "greeting" }, 0.5, MODEL],
  );
  assert.deepEqual(response.usage, {
    input_tokens: 15,
    input_tokens_details: { cached_tokens: 3, cache_write_tokens: 2 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 1 },
    total_tokens: 20,
  });
});

test("a streamed response tells its events in OpenAI's order, with numbers that rise", async (t) => {
  const { openai } = await begin(t);
  const events = await eventsOf(
    await openai.responses.create({ model: MODEL, input: "note twice", tools: [NOTE], stream: true }),
  );
  const call = [
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
  ];
  const types = ["created", "in_progress", "output_item.added", "content_part.added"];
  const text = ["output_text.delta", "output_text.delta"];
  const done = ["output_text.done", "content_part.done", "output_item.done"];
  const expected = [...types, ...text, ...done, ...call, ...call, "completed"].map(
    (type) => `response.${type}`,
  );
  assert.deepEqual(
    events.map(({ type }) => type),
    expected,
  );
  const numbers = events.map((event) => ("sequence_number" in event ? event.sequence_number : -1));
  assert.deepEqual(
    numbers,
    [...new Set(numbers)].toSorted((a, b) => a - b),
  );
});

test("responses.stream adds up to the final response, and a stored one is the same", async (t) => {
  const { openai } = await begin(t);
  const stream = openai.responses.stream({ model: MODEL, input: "note twice", tools: [NOTE] });
  let last: ResponseStreamEvent | undefined;
  for await (const event of stream) last = event;
  const final = await stream.finalResponse();
  assert.equal(final.output.length, 3);
  assert.ok(last?.type === "response.completed");
  const stored = await openai.responses.retrieve(final.id);
  assert.deepEqual(stored.output, last.response.output);
  assert.deepEqual(stored.usage, final.usage);
});

test("tool results with the whole history continue the turn; the next message its conversation", async (t) => {
  const { openai, model, world } = await begin(t);
  const input: ResponseInput = [{ role: "user", content: "note twice" }];
  const first = await openai.responses.create({ model: MODEL, input, tools: [NOTE] });
  input.push(...said(first), ...results(first));
  const second = await openai.responses.create({ model: MODEL, input, tools: [NOTE] });
  assert.match(second.output_text, /^You said noted .*one.*\|noted .*two/);
  input.push(...said(second), { role: "user", content: "thanks" });
  const third = await openai.responses.create({ model: MODEL, input, tools: [NOTE] });
  assert.equal(third.output_text, "You said thanks.");
  assert.equal(model.calls.length, 3);
  const { continuedTurns, continuedConversations } = world.gateway.counters;
  assert.deepEqual([continuedTurns, continuedConversations], [1, 1]);
});

test("results between the calls of one response continue the turn as well, and all of them are kept", async (t) => {
  const { openai, model, world } = await begin(t);
  const input: ResponseInput = [{ role: "user", content: "note twice" }];
  const first = await openai.responses.create({ model: MODEL, input, tools: [NOTE] });
  const told = results(first);
  for (const item of said(first))
    input.push(item, ...(item.type === "function_call" ? told.splice(0, 1) : []));
  const second = await openai.responses.create({ model: MODEL, input, tools: [NOTE] });
  assert.equal(world.gateway.counters.continuedTurns, 1);
  assert.equal(model.calls.length, 2);
  const listed = await Array.fromAsync(openai.responses.inputItems.list(second.id, { order: "asc" }));
  const calls = ["function_call", "function_call", "function_call_output", "function_call_output"];
  assert.deepEqual(
    listed.map(({ type }) => type),
    ["message", "message", ...calls],
  );
});

test("previous_response_id continues the same turn and conversation, also when the server was killed", async (t) => {
  const { openai, model, world } = await begin(t);
  const asked = { model: MODEL, tools: [NOTE], instructions: "Take notes." };
  const first = await openai.responses.create({ ...asked, input: "note twice" });
  await world.restart();
  const second = await openai.responses.create({
    ...asked,
    previous_response_id: first.id,
    input: results(first),
  });
  assert.match(second.output_text, /^You said noted/);
  await world.restart();
  const third = await openai.responses.create({ ...asked, previous_response_id: second.id, input: "thanks" });
  assert.equal(third.output_text, "You said thanks.");
  assert.equal(third.previous_response_id, second.id);
  assert.equal(model.calls.length, 3);
  assert.deepEqual(
    model.calls.at(-1)?.messages.map(({ role }) => role),
    ["user", "assistant", "tool", "assistant", "user"],
  );
  assert.deepEqual(
    [world.gateway.counters.continuedConversations, [...world.gateway.counters.fresh]],
    [1, []],
  );
});

test("two answers continue from one response: each is a branch of its own", async (t) => {
  const { openai, model } = await begin(t);
  const first = await openai.responses.create({ model: MODEL, input: "hello" });
  const branch = async (input: string) =>
    (await openai.responses.create({ model: MODEL, previous_response_id: first.id, input })).output_text;
  assert.deepEqual([await branch("left"), await branch("right")], ["You said left.", "You said right."]);
  const told =
    model.calls
      .at(-1)
      ?.messages.map(({ content }) => JSON.stringify(content))
      .join(" ") ?? "";
  assert.ok(told.includes("hello") && told.includes("right") && !told.includes("left"));
});

test("an item_reference stands for the item that it names", async (t) => {
  const { openai, model, world } = await begin(t);
  const first = await openai.responses.create({ model: MODEL, input: "hello" });
  const [said] = first.output;
  const input: ResponseInput = [
    { role: "user", content: "hello" },
    { type: "item_reference", id: said?.id ?? "" },
    { role: "user", content: "more" },
  ];
  assert.equal((await openai.responses.create({ model: MODEL, input })).output_text, "You said more.");
  assert.equal(world.gateway.counters.continuedConversations, 1);
  const unknown: ResponseInput = [{ type: "item_reference", id: `msg_${"0".repeat(32)}_0` }];
  await assert.rejects(openai.responses.create({ model: MODEL, input: unknown }), NotFoundError);
  assert.equal(model.calls.length, 2);
});

test("kept responses: retrieved, their input listed, deleted; another principal has none of them", async (t) => {
  const { openai, world } = await begin(t);
  const first = await openai.responses.create({ model: MODEL, input: "hello" });
  const input: ResponseInput = [
    { role: "user", content: "hello" },
    ...said(first),
    { role: "user", content: "more" },
  ];
  const second = await openai.responses.create({ model: MODEL, input });
  const { output_text: text } = await openai.responses.retrieve(second.id);
  assert.equal(text, "You said more.");
  const listed = await Array.fromAsync(
    openai.responses.inputItems.list(second.id, { order: "asc", limit: 2 }),
  );
  assert.deepEqual(
    listed.map((item) => (item.type === "message" ? item.role : item.type)),
    ["user", "assistant", "user"],
  );
  await assert.rejects(clientOf(world, BOB_KEY).responses.retrieve(second.id), NotFoundError);
  await assert.rejects(clientOf(world, BOB_KEY).responses.delete(second.id), NotFoundError);
  await openai.responses.delete(second.id);
  await assert.rejects(openai.responses.retrieve(second.id), NotFoundError);
  await assert.rejects(
    openai.responses.create({ model: MODEL, previous_response_id: second.id, input: "again" }),
    (error) => error instanceof BadRequestError && error.code === "previous_response_not_found",
  );
});

test("a response is kept for its time, and one with store: false for the grace period", async (t) => {
  const { openai, world } = await begin(t);
  const kept = await openai.responses.create({ model: MODEL, input: "hello" });
  const other = await openai.responses.create({ model: MODEL, input: "hello", store: false });
  assert.equal((await openai.responses.retrieve(other.id)).status, "completed");
  world.nowMs += 61_000;
  await assert.rejects(openai.responses.retrieve(other.id), NotFoundError);
  world.nowMs += 29 * 24 * 60 * 60_000;
  assert.equal((await openai.responses.retrieve(kept.id)).output_text, "You said hello.");
  world.nowMs += 2 * 24 * 60 * 60_000;
  await assert.rejects(openai.responses.retrieve(kept.id), NotFoundError);
});

test("a kept response outlives its stream: it is retrieved, referred to and continued from its row alone", async (t) => {
  const { openai, model, world } = await begin(t);
  const asked = { model: MODEL, tools: [NOTE] };
  const first = await openai.responses.create({ ...asked, input: "note twice" });
  const second = await openai.responses.create({
    ...asked,
    previous_response_id: first.id,
    input: results(first),
  });
  await world.outliveStreams();
  assert.deepEqual((await openai.responses.retrieve(second.id)).output, second.output);
  const third = await openai.responses.create({ ...asked, previous_response_id: second.id, input: "thanks" });
  assert.equal(third.output_text, "You said thanks.");
  assert.deepEqual(
    model.calls.at(-1)?.messages.map(({ role }) => role),
    ["user", "assistant", "tool", "assistant", "user"],
  );
  await assert.rejects(openai.responses.retrieve(first.id, { stream: true }), NotFoundError);
});

test("what the model cannot be given is named, not refused; what would change the answer is refused", async (t) => {
  const { openai, model } = await begin(t);
  const { data, response } = await openai.responses
    .create({
      model: MODEL,
      input: "hello",
      tools: [NOTE, { type: "web_search" }, { type: "custom", name: "patch" }],
      include: ["reasoning.encrypted_content", "message.output_text.logprobs"],
      service_tier: "flex",
    })
    .withResponse();
  assert.equal(data.output_text, "You said hello.");
  assert.equal(
    response.headers.get("x-holdfast-ignored"),
    "service_tier, include.message.output_text.logprobs, tools.web_search, tools.custom",
  );
  assert.deepEqual(
    model.calls[0]?.tools.map(({ name }) => name),
    ["note"],
  );
  await assert.rejects(
    openai.responses.create({ model: MODEL, input: "hello", prompt: { id: "pmpt_1" } }),
    BadRequestError,
  );
  await assert.rejects(openai.responses.create({ model: "paced/none", input: "hello" }), NotFoundError);
});

test("sessions of the two doors are never mixed up", async (t) => {
  const { openai, world } = await begin(t);
  await openai.chat.completions.create({ model: MODEL, messages: [{ role: "user", content: "hello" }] });
  const input: ResponseInput = [
    { role: "user", content: "hello" },
    { role: "assistant", content: "You said hello." },
    { role: "user", content: "more" },
  ];
  await openai.responses.create({ model: MODEL, input });
  assert.deepEqual(
    [...world.gateway.counters.fresh],
    [
      ["new", 1],
      ["unknown_lineage", 1],
    ],
  );
});

test("the way back to a streamed response is its own, and a WebSocket is answered by 426 at once", async (t) => {
  const { world } = await begin(t);
  const body = JSON.stringify({ model: MODEL, input: "hello", stream: true });
  const headers = { authorization: `Bearer ${ALICE_KEY}`, "content-type": "application/json" };
  const streamed = await fetch(`${world.url}/v1/responses`, { method: "POST", headers, body });
  await streamed.text();
  const stream = streamed.headers.get("x-holdfast-stream") ?? "";
  const asChat = await fetch(`${world.url}/v1/streams/${stream}/events`, { headers });
  assert.equal(asChat.status, 409);
  assert.match(await asChat.text(), /other_door/);
  const again = await fetch(world.url + (streamed.headers.get("x-holdfast-resume") ?? ""), { headers });
  assert.match(await again.text(), /response\.completed/);
  const upgrade = request(`${world.url}/v1/responses`, {
    headers: { ...headers, connection: "upgrade", upgrade: "websocket", "sec-websocket-key": "eA==" },
  });
  const refused = once(upgrade, "response");
  upgrade.end();
  const [answer] = z.tuple([z.instanceof(IncomingMessage)]).parse(await refused);
  answer.resume();
  assert.equal(answer.statusCode, 426);
});
