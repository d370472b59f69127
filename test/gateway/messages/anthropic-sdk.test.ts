/**
 * The `@anthropic-ai/sdk` against a gateway: whole and streamed messages, tools, retries, and answers that are read on.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { until } from "../../e2e/rig.ts";
import { ALICE_KEY, BOB_KEY } from "../../server/http/rig.ts";
import { lastTold } from "../paced-model.ts";
import { ASKED, begin, clientOf, MODEL, NOTE, textOf, user } from "./anthropic-user.ts";

/** The SDK has no name for it any more, and its users still send it. */
const WARM = { temperature: 0.5 };
/** Keys in another order, as Claude Code writes them. */
function rewritten(input: unknown): object {
  return Object.fromEntries(Object.entries(input ?? {}).toReversed());
}

/** What the client sends back of a message, and the results of its calls. */
function answered(
  { content }: Anthropic.Message,
  ...more: Anthropic.ContentBlockParam[]
): Anthropic.MessageParam[] {
  const said = content.map((block) =>
    block.type === "tool_use" ? { ...block, input: rewritten(block.input) } : block,
  );
  const results = content.flatMap((block) =>
    block.type === "tool_use"
      ? [
          {
            type: "tool_result" as const,
            tool_use_id: block.id,
            content: `noted ${JSON.stringify(block.input)}`,
          },
        ]
      : [],
  );
  return [{ role: "assistant", content: said }, user([...results, ...more])];
}

test("a whole message has Anthropic's shape and counts its tokens, those of the cache apart", async (t) => {
  const { anthropic, model } = await begin(t);
  const { data, request_id, response } = await anthropic.messages
    .create({
      ...ASKED,
      system: "Be brief.",
      messages: [user("hello")],
      ...WARM,
      stop_sequences: ["END"],
    })
    .withResponse();
  assert.match(data.id, /^msg_[0-9a-f]{32}$/);
  assert.match(request_id ?? "", /^req_/);
  assert.equal(response.headers.get("x-holdfast-answer"), "new");
  assert.deepEqual(
    [data.type, data.role, data.model, data.stop_reason, data.stop_sequence, data.content],
    ["message", "assistant", MODEL, "end_turn", null, [{ type: "text", text: "You said hello." }]],
  );
  assert.deepEqual(data.usage, {
    input_tokens: 10,
    cache_creation_input_tokens: 2,
    cache_read_input_tokens: 3,
    output_tokens: 5,
  });
  const [call] = model.calls;
  assert.equal(call?.system, "Be brief.");
  assert.deepEqual(
    [call?.options?.maxOutputTokens, call?.options?.temperature, call?.options?.stop],
    [1_000, 0.5, ["END"]],
  );
});

test("a streamed message is the one that comes in one piece, and the retry of the other kind costs nothing", async (t) => {
  const { anthropic, model } = await begin(t);
  const key = { headers: { "idempotency-key": "one" } };
  const asked = { ...ASKED, messages: [user("note twice")], tools: [NOTE] };
  const stream = anthropic.messages.stream(asked, key);
  const types: string[] = [];
  for await (const { type } of stream) types.push(type);
  const streamed = await stream.finalMessage();
  const whole = await anthropic.messages.create(asked, key);
  assert.deepEqual(JSON.parse(JSON.stringify({ ...streamed, parsed_output: undefined })), whole);
  assert.deepEqual(types.slice(0, 2), ["message_start", "content_block_start"]);
  assert.deepEqual(
    whole.content.map((block) => (block.type === "tool_use" ? block.input : block)),
    [{ type: "text", text: "Two notes. " }, { text: "one", at: 1 }, { text: "two" }],
  );
  assert.equal(whole.stop_reason, "tool_use");
  assert.equal(model.calls.length, 1);
});

test("results continue the open turn, whatever the client has rewritten, and the next message its conversation", async (t) => {
  const { anthropic, model, world } = await begin(t);
  const billing = (version: string) => ({
    type: "text" as const,
    text: `x-anthropic-billing-header: cc=${version};`,
  });
  const system = (version: string, mark: object = {}): Anthropic.TextBlockParam[] => [
    billing(version),
    { type: "text", text: "Be brief.", ...mark },
  ];
  const marked = { cache_control: { type: "ephemeral" } } as const;
  const first = await anthropic.messages.create({
    ...ASKED,
    system: system("1", marked),
    tools: [NOTE],
    messages: [user([{ type: "text", text: "note twice", ...marked }])],
  });
  const noted = answered(first, { type: "text", text: "Go on." });
  const second = await anthropic.messages.create({
    ...ASKED,
    max_tokens: 2_000,
    system: system("2"),
    tools: [{ ...NOTE, ...marked }],
    messages: [user("note twice"), ...noted],
  });
  assert.equal(textOf(second), "You said Go on..");
  assert.equal(world.gateway.counters.continuedTurns, 1);
  const third = await anthropic.messages.create({
    ...ASKED,
    system: system("3"),
    tools: [NOTE],
    messages: [
      user("note twice"),
      ...noted,
      { role: "assistant", content: textOf(second) },
      user([{ type: "text", text: "Thanks" }]),
    ],
  });
  assert.equal(textOf(third), "You said Thanks.");
  assert.equal(world.gateway.counters.continuedConversations, 1);
  assert.equal(world.gateway.counters.fresh.get("new"), 1);
  assert.equal(model.calls.length, 3);
  assert.ok(
    model.calls.every((call) => call.system === "Be brief."),
    "the billing line is for no model",
  );
});

test("a failed tool, an image and words before the results reach the model, in the open turn and in a history", async (t) => {
  const { anthropic, model, world } = await begin(t);
  const first = await anthropic.messages.create({ ...ASKED, tools: [NOTE], messages: [user("note twice")] });
  const [one, two] = first.content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
  const image = {
    type: "base64",
    media_type: "image/png",
    data: Buffer.from("png").toString("base64"),
  } as const;
  const messages: Anthropic.MessageParam[] = [
    user("note twice"),
    { role: "assistant", content: first.content },
    user([
      { type: "text", text: "Here: " },
      {
        type: "tool_result",
        tool_use_id: two ?? "",
        content: [
          { type: "text", text: "seen" },
          { type: "image", source: image },
        ],
      },
      { type: "tool_result", tool_use_id: one ?? "", is_error: true, content: "no disk" },
    ]),
  ];
  await anthropic.messages.create({ ...ASKED, tools: [NOTE], messages });
  assert.equal(world.gateway.counters.continuedTurns, 1);
  await clientOf(world, BOB_KEY).messages.create({ ...ASKED, tools: [NOTE], messages });
  for (const call of model.calls.slice(1)) {
    const told = call.messages.find(({ role }) => role === "tool");
    assert.ok(told?.role === "tool");
    assert.deepEqual(
      told.content.map(({ outcome, text, files }) => [outcome, text, files?.[0]?.mediaType]),
      [
        ["failed", "no disk", undefined],
        ["done", "seen", "image/png"],
      ],
    );
    assert.equal(lastTold(call), "Here: ");
  }
});

test("sessions of this door and of chat are never mixed up", async (t) => {
  const { anthropic, world } = await begin(t);
  const openai = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: ALICE_KEY, maxRetries: 0 });
  const first = await anthropic.messages.create({ ...ASKED, messages: [user("hello")] });
  const said = textOf(first);
  await openai.chat.completions.create({
    model: MODEL,
    messages: [
      { role: "user", content: "hello" },
      { role: "assistant", content: said },
      { role: "user", content: "more" },
    ],
  });
  assert.equal(world.gateway.counters.continuedConversations, 0);
  await anthropic.messages.create({
    ...ASKED,
    messages: [user("hello"), { role: "assistant", content: said }, user("more")],
  });
  assert.equal(world.gateway.counters.continuedConversations, 1);
});

test("a message that was cut is attached to by its retry, and read on by its name, frame by frame", async (t) => {
  const gate = Promise.withResolvers<void>();
  const { anthropic, model, world } = await begin(t, () => [
    "The first half ",
    () => gate.promise,
    "and the rest.",
  ]);
  const asked = { ...ASKED, messages: [user("Tell me")] };
  const cut = await anthropic.messages.create({ ...asked, stream: true }).withResponse();
  const resume = cut.response.headers.get("x-holdfast-resume") ?? "";
  let text = "";
  for await (const event of cut.data) {
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
    if (text === "The first half ") break;
  }
  await until(() => world.gateway.readers === 0, "the gateway notices");
  const retried = anthropic.messages.create({ ...asked, metadata: { user_id: "another" } });
  await until(() => world.gateway.counters.attached === 1, "it attaches");
  gate.resolve();
  assert.equal(textOf(await retried), "The first half and the rest.");
  const read = async (after?: string): Promise<readonly string[]> => {
    const headers = {
      authorization: `Bearer ${ALICE_KEY}`,
      ...(after === undefined ? {} : { "last-event-id": after }),
    };
    const response = await fetch(world.url + resume, { headers });
    assert.equal(response.status, 200);
    return (await response.text()).split("\n\n").filter((frame) => frame !== "");
  };
  const all = await read();
  assert.match(all[0] ?? "", /^event: message_start\n/);
  for (const [at, frame] of all.entries()) {
    const id = /^id: (.*)$/m.exec(frame)?.[1] ?? "";
    assert.deepEqual(await read(id), all.slice(at + 1), id);
  }
  assert.equal(model.calls.length, 1);
});

test("killed in mid-answer: a reader that returns is told no word twice", async (t) => {
  const gate = Promise.withResolvers<void>();
  const { anthropic, model, world } = await begin(t, () => [
    "The first half ",
    () => gate.promise,
    "and the rest.",
  ]);
  const cut = await anthropic.messages
    .create({ ...ASKED, messages: [user("Tell me")], stream: true })
    .asResponse();
  const reader = cut.body?.pipeThrough(new TextDecoderStream()).getReader();
  let before = "";
  while (!before.includes("half ")) before += (await reader?.read())?.value ?? assert.fail("it ended");
  await reader?.cancel();
  await world.restart();
  gate.resolve();
  const frames = before.split("\n\n").slice(0, -1);
  const id = /^id: (.*)$/m.exec(frames.at(-1) ?? "")?.[1] ?? "";
  const headers = { authorization: `Bearer ${ALICE_KEY}`, "last-event-id": id };
  const after = await (
    await fetch(world.url + (cut.headers.get("x-holdfast-resume") ?? ""), { headers })
  ).text();
  const events = [...frames, ...after.split("\n\n").slice(0, -1)].map((frame) =>
    frame.replace(/^id: .*\n/m, ""),
  );
  const texts = events.join("\n").matchAll(/"text_delta","text":("(?:[^"\\]|\\.)*")/g);
  assert.equal(
    [...texts].map(([, json]) => String(JSON.parse(json ?? ""))).join(""),
    "The first half and the rest.",
  );
  assert.deepEqual(
    ["message_start", "content_block_start", "message_stop"].map(
      (type) => events.filter((event) => event.startsWith(`event: ${type}\n`)).length,
    ),
    [1, 1, 1],
  );
  assert.equal(model.calls.length, 2, "the step that was cut off, and once more");
});

test("an answer is stopped by its Idempotency-Key, and its place refused at the other door", async (t) => {
  const gate = Promise.withResolvers<void>();
  const { anthropic, model, world } = await begin(t, () => ["Half ", () => gate.promise]);
  const stream = await anthropic.messages.create(
    { ...ASKED, messages: [user("Tell me")], stream: true },
    { headers: { "idempotency-key": "stop-me" } },
  );
  const iterator = stream[Symbol.asyncIterator]();
  await iterator.next();
  const headers = { authorization: `Bearer ${ALICE_KEY}`, "idempotency-key": "stop-me" };
  const stopped = await fetch(`${world.url}/v1/messages`, { method: "DELETE", headers });
  assert.equal(stopped.status, 200);
  await until(() => model.calls[0]?.signal.aborted === true, "the model is stopped");
  const [session] = world.gateway.sessions;
  await iterator.return?.();
  const events = `${world.url}/v1/streams/${session?.answer.streamId ?? ""}/events`;
  const chat = await fetch(events, { headers: { ...headers, "last-event-id": "0:0" } });
  if (session !== undefined) assert.equal(chat.status, 409, await chat.text());
});
