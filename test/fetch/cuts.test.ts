/**
 * Stock SDKs with `holdfast/fetch` over a network that is cut, at every kind of place, by FIN and by reset: their users see nothing, and the model is called once
 * for each step.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { holdfast } from "../../src/fetch/index.ts";
import { behind, type Place } from "../gateway/cable.ts";
import { lastTold, PacedModel } from "../gateway/paced-model.ts";
import { World } from "../gateway/world.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { MESSAGES_USERS, recorded, RESPONSES_USERS, type User, USERS } from "./users.ts";

const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
const SEEN = "Es ist größer – 大きい家. Mehr ist es nicht.";

/** The first answer looks, the second says what is there. */
function looking(): PacedModel {
  return new PacedModel((call) =>
    lastTold(call).startsWith("Look")
      ? ["Ich sehe ", aMoment, "größere ", aMoment, { tool: "look", args: { at: "ä" } }]
      : ["Es ist ", aMoment, "größer ", aMoment, "– 大きい家. ", aMoment, "Mehr ist es nicht."],
  );
}

interface Where {
  readonly name: string;
  /** Of which answer of the conversation. */
  readonly answer: 1 | 2;
  readonly place: Place;
}

const latin = (text: string): string => Buffer.from(text).toString("latin1");
const HALF_LETTER = behind(latin("gr") + latin("ö").slice(0, 1));
const BEFORE_DONE = behind("data: [DONE]", -"data: [DONE]".length);

const IN_CALL: Where = { name: "in a tool call", answer: 1, place: behind('"arguments":"{') };

const STREAMED: readonly Where[] = [
  IN_CALL,
  ...([1, 2] as const).flatMap((answer) => [
    { name: "before the head", answer, place: () => 0 },
    { name: "in the head", answer, place: () => 30 },
    { name: "in the first frame", answer, place: behind('"role":"assis') },
    {
      name: "behind the first frame",
      answer,
      place: behind('"content":""},"finish_reason":null}],"usage":null}\n\n'),
    },
    { name: "in the text", answer, place: behind(answer === 1 ? '"Ich ' : '"Mehr ') },
    { name: "in a letter", answer, place: HALF_LETTER },
    {
      name: "behind the finish",
      answer,
      place: behind(answer === 1 ? '"finish_reason":"tool_calls"' : '"finish_reason":"stop"'),
    },
    { name: "behind the usage", answer, place: behind('"usage":{') },
    { name: "before [DONE]", answer, place: BEFORE_DONE },
    { name: "in [DONE]", answer, place: behind("data: [DO") },
  ]),
];

const WHOLE: readonly Where[] = ([1, 2] as const).flatMap((answer) => [
  { name: "before the head", answer, place: () => 0 },
  { name: "in the head", answer, place: () => 30 },
  { name: "in the body", answer, place: behind('"choices":[') },
]);

const count = (body: string, part: string): number => body.split(part).length - 1;

const IN_COMPLETED = behind('"type":"response.completed"');

/** The same kinds of places, in the events of Responses. */
const EVENTS: readonly Where[] = ([1, 2] as const).flatMap((answer) => [
  { name: "before the head", answer, place: () => 0 },
  { name: "in the first event", answer, place: behind('"type":"response.crea') },
  { name: "behind the first event", answer, place: behind('"type":"response.in_progress"') },
  { name: "in the text", answer, place: behind(answer === 1 ? '"delta":"Ich ' : '"delta":"Mehr ') },
  { name: "in a letter", answer, place: HALF_LETTER },
  answer === 1
    ? { name: "in a tool call", answer, place: behind('"arguments":"{') }
    : { name: "behind the text", answer, place: behind('"type":"response.output_text.done"') },
  { name: "in the last event", answer, place: IN_COMPLETED },
]);

const IN_ONE: readonly Where[] = ([1, 2] as const).map((answer) => {
  return { name: "in the body", answer, place: behind('"object":"response"') };
});

/** And in those of Messages. */
const MESSAGE_EVENTS: readonly Where[] = ([1, 2] as const).flatMap((answer) => [
  { name: "before the head", answer, place: () => 0 },
  { name: "in the first event", answer, place: behind('"type":"message_st') },
  { name: "behind the first event", answer, place: behind('"output_tokens":0}}}\n\n') },
  {
    name: "behind the start of a block",
    answer,
    place: behind('"content_block":{"type":"text","text":""}}\n\n'),
  },
  { name: "in the text", answer, place: behind(answer === 1 ? '"text":"Ich ' : '"text":"Mehr ') },
  { name: "in a letter", answer, place: HALF_LETTER },
  answer === 1
    ? { name: "in a tool call", answer, place: behind('"partial_json":"{') }
    : { name: "behind the text", answer, place: behind('"type":"content_block_stop"') },
  { name: "behind the stop reason", answer, place: behind('"stop_reason":"') },
  { name: "in the last event", answer, place: behind('"type":"message_stop"') },
]);

const MESSAGES_IN_ONE: readonly Where[] = ([1, 2] as const).map((answer) => {
  return { name: "in the body", answer, place: behind('"type":"message"') };
});

interface Door {
  readonly name: string;
  readonly users: Readonly<Record<string, User>>;
  readonly streamed: readonly Where[];
  readonly whole: readonly Where[];
  /** What a streamed answer has once. */
  readonly once: readonly string[];
}

const DOORS: readonly Door[] = [
  {
    name: "chat",
    users: USERS,
    streamed: STREAMED,
    whole: WHOLE,
    once: ['"role":"assistant"', '"usage":{', "data: [DONE]"],
  },
  {
    name: "Responses",
    users: RESPONSES_USERS,
    streamed: EVENTS,
    whole: IN_ONE,
    once: ["event: response.created", "event: response.completed"],
  },
  {
    name: "Messages",
    users: MESSAGES_USERS,
    streamed: MESSAGE_EVENTS,
    whole: MESSAGES_IN_ONE,
    once: ["event: message_start", "event: message_delta", "event: message_stop"],
  },
];

for (const { name: door, users, streamed, whole, once } of DOORS) {
  for (const [sdk, user] of Object.entries(users)) {
    for (const [isStreamed, places] of [
      [true, streamed],
      [false, whole],
    ] as const) {
      test(`${sdk} by ${door}, ${isStreamed ? "streamed" : "in one piece"}: cut anywhere, its user sees nothing and no model call is made twice`, async (t) => {
        const world = await World.begin(t, looking());
        const baseURL = `${world.url}/v1`;
        for (const [at, { name, answer, place }] of places.entries()) {
          const how = at % 2 === 0 ? "reset" : "end";
          const where = `${name} of answer ${answer}, by ${how}`;
          const calls = world.model.calls.length;
          const { fetch, bodies } = recorded(holdfast({ baseURL }));
          let [looks, cuts] = [0, 0];
          const cut = (): void => void world.cable.cutNextAt(place, how).then(() => cuts++);
          if (answer === 1) cut();
          const look = async (): Promise<string> => {
            looks++;
            if (answer === 2) cut();
            return "ein Haus";
          };
          const question = `Look ${at}`;
          const asking = {
            baseURL,
            apiKey: ALICE_KEY,
            model: "paced/model",
            question,
            fetch,
            isStreamed,
            look,
          };
          assert.equal(await user(asking), SEEN, where);
          assert.deepEqual([looks, cuts, world.model.calls.length - calls], [1, 1, 2], where);
          assert.equal(bodies.length, 2, where);
          for (const body of isStreamed ? bodies : [])
            for (const part of once) assert.equal(count(body, part), 1, `${part} ${where}`);
        }
      });
    }
  }
}
