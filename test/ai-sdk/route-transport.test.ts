/**
 * `useChat`'s transport for an application's own route, against the route itself: connections that break, stops that are meant and such that are not.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { UIMessageChunk } from "ai";
import { HoldfastRouteTransport } from "../../src/ai-sdk/route-transport.ts";
import { openChats } from "../../src/node/chats.ts";

process.env["HOLDFAST_HOME_KEY"] = Buffer.alloc(32, 7).toString("base64url");

const WORDS = Array.from({ length: 30 }, (_, at): UIMessageChunk => {
  return { type: "text-delta", id: "t", delta: `${at} ` };
});
const ALL: readonly UIMessageChunk[] = [
  { type: "start", messageId: "a" },
  { type: "start-step" },
  { type: "text-start", id: "t" },
  ...WORDS,
];

/** A route whose answers say everything but their end until they are let, over connections that break behind so many bytes. */
async function route(t: TestContext, breaksAfter: () => number) {
  const data = mkdtempSync(join(tmpdir(), "holdfast-route-"));
  const chats = await openChats({ data });
  t.after(async () => {
    await chats.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });
  const gate = Promise.withResolvers<void>();
  const account = { made: 0, requests: 0, stopped: 0, open: (): void => gate.resolve() };
  const answer = (signal: AbortSignal): ReadableStream<UIMessageChunk> => {
    account.made++;
    signal.addEventListener("abort", () => void account.stopped++);
    return new ReadableStream({
      start: async (controller) => {
        for (const chunk of ALL) controller.enqueue(chunk);
        await gate.promise;
        controller.enqueue({ type: "finish" });
        controller.close();
      },
    });
  };
  const reach = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    account.requests++;
    const request = new Request(
      new URL(input instanceof Request ? input.url : input, "http://localhost"),
      init,
    );
    const chat = { request, chatId: "trip" };
    if (request.method === "DELETE") return chats.stop(chat);
    const response = await (request.method === "GET"
      ? chats.resume(chat)
      : chats.toHoldfastResponse({ ...chat, answer }));
    return response.body === null ? response : new Response(response.body.pipeThrough(broken(breaksAfter())));
  };
  return { account, fetch: reach };
}

function broken(bytesMax: number): TransformStream<Uint8Array, Uint8Array> {
  let left = bytesMax;
  return new TransformStream({
    transform: (bytes, controller) => {
      controller.enqueue(bytes.subarray(0, left));
      left -= bytes.length;
      if (left < 0) controller.error(new TypeError("the network is gone"));
    },
  });
}

const SENT = {
  trigger: "submit-message",
  chatId: "trip",
  messageId: undefined,
  messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "count" }] }],
} satisfies Omit<Parameters<HoldfastRouteTransport["sendMessages"]>[0], "abortSignal">;

async function chunksOf(stream: ReadableStream<UIMessageChunk>, count = Infinity): Promise<UIMessageChunk[]> {
  const reader = stream.getReader();
  const chunks: UIMessageChunk[] = [];
  while (chunks.length < count) {
    const next = await reader.read();
    if (next.done) break;
    chunks.push(next.value);
  }
  reader.releaseLock();
  return chunks;
}

test("B4: over connections that break anywhere, each chunk comes once and in order, and the answer is made once", async (t) => {
  let seed = 0;
  const { account, fetch } = await route(t, () => 150 + ((seed++ * 97) % 400));
  const transport = new HoldfastRouteTransport({ fetch });
  account.open();
  const stream = await transport.sendMessages({ ...SENT, abortSignal: undefined });
  assert.deepEqual(await chunksOf(stream), [...ALL, { type: "finish" }]);
  assert.equal(account.made, 1);
  assert.ok(account.requests > 4, `only ${account.requests} requests`);
  assert.equal(await transport.reconnectToStream({ chatId: "trip" }), null);
});

test("F1: an answer that breaks at the same place for ever is an error, not a loop", async (t) => {
  const { account, fetch } = await route(t, () => 10);
  t.mock.method(Math, "random", () => 0);
  const stream = await new HoldfastRouteTransport({ fetch }).sendMessages({
    ...SENT,
    abortSignal: undefined,
  });
  await assert.rejects(chunksOf(stream), /the network is gone/);
  assert.equal(account.made, 1);
  account.open();
});

test("D3: what useChat lets go of is stopped, unless it asks for it again in the same moment or is told to leave it", async (t) => {
  const { account, fetch } = await route(t, () => Infinity);
  const leaving = new HoldfastRouteTransport({ fetch, onAbort: "leave" });
  const transport = new HoldfastRouteTransport({ fetch });
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  await chunksOf(await leaving.sendMessages({ ...SENT, abortSignal: first.signal }), 5);
  first.abort();

  const again = await transport.reconnectToStream({ chatId: "trip", abortSignal: second.signal });
  assert.ok(again !== null);
  await chunksOf(again, 5);
  // As React's strict mode has it: let go of, and asked for at once.
  second.abort();
  const resumed = await transport.reconnectToStream({ chatId: "trip", abortSignal: third.signal });
  assert.ok(resumed !== null);
  assert.deepEqual(await chunksOf(resumed, ALL.length), ALL);
  assert.equal(account.stopped, 0);

  const over = await transport.reconnectToStream({ chatId: "trip" });
  assert.ok(over !== null);
  third.abort();
  await transport.stop("trip");
  assert.equal(account.stopped, 1);
  assert.deepEqual(await chunksOf(over), [...ALL, { type: "abort" }]);
});
