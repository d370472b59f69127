/**
 * The events of a message: whatever the model says, what Anthropic's own SDK adds up is what a client gets in one piece.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageStream } from "@anthropic-ai/sdk/lib/MessageStream";
import * as fc from "fast-check";
import { z } from "zod";
import { create } from "../../../src/protocol/message.ts";
import { FailureKind, FailureSchema } from "../../../src/protocol/messages.ts";
import { NO_USAGE } from "../../../src/turn/usage.ts";
import {
  type AnswerDelta,
  type AnswerHead,
  type Frame,
  type FramePlace,
  GatewayError,
  parseFramePlace,
} from "../../../src/gateway/openai/index.ts";
import { MESSAGE_FORM } from "../../../src/gateway/messages/index.ts";

const HEAD: AnswerHead = {
  id: `msg_${"a".repeat(32)}`,
  createdS: 1_700_000_000,
  model: "m",
  includeUsage: true,
  fromEvent: 7,
  door: "messages",
};

type Piece =
  | { readonly kind: "text" | "reasoning"; readonly text: string }
  | { readonly kind: "signature" | "redacted"; readonly text: string };
type End = "stop" | "length" | "content_filter" | readonly string[];

const USAGE = { ...NO_USAGE, inputTokens: 3, outputTokens: 2, cacheReadTokens: 5, cacheWriteTokens: 4 };

/** The deltas of an answer, with gaps between their events as a log has them. */
function deltasOf(pieces: readonly Piece[], end: End): readonly AnswerDelta[] {
  let eventId = HEAD.fromEvent;
  const place = () => ({ eventId: (eventId += 1 + (eventId % 3)), endsEvent: true });
  const said = {
    text: pieces.map(({ kind, text }) => (kind === "text" ? text : "")).join(""),
    reasoning: pieces.map(({ kind, text }) => (kind === "reasoning" ? text : "")).join(""),
  };
  const deltas = pieces.map((piece): AnswerDelta => {
    const { kind, text } = piece;
    if (kind === "text" || kind === "reasoning") return { ...place(), kind, text };
    const metadataJson = kind === "redacted" ? '{"anthropic":{"redactedData":"x"}}' : "{}";
    const thought = { text: "", metadataJson, step: 1, attempt: 1 };
    return { ...place(), kind: "thought", thought, token: text };
  });
  if (typeof end === "string") {
    const how = { reason: "completed", finish: end, failure: undefined, usage: USAGE, said } as const;
    return [...deltas, { ...place(), kind: "ended", ...how }];
  }
  const calls = end.map((args, at) => ({
    execId: `e${at}`,
    id: at,
    providerToolCallId: `p${at}`,
    tool: "note",
    args,
    callId: `call${at}`,
  }));
  return [...deltas, { ...place(), kind: "calls", calls, step: 1, usage: USAGE, said }];
}

function framesOf(deltas: readonly AnswerDelta[], after?: FramePlace): readonly Frame[] {
  const frames = MESSAGE_FORM.frames(HEAD, after);
  return [...frames.begin(), ...deltas.flatMap((delta) => frames.of(delta)), ...frames.last()];
}

function whole(deltas: readonly AnswerDelta[]): unknown {
  const collector = MESSAGE_FORM.collector(HEAD);
  for (const delta of deltas) collector.add(delta);
  return JSON.parse(JSON.stringify(collector.completion()));
}

/** As the SDK reads a stream that it was handed: one event in each line. */
async function accumulated(frames: readonly Frame[]): Promise<unknown> {
  const lines = frames.map(({ data }) => `${data}\n`);
  const stream = MessageStream.fromReadableStream(new Blob(lines).stream());
  return JSON.parse(JSON.stringify(await stream.finalMessage(), withoutParsed));
}

/** What the SDK adds. */
const withoutParsed = (name: string, value: unknown): unknown =>
  name === "parsed_output" ? undefined : value;

const pieces = fc.array(
  fc.record({
    kind: fc.constantFrom("text", "reasoning", "reasoning", "signature", "redacted"),
    text: fc.string({ minLength: 1, unit: "binary" }),
  }),
  { maxLength: 12 },
);
/** Arguments are an object for every provider. */
const args = fc
  .dictionary(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 4 })
  .map((input) => JSON.stringify(input));
const end = fc.oneof(
  fc.constantFrom("stop", "length", "content_filter"),
  fc.array(args, { minLength: 1, maxLength: 4 }),
);

test("whatever the model says, the SDK's own accumulator has the message that comes in one piece", async () => {
  await fc.assert(
    fc.asyncProperty(pieces, end, async (said, how) => {
      const deltas = deltasOf(said, how);
      assert.deepEqual(await accumulated(framesOf(deltas)), whole(deltas));
    }),
    { numRuns: 150 },
  );
});

const EVENT = z.looseObject({ type: z.string(), index: z.number().default(-1) });

test("events come in Anthropic's order: each block is started, filled and stopped before the next", () => {
  fc.assert(
    fc.property(pieces, end, (said, how) => {
      const frames = framesOf(deltasOf(said, how));
      const events = frames.map(({ data }) => EVENT.parse(JSON.parse(data)));
      assert.deepEqual(
        frames.map(({ event }) => event),
        events.map(({ type }) => type),
      );
      let [open, count] = [-1, 0];
      for (const [at, { type, index }] of events.entries()) {
        assert.equal(type === "message_start", at === 0);
        if (type === "content_block_start") {
          assert.deepEqual([open, index], [-1, count]);
          [open, count] = [index, count + 1];
        }
        if (type === "content_block_delta") assert.equal(index, open);
        if (type === "content_block_stop") {
          assert.equal(index, open);
          open = -1;
        }
      }
      assert.deepEqual(
        events.slice(-2).map(({ type }) => type),
        ["message_delta", "message_stop"],
      );
      assert.equal(events.filter(({ type }) => type === "ping").length, count === 0 ? 0 : 1);
    }),
    { numRuns: 100 },
  );
});

test("a reader that returns at any frame is given exactly what follows, and message_start once", () => {
  fc.assert(
    fc.property(pieces, end, (said, how) => {
      const deltas = deltasOf(said, how);
      const all = framesOf(deltas);
      for (const [at, { id }] of all.entries()) {
        const after = parseFramePlace(id);
        assert.ok(after?.door === "messages", id);
        assert.deepEqual(framesOf(deltas, after), all.slice(at + 1), `behind ${id}`);
      }
    }),
    { numRuns: 60 },
  );
});

test("a place inside joined text means the same where the text is read piece by piece", () => {
  const apart = deltasOf(
    ["one ", "two ", "three"].map((text) => ({ kind: "text", text })),
    "stop",
  );
  const [, , third, last] = apart;
  assert.ok(third?.kind === "text" && last !== undefined);
  const [start, begun, , text] = framesOf([{ ...third, text: "one two three" }, last]);
  assert.deepEqual(
    [start?.event, begun?.event, text?.event],
    ["message_start", "content_block_start", "content_block_delta"],
  );
  const rest = framesOf(apart, parseFramePlace(begun?.id ?? ""));
  assert.deepEqual(
    rest.map(({ event }) => event),
    [
      "ping",
      ...Array<string>(3).fill("content_block_delta"),
      "content_block_stop",
      "message_delta",
      "message_stop",
    ],
  );
  assert.deepEqual(framesOf(apart, parseFramePlace(text?.id ?? "")), framesOf(apart).slice(-3));
});

test("a place whose rest is of another kind, or was never sent, ends with an error and no doubled block", () => {
  const thought = deltasOf([{ kind: "reasoning", text: "Hm." }], "stop");
  const text = deltasOf([{ kind: "text", text: "Hm." }], "stop");
  const inside = parseFramePlace(framesOf(thought)[1]?.id ?? "");
  const [error, ...more] = framesOf(text, inside);
  assert.deepEqual([error?.event, more], ["error", []]);
  assert.match(error?.data ?? "", /"type":"api_error".*"code":"answer_diverged"/);
  const ahead = framesOf(text, { door: "messages", answer: 7, eventId: 99, frames: 0 });
  assert.deepEqual(
    ahead.map(({ event }) => event),
    ["error"],
  );
  assert.match(ahead[0]?.data ?? "", /"code":"event_ahead"/);
});

test("an answer that parts from what was shown ends with an error; one that was not streamed has the last words", () => {
  const [shown, ended] = deltasOf([{ kind: "text", text: "It was " }], "stop");
  assert.ok(shown !== undefined && ended?.kind === "ended");
  const diverged: AnswerDelta = { kind: "diverged", eventId: 20, endsEvent: true };
  const last: AnswerDelta = { ...ended, eventId: 21, said: { text: "It is", reasoning: "Hm." } };
  const [error] = framesOf([shown, diverged, last]).slice(-1);
  assert.equal(error?.event, "error");
  const { content } = z.looseObject({ content: z.array(z.unknown()) }).parse(whole([shown, diverged, last]));
  assert.deepEqual(content, [
    { type: "thinking", thinking: "Hm.", signature: "" },
    { type: "text", text: "It is" },
  ]);
});

test("each end has its stop reason; a model that refuses to say anything has refused, and nothing failed", async () => {
  const reasons: unknown[] = [];
  for (const how of ["stop", "length", "content_filter", ["{}"]] satisfies End[]) {
    const message = z.looseObject({ stop_reason: z.string() }).parse(whole(deltasOf([], how)));
    reasons.push(message.stop_reason);
  }
  assert.deepEqual(reasons, ["end_turn", "max_tokens", "refusal", "tool_use"]);
  const [stopped] = deltasOf([], "stop");
  assert.ok(stopped?.kind === "ended");
  const byText = [{ ...stopped, stopSequence: "END" }];
  const { stop_reason, stop_sequence } = z
    .looseObject({ stop_reason: z.string(), stop_sequence: z.string() })
    .parse(whole(byText));
  assert.deepEqual([stop_reason, stop_sequence], ["stop_sequence", "END"]);
  assert.deepEqual(await accumulated(framesOf(byText)), whole(byText));
  const failed = (kind: FailureKind): AnswerDelta => ({
    kind: "ended",
    reason: "failed",
    finish: undefined,
    failure: create(FailureSchema, { kind, message: "no" }),
    usage: USAGE,
    said: { text: "", reasoning: "" },
    eventId: 9,
    endsEvent: true,
  });
  const refused = [failed(FailureKind.CONTENT_FILTERED)];
  assert.deepEqual(await accumulated(framesOf(refused)), whole(refused));
  const [, error] = framesOf([failed(FailureKind.MODEL_UNAVAILABLE)]);
  assert.match(error?.data ?? "", /^\{"type":"error","error":\{"type":"overloaded_error"/);
  assert.throws(() => whole([failed(FailureKind.MODEL_UNAVAILABLE)]), GatewayError);
});
