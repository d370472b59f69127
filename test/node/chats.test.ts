/**
 * Answers of an application's own route: made once, kept, read from any event, stopped for real, and never made twice when a tool was called.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { UIMessageChunk } from "ai";
import { type Chats, openChats } from "../../src/node/chats.ts";

process.env["HOLDFAST_HOME_KEY"] = Buffer.alloc(32, 7).toString("base64url");

function directory(t: TestContext): string {
  const data = mkdtempSync(join(tmpdir(), "holdfast-chats-"));
  t.after(() => rmSync(data, { recursive: true, force: true, maxRetries: 5 }));
  return data;
}

/** An answer that says its words when it is let, and counts how often it was made. */
function scripted(words: readonly UIMessageChunk[]) {
  const gate = Promise.withResolvers<void>();
  const account = { made: 0, stopped: 0, open: (): void => gate.resolve() };
  const answer = (signal: AbortSignal): ReadableStream<UIMessageChunk> => {
    account.made++;
    signal.addEventListener("abort", () => void account.stopped++);
    return new ReadableStream({
      start: async (controller) => {
        for (const word of words.slice(0, -1)) controller.enqueue(word);
        await gate.promise;
        for (const word of words.slice(-1)) controller.enqueue(word);
        controller.close();
      },
    });
  };
  return { account, answer };
}

const TEXT: readonly UIMessageChunk[] = [
  { type: "start", messageId: "a" },
  { type: "start-step" },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "one" },
  { type: "text-delta", id: "t", delta: "x".repeat(600_000) },
  { type: "finish" },
];

function asking(key: string | undefined, cursor = 0): Request {
  const headers = new Headers(key === undefined ? {} : { "idempotency-key": key });
  if (cursor > 0) headers.set("last-event-id", String(cursor));
  return new Request("http://localhost/api/chat", { headers });
}

interface Frame {
  readonly id: number;
  readonly data: string;
}

async function framesOf(
  response: Response,
  isEnough: (frame: Frame) => boolean = () => false,
): Promise<Frame[]> {
  const frames: Frame[] = [];
  let text = "";
  const decoder = new TextDecoder();
  assert.ok(response.body !== null);
  const body: ReadableStream<Uint8Array> = response.body;
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const one of whole) {
      const [, id = "0", data = ""] = /^(?:id: (\d+)\n)?data: (.*)$/s.exec(one) ?? [];
      frames.push({ id: Number(id), data });
    }
    if (frames.some(isEnough)) {
      await reader.cancel();
      break;
    }
  }
  return frames;
}

const typeOf = ({ data }: Frame): string => /^\{"type":"([^"]+)"/.exec(data)?.[1] ?? data;
const isText = (frame: Frame): boolean => typeOf(frame) === "text-delta";

async function opened(t: TestContext, data: string): Promise<Chats> {
  const chats = await openChats({ data });
  t.after(() => chats.close());
  return chats;
}

test("A2: a request that comes twice is answered once, whole or from any event", async (t) => {
  const chats = await opened(t, directory(t));
  const { account, answer } = scripted(TEXT);
  const first = await chats.toHoldfastResponse({ request: asking("q"), chatId: "trip", answer });
  // The reader goes away, and the answer does not.
  await framesOf(first, isText);
  account.open();
  const whole = await framesOf(
    await chats.toHoldfastResponse({ request: asking("q"), chatId: "trip", answer }),
  );
  // Some are too long to be printed.
  assert.ok(
    isDeepStrictEqual(
      whole.slice(0, -1).map(({ data }): unknown => JSON.parse(data)),
      TEXT,
    ),
  );
  assert.equal(whole.at(-1)?.data, "[DONE]");
  for (const { id } of whole.slice(0, -1)) {
    const rest = await framesOf(
      await chats.toHoldfastResponse({ request: asking("q", id), chatId: "trip", answer }),
    );
    assert.ok(
      isDeepStrictEqual(
        rest,
        whole.filter((frame) => frame.id > id || frame.data === "[DONE]"),
      ),
    );
  }
  assert.equal(account.made, 1);
  assert.equal((await chats.resume({ request: asking(undefined), chatId: "trip" })).status, 204);
});

test("E2: another user's chat of the same id is another one", async (t) => {
  const chats = await opened(t, directory(t));
  const { account, answer } = scripted(TEXT);
  const first = await chats.toHoldfastResponse({
    request: asking("q"),
    chatId: "trip",
    user: "alice",
    answer,
  });
  assert.equal((await chats.resume({ request: asking(undefined), chatId: "trip", user: "bob" })).status, 204);
  assert.equal(
    (await chats.resume({ request: asking(undefined), chatId: "trip", user: "alice" })).status,
    200,
  );
  account.open();
  await framesOf(first);
});

test("D3: a stop reaches who makes the answer; a reader that goes away does not", async (t) => {
  const chats = await opened(t, directory(t));
  const { account, answer } = scripted(TEXT);
  const chat = { request: asking("q"), chatId: "trip" };
  await framesOf(await chats.toHoldfastResponse({ ...chat, answer }), isText);
  assert.equal(account.stopped, 0);
  const reading = framesOf(await chats.resume(chat));
  await chats.stop(chat);
  assert.equal(account.stopped, 1);
  assert.deepEqual((await reading).slice(-2).map(typeOf), ["abort", "[DONE]"]);
});

test("an answer that cannot be made says so", async (t) => {
  const chats = await opened(t, directory(t));
  const answer = (): never => {
    throw new Error("no model today");
  };
  const frames = await framesOf(
    await chats.toHoldfastResponse({ request: asking("q"), chatId: "trip", answer }),
  );
  assert.deepEqual(JSON.parse(frames[0]?.data ?? ""), { type: "error", errorText: "no model today" });
  assert.equal(frames.at(-1)?.data, "[DONE]");
});

/** An answer is cut off in the middle, as by a kill; what the same request gets of the next process. */
async function cutOff(t: TestContext, words: readonly UIMessageChunk[]) {
  const data = directory(t);
  const { answer } = scripted([...words, { type: "finish" }]);
  const chats = await openChats({ data });
  const first = await chats.toHoldfastResponse({ request: asking("q"), chatId: "trip", answer });
  const last = words.at(-1)?.type;
  await framesOf(first, (frame) => typeOf(frame) === last);
  await chats.close();
  const later = await opened(t, data);
  const seen = await framesOf(await later.resume({ request: asking(undefined), chatId: "trip" }));
  const second = scripted(TEXT);
  second.account.open();
  const again = await framesOf(
    await later.toHoldfastResponse({ request: asking("q"), chatId: "trip", answer: second.answer }),
  );
  return { seen: seen.map(typeOf), again: again.map(typeOf), made: second.account.made };
}

test("G1: text that was cut off is taken back and said anew, when its request comes again", async (t) => {
  const { seen, again, made } = await cutOff(t, TEXT.slice(0, 4));
  const said = ["start", "start-step", "text-start", "text-delta"];
  assert.deepEqual(seen, [...said, "error", "[DONE]"]);
  assert.deepEqual(again, [...said, "reset-step", ...TEXT.slice(2).map(({ type }) => type), "[DONE]"]);
  assert.equal(made, 1);
});

test("C1: an answer in which a tool was called is not made a second time", async (t) => {
  const call = { toolCallId: "c", toolName: "pay", input: { euros: 90 } } as const;
  const words = [...TEXT.slice(0, 2), { type: "tool-input-available", ...call } as const];
  const { again, made } = await cutOff(t, words);
  assert.deepEqual(again, ["start", "start-step", "tool-input-available", "error", "[DONE]"]);
  assert.equal(made, 0);
});
