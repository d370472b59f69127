/**
 * What keeping a session brings: a retry pays nothing, and going on costs what is new, not what was said before.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import OpenAI from "openai";
import { chunkOf } from "../../agent/models/providers/formats.ts";
import { bySteps, openaiProvider } from "../../agent/models/providers/scripted.ts";
import { NOTE } from "./note-tool.ts";
import { assertEachExtendsTheOneBefore, LOCAL, OPEN_ANSWERS, serveGateway } from "./served-gateway.ts";
import type { Act } from "../../agent/models/providers/server.ts";

type Message = OpenAI.ChatCompletionMessageParam;
const user = (content: string): Message => ({ role: "user", content });
const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: NOTE }];

/** Says the first half, and the second when it is let. */
function halves(): { readonly act: Act; readonly goOn: () => void } {
  const gate = Promise.withResolvers<void>();
  const act: Act = async (response) => {
    const send = (data: unknown): void => void response.write(`data: ${JSON.stringify(data)}\n\n`);
    response.writeHead(200, { "content-type": "text/event-stream" });
    send(chunkOf({ role: "assistant", content: "The first half, " }));
    await gate.promise;
    send(chunkOf({ content: "and the second." }));
    send(chunkOf({}, "stop"));
    response.end("data: [DONE]\n\n");
  };
  return { act, goOn: gate.resolve };
}

test("a client that hangs up and asks again comes back to its answer: the provider is called once", async (t) => {
  const { act, goOn } = halves();
  const provider = await openaiProvider(t, bySteps({ "Tell me.": [act] }));
  const gateway = await serveGateway(t, { provider });
  const openai = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.apiKey, maxRetries: 0 });
  const ask = () =>
    openai.chat.completions.create({ model: LOCAL, messages: [user("Tell me.")], stream: true });

  const broken = await ask();
  for await (const chunk of broken) {
    if (chunk.choices[0]?.delta.content === "The first half, ") broken.controller.abort();
  }
  // The gateway learns of it a moment later; until then an identical request is another one.
  while ((await gateway.metric(OPEN_ANSWERS)) > 0);
  const again = await ask();
  goOn();
  let text = "";
  for await (const chunk of again) text += chunk.choices[0]?.delta.content ?? "";
  assert.equal(text, "The first half, and the second.");
  assert.equal(provider.calls.length, 1);
  assert.deepEqual(await gateway.answers(), { "fresh new": 1, attached: 1 });

  const anew = await openai.chat.completions.create({ model: LOCAL, messages: [user("Tell me.")] });
  assert.equal(anew.choices[0]?.message.content, "The first half, and the second.");
  assert.equal(provider.calls.length, 2, "what was delivered whole is no retry: another generation");
});

test("going on sends nothing of the history to the server again, whatever its length", async (t) => {
  const call = { name: "note", args: { file: "a.txt", text: "one" } };
  const provider = await openaiProvider(
    t,
    bySteps({
      "Write a note.": [{ text: "I do.", calls: [call] }, { text: "It is written." }],
      "Thanks.": [{ text: "You are welcome." }],
    }),
  );
  const gateway = await serveGateway(t, { provider });
  const openai = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.apiKey, maxRetries: 0 });
  const messages: Message[] = Array.from({ length: 100 }, (_, at): readonly Message[] => [
    user(`${at}: ${randomBytes(1_000).toString("hex")}`),
    { role: "assistant", content: randomBytes(1_000).toString("hex") },
  ]).flat();
  const historyBytes = JSON.stringify(messages).length;
  const stored = (): Promise<number> => gateway.metric("holdfast_append_bytes_sum");
  /** Asks, and tells how much the server has stored for it. */
  const ask = async (...said: readonly Message[]): Promise<number> => {
    messages.push(...said);
    const before = await stored();
    const answer = await openai.chat.completions.create({ model: LOCAL, messages, tools });
    const message = answer.choices[0]?.message;
    assert.ok(message !== undefined);
    messages.push(message);
    return (await stored()) - before;
  };

  const fresh = await ask(user("Write a note."));
  assert.ok(fresh > historyBytes / 2, `the measure sees a history that is sent: ${fresh}`);
  const toolId = messages.at(-1);
  assert.ok(toolId?.role === "assistant");
  const result = await ask({
    role: "tool",
    tool_call_id: toolId.tool_calls?.[0]?.id ?? "",
    content: "noted",
  });
  const next = await ask(user("Thanks."));
  t.diagnostic(
    `stored: ${fresh} bytes for the history, ${result} for a tool result, ${next} for the next message`,
  );
  assert.ok(result < historyBytes / 20, `a tool result: ${result} of ${historyBytes}`);
  assert.ok(next < historyBytes / 10, `the next message: ${next} of ${historyBytes}`);
  assert.equal(provider.calls.length, 3);
  assertEachExtendsTheOneBefore(provider.calls);
  assert.deepEqual(await gateway.answers(), {
    "fresh unknown_lineage": 1,
    continued_turn: 1,
    continued_conversation: 1,
  });
});
