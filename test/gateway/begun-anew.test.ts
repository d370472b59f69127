/**
 * A step that its provider broke off in its thoughts, or in a call behind them, and that began anew: at every door each reader has the same items, blocks and chunks,
 * whenever it comes.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  type AnswerDelta,
  type AnswerEvent,
  type AnswerForm,
  type AnswerFrames,
  CHAT_FORM,
  type Frame,
  parseFramePlace,
  projectRange,
} from "../../src/gateway/openai/index.ts";
import { MESSAGE_FORM } from "../../src/gateway/messages/index.ts";
import { eventOf, responseForm } from "../../src/gateway/responses/index.ts";
import { type AgentServerMessage, FinishReason } from "../../src/protocol/messages.ts";
import {
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
  update,
} from "../turn/turn-script.ts";

const HEAD = { id: "x", createdS: 1_700_000_000, model: "m", includeUsage: true, fromEvent: 0 };

const signed = (signature: string): AgentServerMessage =>
  update({
    case: "thinkingCompleted",
    value: { providerMetadataJson: new TextEncoder().encode(JSON.stringify({ work: { signature } })) },
  });
const writing = (argsJsonDelta: string): AgentServerMessage =>
  update({ case: "partialToolCall", value: { toolCallId: "p", tool: "f", argsJsonDelta } });

interface Thought {
  readonly words: readonly string[];
  readonly isSigned: boolean;
}

const words = fc.string({ minLength: 1, maxLength: 4 });
const thoughts = fc.array(
  fc.record({ words: fc.array(words, { minLength: 1, maxLength: 3 }), isSigned: fc.boolean() }),
  { maxLength: 3 },
);
const attempts = fc.array(thoughts, { minLength: 1, maxLength: 4 });

function said(thought: readonly Thought[]): readonly AgentServerMessage[] {
  return thought.flatMap((one) => [...one.words.map(thinking), ...(one.isSigned ? [signed("s")] : [])]);
}

/** All attempts but the last are given up in their call. */
function answerOf(tried: readonly (readonly Thought[])[], isCall: boolean): readonly AnswerEvent[] {
  const messages = [started(0)];
  let since = 1;
  for (const [at, thought] of tried.entries()) {
    if (at > 0) {
      messages.push(restarted(0, since));
      since = messages.length;
    }
    messages.push(...said(thought), writing('{"half'));
  }
  const call = [called("p", ["e"]), completed(0, FinishReason.TOOL_CALLS), exec(1, "e", "p")];
  const words = [text("Calm"), text(", and warm."), completed(0, FinishReason.STOP), turnEnded()];
  return eventsOf([...messages, ...(isCall ? call : words)]);
}

const sealed = (delta: AnswerDelta): AnswerDelta =>
  delta.kind === "thought" ? { ...delta, token: `token of ${delta.eventId}` } : delta;

function framesOf(frames: AnswerFrames, deltas: readonly AnswerDelta[]): readonly Frame[] {
  return [...frames.begin(), ...deltas.map(sealed).flatMap((delta) => frames.of(delta)), ...frames.last()];
}

/** What a reader that returns with this id is given. */
type Rest = (events: readonly AnswerEvent[], id: string) => readonly Frame[];

const responses = (startingAfter: number): AnswerForm =>
  responseForm({ tools: [] }, { startingAfter, isSealedShown: true });

const placed =
  (form: AnswerForm, isAgain: boolean): Rest =>
  (events, id) => {
    const after = parseFramePlace(id);
    const seenThrough = after?.eventId ?? 0;
    const range = projectRange(events, { seenThrough, ...(isAgain ? { givenAfter: 0 } : {}) });
    return framesOf(form.frames(HEAD, after), range.deltas);
  };

const DOORS: readonly (readonly [name: string, form: AnswerForm, rest: Rest])[] = [
  ["chat", CHAT_FORM, placed(CHAT_FORM, false)],
  [
    "Responses",
    responses(-1),
    (events, id) => {
      const range = projectRange(events, { seenThrough: eventOf(Number(id), 0), givenAfter: 0 });
      return framesOf(responses(Number(id)).frames(HEAD, undefined), range.deltas);
    },
  ],
  ["Messages", MESSAGE_FORM, placed(MESSAGE_FORM, true)],
];

for (const [name, form, rest] of DOORS)
  test(`G1: ${name}: however often a step began anew in its thoughts, a reader that returns at any frame is given exactly what follows`, () => {
    fc.assert(
      fc.property(attempts, fc.boolean(), (tried, isCall) => {
        const events = answerOf(tried, isCall);
        const all = framesOf(form.frames(HEAD, undefined), live(events));
        const data = all.map((frame) => frame.data);
        assert.deepEqual(
          framesOf(form.frames(HEAD, undefined), projectRange(events).deltas).map((frame) => frame.data),
          data,
          "one that comes later",
        );
        for (const [at, { id }] of all.entries())
          // The mark behind the end is no progress.
          if (id !== all[at - 1]?.id)
            assert.deepEqual(
              rest(events, id).map((frame) => frame.data),
              data.slice(at + 1),
              `behind ${id}`,
            );
      }),
      { numRuns: 100 },
    );
  });

test("a thought that was given up is an item and a block of its own, and has no signature", () => {
  const tried = [
    [{ words: ["hm"], isSigned: false }],
    [{ words: ["well"], isSigned: true }],
    [{ words: ["so"], isSigned: true }],
  ];
  const deltas = live(answerOf(tried, true)).map(sealed);
  const collected = (form: AnswerForm): unknown => {
    const collector = form.collector(HEAD);
    for (const delta of deltas) collector.add(delta);
    return JSON.parse(JSON.stringify(collector.completion()));
  };
  const items = JSON.stringify(collected(responses(-1)));
  assert.deepEqual(
    [...items.matchAll(/"summary_text","text":"(?<said>[^"]*)"/g)].map(({ groups }) => groups?.["said"]),
    ["hm", "\n\nwell", "\n\nso"].map((one) => JSON.stringify(one).slice(1, -1)),
  );
  assert.equal([...items.matchAll(/"encrypted_content"/g)].length, 2);
  const blocks = JSON.stringify(collected(MESSAGE_FORM));
  assert.match(blocks, /"thinking":"hm","signature":""/);
  assert.equal([...blocks.matchAll(/"signature":"token of/g)].length, 2);
});
