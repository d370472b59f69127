/**
 * The `openai` SDK against `holdfast serve`, as its users call it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { refuses } from "../../agent/models/provider-server.ts";
import { bySteps, openaiProvider } from "../scripted-provider.ts";
import { NOTE, noteArgs, Notes } from "./note-tool.ts";
import {
  assertEachExtendsTheOneBefore,
  LOCAL,
  REHEARSAL,
  type ServedGateway,
  serveGateway,
} from "./served-gateway.ts";

const clientOf = ({ baseURL, apiKey }: ServedGateway): OpenAI =>
  new OpenAI({ baseURL, apiKey, maxRetries: 0 });

const noteTool = (notes: Notes) => ({
  type: "function" as const,
  function: {
    ...NOTE,
    parse: (input: string) => noteArgs.parse(JSON.parse(input)),
    function: (args: { file: string; text: string }) => notes.add(args),
  },
});

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

  await t.test("runTools: the tool runs once, in the same turn; the next message in the same conversation", async () => {
    const notes = new Notes(gateway.workspace);
    const messages = [user('call note {"file": "a.txt", "text": "one"}\nthen\nsay Written.')];
    const runner = openai.chat.completions.runTools({ model, messages, tools: [noteTool(notes)] });
    assert.equal(await runner.finalContent(), "Written.");
    assert.deepEqual(notes.linesOf("a.txt"), ["one"]);
    const next = openai.chat.completions.runTools({
      model,
      messages: [...runner.messages, user("say Anything else?")],
      tools: [noteTool(notes)],
    });
    assert.equal(await next.finalContent(), "Anything else?");
    assert.deepEqual(await gateway.answers(), { "fresh new": 3, continued_turn: 1, continued_conversation: 1 });
  });
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
  const tools = [noteTool(notes)];
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
  assertEachExtendsTheOneBefore(provider);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, continued_turn: 2, continued_conversation: 1 });
});

test("openai SDK: errors are of the SDK's own classes", async (t) => {
  const provider = await openaiProvider(
    t,
    bySteps({
      "too many": [refuses(429, { error: { message: "slow down", type: "rate_limit_error" } }, { "retry-after": "30" })],
      refused: [refuses(401, { error: { message: "no such key", type: "authentication_error" } })],
    }),
  );
  const gateway = await serveGateway(t, { provider });
  const openai = clientOf(gateway);
  const ask = (content: string, more: object = {}): Promise<unknown> =>
    openai.chat.completions.create({ model: LOCAL, messages: [user(content)], ...more });

  await assert.rejects(clientOf({ ...gateway, apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError);
  await assert.rejects(ask("hello", { model: "local/none" }), OpenAI.NotFoundError);
  await assert.rejects(ask("hello", { n: 2 }), OpenAI.BadRequestError);
  await assert.rejects(ask("hello", { messages: [] }), OpenAI.BadRequestError);
  for (const stream of [false, true]) {
    await assert.rejects(ask("too many", { stream }), OpenAI.RateLimitError);
    await assert.rejects(ask("refused", { stream }), (error: unknown) => {
      assert.ok(error instanceof OpenAI.APIError);
      assert.equal(error.status, 424, "the provider's sign-in is not the client's");
      assert.ok(typeof error.requestID === "string");
      return true;
    });
  }
  const models = await openai.models.list();
  assert.ok(models.data.some(({ id }) => id === LOCAL));
  assert.equal((await openai.models.retrieve(LOCAL)).id, LOCAL);
});
