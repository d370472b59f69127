/**
 * The `openai` SDK over a connection that is cut after so many bytes of a response.
 *
 * Cut in the headers, the SDK asks again by itself; an answer that breaks off it throws, and the application asks again with what it has.
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import OpenAI from "openai";
import {
  type Cuttable,
  beginCuttable,
  BEHIND_CALLS,
  cutIn,
  cutNext,
  HANDED_OVER,
  IN_HEADERS,
  UNDER_WAY,
} from "./cuttable.ts";
import { behind } from "../cable.ts";
import { NOTE, noteArgs } from "./note-tool.ts";
import { runnable } from "./runnable-note.ts";
import { LOCAL } from "./served-gateway.ts";
import { WRITTEN } from "./staged-notes.ts";

type Message = OpenAI.ChatCompletionMessageParam;

const TRIES_MAX = 3;

const clientOf = ({ gateway: { baseURL, apiKey } }: Cuttable): OpenAI => new OpenAI({ baseURL, apiKey });

/** As an application does: what the SDK does not try again, it asks for again with what it has. */
async function run(cuttable: Cuttable, asked: string): Promise<string> {
  const { staged, notes } = cuttable;
  const openai = clientOf(cuttable);
  let messages: Message[] = [{ role: "user", content: asked }];
  const tools = [runnable(staged.tool(notes))];
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const runner = openai.chat.completions.runTools({ model: LOCAL, messages, tools, stream: true });
    try {
      return (await runner.finalContent()) ?? "";
    } catch {
      messages = [...runner.messages];
    }
  }
  return assert.fail("it never came whole");
}

test("openai SDK, streamed runTools: cut while the answer is under way, the model is not called again", async (t) => {
  const cuttable = await beginCuttable(t);
  const { staged, notes, newCalls } = cuttable;
  for (const [at, where] of UNDER_WAY.entries()) {
    await t.test(`cut ${where.name}`, async () => {
      const file = `notes-${at}.txt`;
      const stop = staged.holdProvider(where.step, 4);
      const text = await cutIn(cuttable, where, { stop, converse: () => run(cuttable, file) });
      assert.equal(text, WRITTEN);
      assert.deepEqual(notes.linesOf(file), ["one"], "the tool ran once");
      assert.equal(newCalls(), 2, "one call of the model for each step");
    });
  }
});

test("openai SDK, streamed runTools: cut when all was handed over, it costs at most that model call again", async (t) => {
  const cuttable = await beginCuttable(t);
  const { notes, newCalls } = cuttable;
  for (const [at, where] of HANDED_OVER.entries()) {
    await t.test(`cut ${where.name}`, async () => {
      const file = `notes-${at}.txt`;
      assert.equal(await cutIn(cuttable, where, { converse: () => run(cuttable, file) }), WRITTEN);
      assert.deepEqual(notes.linesOf(file), ["one"], "the tool ran once");
      const calls = newCalls();
      assert.ok(calls >= 2 && calls <= 3, `${calls} calls`);
    });
  }
});

const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: NOTE }];

/** By hand: each request has an Idempotency-Key, and is sent with it until its answer came whole. */
async function runNamed(cuttable: Cuttable, asked: string): Promise<string> {
  const { staged, notes } = cuttable;
  const openai = clientOf(cuttable);
  const ask = async (messages: Message[]) => {
    const headers = { "Idempotency-Key": randomUUID() };
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const stream = openai.chat.completions.stream({ model: LOCAL, messages, tools }, { headers });
      try {
        return await stream.finalMessage();
      } catch {
        continue;
      }
    }
    return assert.fail("it never came whole");
  };
  const note = staged.tool(notes);
  const messages: Message[] = [{ role: "user", content: asked }];
  for (;;) {
    const message = await ask(messages);
    messages.push(message);
    if (message.tool_calls === undefined) return message.content ?? "";
    for (const call of message.tool_calls) {
      assert.ok(call.type === "function");
      const content = await note(noteArgs.parse(JSON.parse(call.function.arguments)));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

test("openai SDK with an Idempotency-Key: cut anywhere, the model is not called again", async (t) => {
  const cuttable = await beginCuttable(t);
  const { gateway, notes, newCalls, staged } = cuttable;
  const openai = clientOf(cuttable);
  for (const [at, where] of HANDED_OVER.entries()) {
    await t.test(`cut ${where.name}`, async () => {
      const file = `notes-${at}.txt`;
      assert.equal(await cutIn(cuttable, where, { converse: () => runNamed(cuttable, file) }), WRITTEN);
      assert.deepEqual(notes.linesOf(file), ["one"], "the tool ran once");
      assert.equal(newCalls(), 2, "one call of the model for each step");
    });
  }

  const messages: Message[] = [{ role: "user", content: "a.txt" }];
  const create = (headers = {}) =>
    openai.chat.completions.create({ model: LOCAL, messages, tools }, { headers });

  await t.test("a whole answer, cut in the headers: the SDK itself asks again", async () => {
    const cut = cutNext(cuttable, IN_HEADERS);
    const answer = create({ "Idempotency-Key": randomUUID() });
    await Promise.race([cut, answer]);
    assert.equal((await answer).choices[0]?.finish_reason, "tool_calls");
    assert.equal(newCalls(), 1);
  });

  await t.test(
    "a whole answer, cut in its body: the SDK raises it, and the same request gets it",
    async () => {
      const named = { "Idempotency-Key": randomUUID() };
      const cut = cutNext(cuttable, behind('"choices":['));
      const broken = assert.rejects(create(named));
      await Promise.race([cut, broken]);
      await broken;
      assert.equal((await create(named)).choices[0]?.finish_reason, "tool_calls");
      assert.equal(newCalls(), 1);
    },
  );

  await t.test("a whole answer, cut before its first byte: no key is needed", async () => {
    const stop = staged.holdProvider(0, 3);
    const answer = create();
    await stop.reached(answer);
    gateway.cable.cut();
    gateway.cable.hold();
    await gateway.isLeft();
    stop.release();
    gateway.cable.letGo();
    assert.equal((await answer).choices[0]?.finish_reason, "tool_calls");
    assert.equal(newCalls(), 1);
  });
});

test("openai SDK: a client that has the tool calls of a broken response goes on with them, in the same turn", async (t) => {
  const cuttable = await beginCuttable(t);
  const { gateway, newCalls } = cuttable;
  const openai = clientOf(cuttable);
  const asked: Message = { role: "user", content: "a.txt" };
  const cut = cutNext(cuttable, BEHIND_CALLS);
  const stream = openai.chat.completions.stream({ model: LOCAL, messages: [asked], tools });
  await assert.rejects(stream.done());
  await cut;
  const said = stream.currentChatCompletionSnapshot?.choices[0]?.message;
  assert.ok(said !== undefined);
  const { content = null, tool_calls = [] } = said;
  const [call] = tool_calls;
  assert.ok(call !== undefined);
  const answer = await openai.chat.completions.create({
    model: LOCAL,
    messages: [
      asked,
      { role: "assistant", content, tool_calls },
      { role: "tool", tool_call_id: call.id, content: "noted" },
    ],
    tools,
  });
  assert.equal(answer.choices[0]?.message.content, WRITTEN);
  assert.equal(newCalls(), 2);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, continued_turn: 1 });
});
