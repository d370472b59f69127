/**
 * The `openai` SDK against `holdfast serve`, as its users call it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from "openai";
import { refuses } from "../../agent/models/providers/server.ts";
import { bySteps, openaiProvider } from "../../agent/models/providers/scripted.ts";
import { NOTE, Notes } from "./note-tool.ts";
import { runnableNote } from "./runnable-note.ts";
import {
  assertEachExtendsTheOneBefore,
  LOCAL,
  REHEARSAL,
  type ServedGateway,
  serveGateway,
} from "./served-gateway.ts";

const clientOf = ({ baseURL, apiKey }: ServedGateway): OpenAI =>
  new OpenAI({ baseURL, apiKey, maxRetries: 0 });

const user = (content: string) => ({ role: "user" as const, content });

test("openai SDK, rehearsal model: whole and streamed answers, tools, the next message", async (t) => {
  const gateway = await serveGateway(t);
  const openai = clientOf(gateway);
  const model = REHEARSAL;

  await t.test("a whole answer with its usage", async () => {
    const answer = await openai.chat.completions.create({ model, messages: [user("say Good morning.")] });
    assert.equal(answer.choices[0]?.message.content, "Good morning.");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.ok((answer.usage?.completion_tokens ?? 0) > 0);
  });

  await t.test("a streamed answer, chunk by chunk, with its usage at the end", async () => {
    const chunks = await openai.chat.completions.create({
      model,
      messages: [user("think I count.\ncount to 20")],
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    const finishes: unknown[] = [];
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of chunks) {
      text += chunk.choices[0]?.delta.content ?? "";
      finishes.push(...chunk.choices.flatMap(({ finish_reason }) => finish_reason ?? []));
      usage = chunk.usage ?? usage;
    }
    assert.match(text, /^1 2 3 .* 20 $/);
    assert.deepEqual(finishes, ["stop"]);
    assert.ok((usage?.total_tokens ?? 0) > 0);
  });

  await t.test("a user who stops reading is told so, and nobody else is disturbed", async () => {
    const messages = [user("count to 1000 every 20 ms")];
    const stream = openai.chat.completions.stream({ model, messages });
    stream.on("content", () => stream.abort());
    await assert.rejects(stream.finalContent(), APIUserAbortError);
  });

  await t.test(
    "runTools: the tool runs once, in the same turn; the next message in the same conversation",
    async () => {
      const notes = new Notes(gateway.workspace);
      const messages = [user('call note {"file": "a.txt", "text": "one"}\nthen\nsay Written.')];
      const runner = openai.chat.completions.runTools({ model, messages, tools: [runnableNote(notes)] });
      assert.equal(await runner.finalContent(), "Written.");
      assert.deepEqual(notes.linesOf("a.txt"), ["one"]);
      const next = openai.chat.completions.runTools({
        model,
        messages: [...runner.messages, user("say Anything else?")],
        tools: [runnableNote(notes)],
      });
      assert.equal(await next.finalContent(), "Anything else?");
      assert.deepEqual(await gateway.answers(), {
        "fresh new": 4,
        continued_turn: 1,
        continued_conversation: 1,
      });
    },
  );
});

test("openai SDK, OpenAI-compatible provider: streamed runTools pay once per step", async (t) => {
  const provider = await openaiProvider(
    t,
    bySteps({
      "Write three notes.": [
        {
          thinking: "Two at once.",
          text: "Two first.",
          calls: [
            { name: "note", args: { file: "a.txt", text: "one" } },
            { name: "note", args: { text: "two", file: "b.txt" } },
          ],
        },
        { calls: [{ name: "note", args: { file: "a.txt", text: "three" } }] },
        { text: "All three are written." },
      ],
      "Thanks.": [{ text: "You are welcome." }],
    }),
  );
  const gateway = await serveGateway(t, { provider });
  const openai = clientOf(gateway);
  const notes = new Notes(gateway.workspace);
  const tools = [runnableNote(notes)];
  const system = { role: "system" as const, content: "You keep notes." };

  const runner = openai.chat.completions.runTools({
    model: LOCAL,
    messages: [system, user("Write three notes.")],
    tools,
    stream: true,
    stream_options: { include_usage: true },
  });
  assert.equal(await runner.finalContent(), "All three are written.");
  assert.deepEqual(notes.linesOf("a.txt"), ["one", "three"]);
  assert.deepEqual(notes.linesOf("b.txt"), ["two"]);
  const usage = await runner.totalUsage();
  assert.equal(usage.completion_tokens, 3 * 7, "each step's tokens are counted once");

  const stream = openai.chat.completions.stream({
    model: LOCAL,
    messages: [...runner.messages, user("Thanks.")],
    tools: tools.map(({ function: { name, description, parameters } }) => ({
      type: "function" as const,
      function: { name, description, parameters: { ...parameters } },
    })),
  });
  assert.equal(await stream.finalContent(), "You are welcome.");

  assert.equal(provider.calls.length, 4);
  assertEachExtendsTheOneBefore(provider.calls);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, continued_turn: 2, continued_conversation: 1 });
});

test("openai SDK: errors are of the SDK's own classes", async (t) => {
  const provider = await openaiProvider(
    t,
    bySteps({
      "too many": [
        refuses(429, { error: { message: "slow down", type: "rate_limit_error" } }, { "retry-after": "30" }),
      ],
      refused: [refuses(401, { error: { message: "no such key", type: "authentication_error" } })],
    }),
  );
  const gateway = await serveGateway(t, { provider });
  const openai = clientOf(gateway);
  const ask = (content: string, more: object = {}): Promise<unknown> =>
    openai.chat.completions.create({ model: LOCAL, messages: [user(content)], ...more });

  await assert.rejects(clientOf({ ...gateway, apiKey: "wrong" }).models.list(), AuthenticationError);
  await assert.rejects(ask("hello", { model: "local/none" }), NotFoundError);
  await assert.rejects(ask("hello", { n: 2 }), BadRequestError);
  await assert.rejects(ask("hello", { messages: [] }), BadRequestError);
  for (const stream of [false, true]) {
    await assert.rejects(ask("too many", { stream }), RateLimitError);
    await assert.rejects(ask("refused", { stream }), (error: unknown) => {
      assert.ok(error instanceof APIError);
      assert.equal(error.status, 424, "the provider's sign-in is not the client's");
      assert.ok(typeof error.requestID === "string");
      return true;
    });
  }
  const models = await openai.models.list();
  assert.ok(models.data.some(({ id }) => id === LOCAL));
  assert.equal((await openai.models.retrieve(LOCAL)).id, LOCAL);
});

test("openai SDK: what a request asks for reaches the provider", async (t) => {
  const provider = await openaiProvider(t, () => ({ text: '{"n":1}' }));
  const openai = clientOf(await serveGateway(t, { provider }));
  const image_url = { url: "data:image/png;base64,iVBORw0KGgo=" };
  const schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
  const options = {
    temperature: 0.2,
    top_p: 0.9,
    seed: 7,
    stop: ["END"],
    presence_penalty: 0.1,
    frequency_penalty: 0.3,
    response_format: { type: "json_schema" as const, json_schema: { name: "number", schema, strict: true } },
  };
  const answer = await openai.chat.completions.create({
    ...options,
    model: LOCAL,
    max_completion_tokens: 50,
    tool_choice: "none",
    tools: [{ type: "function", function: NOTE }],
    messages: [
      { role: "developer", content: "Be terse." },
      {
        role: "user",
        content: [
          { type: "text", text: "Which?" },
          { type: "image_url", image_url },
        ],
      },
    ],
  });
  assert.equal(answer.choices[0]?.message.content, '{"n":1}');
  assert.equal(answer.usage?.prompt_tokens_details?.cached_tokens, 32);
  assert.equal(answer.usage.completion_tokens_details?.reasoning_tokens, 2);
  const body = provider.calls[0]?.body ?? {};
  const { response_format: format, ...sampling } = options;
  for (const [name, value] of Object.entries(sampling)) assert.deepEqual(body[name], value, name);
  assert.deepEqual(body["response_format"], format);
  assert.equal(body["max_completion_tokens"], 50);
  assert.equal(body["tool_choice"], "none");
  assert.deepEqual(body["messages"], [
    { role: "system", content: "Be terse." },
    {
      role: "user",
      content: [
        { type: "text", text: "Which?" },
        { type: "image_url", image_url },
      ],
    },
  ]);
});
