/**
 * A tool of an application's own route that asks before it runs: `streamText` over a real gateway, read by the transport of `useChat` over connections that break.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  convertToModelMessages,
  isToolUIPart,
  readUIMessageStream,
  streamText,
  tool,
  type UIMessage,
} from "ai";
import * as z from "zod";
import { HoldfastRouteTransport } from "../../src/ai-sdk/route-transport.ts";
import { openChats } from "../../src/node/chats.ts";
import { serve } from "../../src/node/index.ts";

process.env["HOLDFAST_HOME_KEY"] = Buffer.alloc(32, 7).toString("base64url");

/** The route, and a conversation with it as `useChat` has it. */
async function conversation(t: TestContext) {
  const data = mkdtempSync(join(tmpdir(), "holdfast-approval-"));
  const gateway = await serve({ port: 0, data: join(data, "gateway") });
  const chats = await openChats({ data: join(data, "chats") });
  t.after(async () => {
    await chats.close();
    await gateway.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });
  const { baseUrl: baseURL, apiKey = "" } = gateway;
  const model = createOpenAICompatible({ name: "holdfast", baseURL, apiKey })("rehearsal");
  const account = { paid: 0, requests: 0 };
  const pay = tool({
    inputSchema: z.object({ euros: z.number() }),
    execute: ({ euros }) => {
      account.paid++;
      return `paid ${euros} euros`;
    },
  });
  const rules = { tools: { pay }, toolApproval: { pay: "user-approval" } } as const;
  const reach = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    account.requests++;
    const url = new URL(input instanceof Request ? input.url : input, "http://localhost");
    const request = new Request(url, init);
    const answer = async (abortSignal: AbortSignal) =>
      streamText({ ...rules, model, messages: await convertToModelMessages(sent), abortSignal });
    const response = await chats.toHoldfastResponse({ request, chatId: "trip", answer });
    return new Response(response.body?.pipeThrough(broken()) ?? null);
  };
  const transport = new HoldfastRouteTransport({ fetch: reach });
  let sent: UIMessage[] = [];
  const ask = async (messages: UIMessage[]): Promise<UIMessage> => {
    sent = messages;
    const stream = await transport.sendMessages({
      trigger: "submit-message",
      chatId: "trip",
      messageId: undefined,
      messages,
      abortSignal: undefined,
    });
    const last = messages.at(-1);
    const before = last?.role === "assistant" ? { message: last } : {};
    const said = await Array.fromAsync(readUIMessageStream({ stream, ...before }));
    const answer = said.at(-1);
    assert.ok(answer !== undefined);
    return answer;
  };
  return { ask, account };
}

/** Each connection carries so many bytes, and a network is gone behind them. */
function broken(): TransformStream<Uint8Array, Uint8Array> {
  let left = 400;
  return new TransformStream({
    transform: (bytes, controller) => {
      controller.enqueue(bytes.subarray(0, left));
      left -= bytes.length;
      if (left < 0) controller.error(new TypeError("the network is gone"));
    },
  });
}

const text = ({ parts }: UIMessage): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");

for (const approved of [true, false]) {
  test(`C7: a tool of a route is asked for, and ${approved ? "runs once" : "does not run"} behind the answer`, async (t) => {
    const { ask, account } = await conversation(t);
    const question: UIMessage = {
      id: "m",
      role: "user",
      parts: [{ type: "text", text: 'call pay {"euros":90}' }],
    };
    const asked = await ask([question]);
    const call = asked.parts.find(isToolUIPart);
    assert.ok(call?.state === "approval-requested", call?.state);
    assert.equal(account.paid, 0);
    const decided = {
      ...call,
      state: "approval-responded",
      approval: { id: call.approval.id, approved },
    } as const;
    const parts = asked.parts.map((part) => (part === call ? decided : part));
    const answer = await ask([question, { ...asked, parts }]);
    assert.equal(answer.parts.find(isToolUIPart)?.state, approved ? "output-available" : "output-denied");
    assert.match(text(answer), approved ? /paid 90 euros/ : /denied/);
    assert.equal(account.paid, approved ? 1 : 0);
    assert.ok(account.requests > 3, `only ${account.requests} requests`);
  });
}
