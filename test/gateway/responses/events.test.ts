/**
 * The events of a response: whatever the model says, what a client adds up is what the last event says, and so is the object in one piece.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { ResponseStream } from "openai/lib/responses/ResponseStream";
import { z } from "zod";
import { NO_USAGE } from "../../../src/turn/usage.ts";
import type { AnswerDelta, AnswerHead } from "../../../src/gateway/openai/index.ts";
import { eventOf, responseForm } from "../../../src/gateway/responses/index.ts";

const HEAD: AnswerHead = {
  id: `resp_${"a".repeat(32)}`,
  createdS: 1_700_000_000,
  model: "m",
  includeUsage: true,
  fromEvent: 7,
};
const ASKED = { tools: [], tool_choice: "auto", parallel_tool_calls: true, metadata: {} };

type Piece = { readonly kind: "text" | "reasoning" | "thought"; readonly text: string };
type End = "stop" | "length" | "content_filter" | readonly string[];

/** The deltas of an answer, with gaps between their events as a log has them. */
function deltasOf(pieces: readonly Piece[], end: End): readonly AnswerDelta[] {
  let eventId = HEAD.fromEvent;
  const place = () => ({ eventId: (eventId += 1 + (eventId % 3)), endsEvent: true });
  const said = {
    text: pieces.map(({ kind, text }) => (kind === "text" ? text : "")).join(""),
    reasoning: pieces.map(({ kind, text }) => (kind === "reasoning" ? text : "")).join(""),
  };
  const deltas: AnswerDelta[] = pieces.map(({ kind, text }) => {
    if (kind !== "thought") return { ...place(), kind, text };
    const thought = { text, metadataJson: "{}", step: 1, attempt: 1 };
    return { ...place(), kind, thought, token: `token of ${text}` };
  });
  const usage = { ...NO_USAGE, inputTokens: 3, outputTokens: 2 };
  if (typeof end === "string") {
    const ended = {
      kind: "ended",
      reason: "completed",
      finish: end,
      failure: undefined,
      usage,
      said,
    } as const;
    return [...deltas, { ...place(), ...ended }];
  }
  const calls = end.map((args, at) => ({
    execId: `e${at}`,
    id: at,
    providerToolCallId: `p${at}`,
    tool: "note",
    args,
    callId: `call${at}`,
  }));
  return [...deltas, { ...place(), kind: "calls", calls, step: 1, usage, said }];
}

interface Told {
  readonly number: number;
  readonly data: string;
}

function framesOf(deltas: readonly AnswerDelta[], startingAfter = -1, isSealedShown = true): readonly Told[] {
  const frames = responseForm(ASKED, { startingAfter, isSealedShown }).frames(HEAD, undefined);
  const all = [...frames.begin(), ...deltas.flatMap((delta) => frames.of(delta)), ...frames.last()];
  return all.map(({ id, data }) => ({ number: Number(id), data }));
}

const ITEM = z.looseObject({ type: z.string() });
const EVENT = z.looseObject({
  type: z.string(),
  sequence_number: z.number(),
  output_index: z.number().default(-1),
  item: ITEM.optional(),
  delta: z.string().default(""),
  response: z.looseObject({ output: z.array(ITEM), status: z.string() }).optional(),
});

/** Items as a client builds them that knows the events' meaning and nothing else. */
function addedUp(events: readonly z.infer<typeof EVENT>[]): readonly unknown[] {
  const items: Record<string, unknown>[] = [];
  const texts: string[] = [];
  for (const { type, output_index: at, item, delta } of events) {
    if (type === "response.output_item.added" && item !== undefined) {
      assert.equal(at, items.length, "items come one behind the other");
      items[at] = item;
      texts[at] = "";
    }
    if (type.endsWith(".delta")) texts[at] += delta;
    if (type === "response.output_item.done" && item !== undefined)
      items[at] = withText(item, texts[at] ?? "");
  }
  return items;
}

/** The item, with the text that its deltas had. */
function withText(item: z.infer<typeof ITEM>, text: string): Record<string, unknown> {
  switch (item.type) {
    case "message":
      return { ...item, content: [{ type: "output_text", text, annotations: [], logprobs: [] }] };
    case "reasoning":
      return { ...item, summary: text === "" ? [] : [{ type: "summary_text", text }] };
    default:
      return { ...item, arguments: text };
  }
}

const pieces = fc.array(
  fc.record({
    kind: fc.constantFrom("text", "reasoning", "thought"),
    text: fc.string({ minLength: 1, unit: "binary" }),
  }),
  { maxLength: 12 },
);
const end = fc.oneof(
  fc.constantFrom("stop", "length", "content_filter"),
  fc.array(fc.json({ maxDepth: 1 }), { minLength: 1, maxLength: 4 }),
);

test("whatever the model says, what a client adds up is the final response, streamed and in one piece", () => {
  fc.assert(
    fc.property(pieces, end, (said, how) => {
      const deltas = deltasOf(said, how);
      const events = framesOf(deltas).map(({ data }) => EVENT.parse(JSON.parse(data)));
      const final = events.at(-1)?.response;
      assert.deepEqual(addedUp(events), final?.output);
      const collector = responseForm(ASKED, { isSealedShown: true }).collector(HEAD);
      for (const delta of deltas) collector.add(delta);
      assert.deepEqual(JSON.parse(JSON.stringify(collector.completion())), final);
      assert.equal(final?.status, how === "length" || how === "content_filter" ? "incomplete" : "completed");
    }),
    { numRuns: 200 },
  );
});

test("the SDK's own accumulator agrees, event by event", async () => {
  await fc.assert(
    fc.asyncProperty(pieces, end, async (said, how) => {
      const lines = framesOf(deltasOf(said, how)).map(({ data }) => data);
      const stream = ResponseStream.fromReadableStream(new Blob([lines.join("\n")]).stream());
      const final = await stream.finalResponse();
      const last = EVENT.parse(JSON.parse(lines.at(-1) ?? "")).response;
      const output: unknown = JSON.parse(JSON.stringify(final.output, withoutParsed));
      assert.deepEqual(output, last?.output);
    }),
    { numRuns: 50 },
  );
});

/** What the SDK adds. */
const withoutParsed = (name: string, value: unknown): unknown =>
  name === "parsed" || name === "parsed_arguments" ? undefined : value;

test("numbers rise, and a reader that returns with any of them is given exactly what follows", () => {
  fc.assert(
    fc.property(pieces, end, (said, how) => {
      const deltas = deltasOf(said, how);
      const all = framesOf(deltas);
      for (const [at, { number }] of all.entries()) {
        assert.ok(number > (all[at - 1]?.number ?? -1));
        assert.deepEqual(framesOf(deltas, number), all.slice(at + 1));
      }
      const places = [HEAD.fromEvent, ...deltas.map(({ eventId }) => eventId)];
      const seen = all.map(({ number }) => eventOf(number, HEAD.fromEvent));
      const last = places.at(-1) ?? 0;
      assert.ok(seen.every((eventId) => places.includes(eventId) || eventId > last));
    }),
    { numRuns: 100 },
  );
});

test("silence is filled with events: response.in_progress again, at the place where the reader is", () => {
  const frames = responseForm(ASKED, { isSealedShown: false }).frames(HEAD, undefined);
  const [first] = deltasOf([{ kind: "text", text: "a" }], "stop");
  assert.ok(first !== undefined);
  const last = [...frames.begin(), ...frames.of(first)].at(-1);
  const beat = frames.heartbeat();
  assert.deepEqual([beat.event, beat.id], ["response.in_progress", last?.id]);
  assert.equal(EVENT.parse(JSON.parse(beat.data)).response?.status, "in_progress");
});

test("text that was joined on its way is numbered as its last piece", () => {
  const apart = deltasOf(
    ["one ", "two ", "three"].map((text) => ({ kind: "text", text })),
    "stop",
  );
  const [, , third, last] = apart;
  assert.ok(third?.kind === "text" && last !== undefined);
  const [after] = framesOf(apart).slice(-1);
  const joined = framesOf([{ ...third, text: "one two three" }, last]);
  assert.deepEqual(joined.at(-1), after);
});

test("thoughts have their tokens for a client that asks for them; without, the items are the same", () => {
  fc.assert(
    fc.property(pieces, end, (said, how) => {
      const deltas = deltasOf(said, how);
      const tokens = said.flatMap(({ kind, text }) => (kind === "thought" ? [`token of ${text}`] : []));
      const [shown, plain] = [true, false].map(
        (isSealedShown) => framesOf(deltas, -1, isSealedShown).at(-1)?.data,
      );
      const output = EVENT.parse(JSON.parse(shown ?? "")).response?.output ?? [];
      assert.deepEqual(
        output.flatMap((item) => ("encrypted_content" in item ? [item["encrypted_content"]] : [])),
        tokens,
      );
      const without = output.map((item) => {
        const { encrypted_content: _, ...rest } = item;
        return rest;
      });
      assert.deepEqual(EVENT.parse(JSON.parse(plain ?? "")).response?.output, without);
    }),
    { numRuns: 100 },
  );
});

test("an answer that parts from what was shown ends with an error; one that was not streamed has the last words", () => {
  const [shown, ended] = deltasOf([{ kind: "text", text: "It was " }], "stop");
  assert.ok(shown !== undefined && ended?.kind === "ended");
  const diverged: AnswerDelta = { kind: "diverged", eventId: 20, endsEvent: true };
  const last: AnswerDelta = { ...ended, eventId: 21, said: { text: "It is", reasoning: "Hm." } };
  const [error] = framesOf([shown, diverged, last]).slice(-1);
  assert.match(error?.data ?? "", /"type":"error".*"code":"answer_diverged"/);
  const collector = responseForm(ASKED, { isSealedShown: true }).collector(HEAD);
  for (const delta of [shown, diverged, last]) collector.add(delta);
  const { output } = z.object({ output: z.array(ITEM) }).parse(collector.completion());
  assert.deepEqual(
    output.map(({ type }) => type),
    ["reasoning", "message"],
  );
});
