/**
 * Frames and completions as clients read them; the AI SDK's own client is one of the readers.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as fc from "fast-check";
import {
  AnswerCollector,
  type AnswerDelta,
  ChatChunks,
  type ChunkOptions,
  completionId,
  type Frame,
  framePlaceId,
  GatewayError,
  parseFramePlace,
  projectRange,
  sseFrame,
} from "../../../src/gateway/openai/index.ts";
import { FailureKind, FinishReason, TurnEndReason } from "../../../src/protocol/messages.ts";
import {
  assistantSaid,
  called,
  completed,
  eventsOf,
  exec,
  live,
  restarted,
  started,
  text,
  thinking,
  turnEnded,
} from "../../turn/turn-script.ts";

const head = { id: completionId("stream 1"), createdS: 1_700_000_000, model: "m", fromEvent: 0 };
const { STOP, TOOL_CALLS } = FinishReason;

const spoken = live(eventsOf([started(0), thinking("hm"), text("Hello"), completed(0, STOP), turnEnded()]));
const calling = eventsOf([
  started(0),
  text("see"),
  called("p1", ["a"]),
  called("p2", ["b"]),
  completed(0, TOOL_CALLS),
  exec(1, "a", "p1", '{"x":1}'),
  exec(2, "b", "p2"),
]);

function framesOf(deltas: readonly AnswerDelta[], options: Partial<ChunkOptions> = {}): readonly Frame[] {
  const chunks = new ChatChunks({ ...head, includeUsage: true, ...options });
  const frames = [...chunks.begin(), ...deltas.flatMap((delta) => chunks.of(delta))];
  return chunks.isWhole ? [...frames, chunks.done()] : frames;
}

function choicesOf(frames: readonly Frame[]): unknown[] {
  const found: unknown[] = [];
  for (const { data } of frames) {
    const body: unknown = data === "[DONE]" ? undefined : JSON.parse(data);
    const choices: unknown = isRecord(body) ? body["choices"] : undefined;
    if (Array.isArray(choices)) for (const one of choices) found.push(one);
  }
  return found;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

const choice = (delta: object, finish_reason: string | null = null) => ({ index: 0, delta, finish_reason });

test("the role comes first, the finish reason always, the usage when it was asked for", () => {
  const frames = framesOf(spoken);
  assert.deepEqual(choicesOf(frames), [
    choice({ role: "assistant", content: "" }),
    choice({ reasoning_content: "hm" }),
    choice({ content: "Hello" }),
    choice({}, "stop"),
  ]);
  assert.equal(frames.at(-1)?.data, "[DONE]");
  assert.deepEqual(JSON.parse(frames.at(-2)?.data ?? ""), {
    id: head.id,
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "m",
    choices: [],
    usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
  });
  const without = framesOf(spoken, { includeUsage: false });
  assert.equal(without.length, frames.length - 1);
  assert.equal(
    without.some(({ data }) => data.includes("usage")),
    false,
  );
});

test("a tool call is whole in its first delta, with index, id, type and name", () => {
  assert.deepEqual(choicesOf(framesOf(live(calling))).slice(2), [
    choice({
      tool_calls: [{ index: 0, id: "p1", type: "function", function: { name: "f", arguments: '{"x":1}' } }],
    }),
    choice({
      tool_calls: [{ index: 1, id: "p2", type: "function", function: { name: "f", arguments: "{}" } }],
    }),
    choice({}, "tool_calls"),
  ]);
});

test("cached tokens are part of the prompt's", () => {
  const used = {
    inputTokens: 1,
    outputTokens: 2,
    cacheReadTokens: 4,
    cacheWriteTokens: 8,
    reasoningTokens: 1,
  };
  const collector = new AnswerCollector();
  for (const delta of live(eventsOf([text("x"), turnEnded(used)]))) collector.add(delta);
  assert.deepEqual(collector.completion(head).usage, {
    prompt_tokens: 13,
    completion_tokens: 2,
    total_tokens: 15,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 1 },
  });
});

test("usage that the provider did not tell is absent, not zero", () => {
  const untold = live(eventsOf([text("x"), turnEnded()]));
  const collector = new AnswerCollector();
  for (const delta of untold) collector.add(delta);
  assert.equal("usage" in collector.completion(head), false);
  const frames = framesOf(untold);
  assert.deepEqual(choicesOf(frames).at(-1), choice({}, "stop"));
  assert.equal(frames.at(-1)?.data, "[DONE]");
  assert.equal(
    frames.some(({ data }) => data.includes("_tokens")),
    false,
  );
});

test("an answer that is not streamed has the words of the one that is: thoughts that led to nothing as well", () => {
  const deltas = live(
    eventsOf([
      started(0),
      thinking("first"),
      restarted(0, 1),
      thinking("second"),
      text("Hello"),
      completed(0, STOP),
      turnEnded(),
    ]),
  );
  const collector = new AnswerCollector();
  for (const delta of deltas) collector.add(delta);
  const { message } = collector.completion(head).choices[0] ?? {};
  const streamed = deltas.flatMap((delta) => (delta.kind === "reasoning" ? [delta.text] : [])).join("");
  assert.equal(streamed, "first\n\nsecond");
  assert.equal(message?.reasoning_content, streamed);
});

const limited = {
  reason: TurnEndReason.FAILED,
  failure: { kind: FailureKind.RATE_LIMITED, message: "slow down" },
};

test("an answer that breaks off ends with an error, without finish reason and [DONE]", () => {
  const chunks = new ChatChunks({ ...head, includeUsage: true });
  const frames = live(eventsOf([text("Hel"), turnEnded(limited)])).flatMap((delta) => chunks.of(delta));
  assert.deepEqual(JSON.parse(frames.at(-1)?.data ?? ""), {
    error: { message: "slow down", type: "rate_limit_error", param: null, code: "rate_limit_exceeded" },
  });
  assert.equal(
    frames.some(({ data }) => data.includes('"finish_reason":"')),
    false,
  );
  assert.deepEqual([chunks.isOver, chunks.isWhole], [true, false]);
  assert.deepEqual(chunks.of({ kind: "text", text: "x", eventId: 9, endsEvent: true }), []);
});

test("a heartbeat is an empty delta, and no progress: it repeats the place of what came before it", () => {
  const chunks = new ChatChunks({ ...head, includeUsage: false, fromEvent: 7 });
  const [role] = chunks.begin();
  assert.equal(role?.id, "7:7");
  const frame = chunks.heartbeat();
  assert.equal(frame.id, "7:7");
  assert.deepEqual(choicesOf([frame]), [choice({})]);
  chunks.of({ kind: "text", text: "x", eventId: 9, endsEvent: true });
  assert.equal(chunks.heartbeat().id, "7:9");
  const after = parseFramePlace("7:9.2") ?? assert.fail();
  assert.equal(new ChatChunks({ ...head, includeUsage: false, fromEvent: 7, after }).heartbeat().id, "7:9.2");
});

test("frames have ids; whatever is in the text, a frame is one line of data", () => {
  assert.equal(sseFrame({ id: "0:7", data: "{}" }), "id: 0:7\ndata: {}\n\n");
  fc.assert(
    fc.property(fc.string({ unit: "binary", minLength: 1 }), (words) => {
      for (const frame of framesOf(live(eventsOf([text(words), turnEnded()])))) {
        assert.match(sseFrame(frame), /^id: 0:[\d.]+\ndata: [^\n\r]+\n\n$/);
      }
    }),
  );
});

test("ids are read back, and nothing else is", () => {
  for (const id of ["0:0", "0:12", "8:11.2"])
    assert.equal(framePlaceId(parseFramePlace(id) ?? assert.fail()), id);
  const places = ["", "x", "-1", "01", "1.", "1.0", "1e3", "1.2.3", "9".repeat(20)].map(
    (place) => `0:${place}`,
  );
  for (const id of [...places, "12", "11.2", ":1", "1:", "x:1", "01:1", "1:2:3", "13:12"]) {
    assert.equal(parseFramePlace(id), undefined);
  }
});

test("a reader that comes back after any frame gets exactly the rest", () => {
  const unstreamed = eventsOf([
    started(0),
    called("p1", ["x"]),
    exec(1, "x", "p1"),
    completed(0, TOOL_CALLS, assistantSaid("See")),
  ]);
  const plain = eventsOf([started(0), text("Hel"), text("lo"), completed(0, STOP), turnEnded()]);
  for (const events of [calling, unstreamed, plain]) {
    const frames = framesOf(projectRange(events).deltas);
    for (const [at, { id }] of frames.entries()) {
      const after = parseFramePlace(id) ?? assert.fail();
      const { deltas } = projectRange(events, { seenThrough: after.eventId });
      const rest = framesOf(deltas, { after });
      assert.deepEqual(
        rest.map(({ data }) => data).filter((data) => data !== "[DONE]"),
        frames.slice(at + 1, -1).map(({ data }) => data),
        id,
      );
    }
  }
});

test("a completion in one piece", () => {
  const collect = (deltas: readonly AnswerDelta[]) => {
    const collector = new AnswerCollector();
    for (const delta of deltas) collector.add(delta);
    return collector.completion(head);
  };
  const { choices, ...rest } = collect(spoken);
  assert.deepEqual(
    { id: rest.id, object: rest.object, created: rest.created, model: rest.model },
    {
      id: head.id,
      object: "chat.completion",
      created: 1_700_000_000,
      model: "m",
    },
  );
  assert.deepEqual(choices, [
    {
      index: 0,
      message: { role: "assistant", content: "Hello", refusal: null, reasoning_content: "hm" },
      logprobs: null,
      finish_reason: "stop",
    },
  ]);
  const [asked] = collect(live(calling.filter(({ eventId }) => eventId !== 2))).choices;
  assert.equal(asked.finish_reason, "tool_calls");
  assert.equal(asked.message.content, null);
  assert.deepEqual(asked.message.tool_calls?.[0], {
    id: "p1",
    type: "function",
    function: { name: "f", arguments: '{"x":1}' },
  });
  assert.throws(() => collect(live(eventsOf([turnEnded(limited)]))), { status: 429 });
  assert.throws(() => collect(spoken.slice(0, 1)), GatewayError);
  assert.match(head.id, /^chatcmpl-[0-9a-f]{32}$/);
  assert.equal(completionId("stream 1"), head.id);
});

/** The real client, given our frames instead of a server. */
async function readByAiSdk(frames: readonly Frame[]): Promise<readonly { type: string }[]> {
  const body = frames.map(sseFrame).join("");
  const fetch = () =>
    Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
  const model = createOpenAICompatible({
    name: "gw",
    baseURL: "http://gateway.test/v1",
    fetch,
    includeUsage: true,
  })("m");
  const { stream } = await model.doStream({
    prompt: [{ role: "user", content: [{ type: "text", text: "hi" }] }],
  });
  const parts: { type: string }[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

test("the AI SDK's client reads text, reasoning, parallel tool calls, usage and errors", async () => {
  const chunks = new ChatChunks({ ...head, includeUsage: true });
  const parts = await readByAiSdk([
    ...framesOf(spoken).slice(0, 1),
    chunks.heartbeat(),
    ...framesOf(spoken).slice(1),
  ]);
  const kinds = new Set(parts.map(({ type }) => type));
  assert.ok(kinds.has("reasoning-delta") && kinds.has("text-delta"));
  assert.equal(kinds.has("error"), false);
  const finish = JSON.stringify(parts.at(-1));
  assert.match(finish, /"unified":"stop"/);
  assert.match(finish, /"total":10/);

  const calls = (await readByAiSdk(framesOf(live(calling)))).filter(({ type }) => type === "tool-call");
  assert.deepEqual(
    calls.map((part) => ("toolCallId" in part ? part.toolCallId : undefined)),
    ["p1", "p2"],
  );

  const broken = await readByAiSdk(framesOf(live(eventsOf([text("Hel"), turnEnded(limited)]))));
  const error = broken.find(({ type }) => type === "error");
  assert.match(JSON.stringify(error), /slow down/);
});
