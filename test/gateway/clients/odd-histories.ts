/**
 * What clients make of a history between two requests: results twice, in another order, an edited message, two requests at once, a summary instead
 * of it all.
 *
 * A client's own message form stays its own here: the cases only put messages together. Each begins with a turn that waits for two tools, and ends by
 * continuing it, if that is still to be had: what does not belong to a session has not touched it.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { type Fields, inTwo } from "../../agent/models/providers/server.ts";
import { openaiEvents, type Said } from "../../agent/models/providers/formats.ts";
import { openaiProvider, type ScriptedProvider, textOf } from "../../agent/models/providers/scripted.ts";
import { type ServedGateway, serveGateway } from "./served-gateway.ts";

/** What a client was told. */
export interface Told<Message> {
  readonly text: string;
  /** Of the tool calls. */
  readonly ids: readonly string[];
  /** As the client keeps it. */
  readonly said: readonly Message[];
}

export interface Speaker<Message> {
  user(text: string): Message;
  results(...all: readonly (readonly [id: string, text: string])[]): readonly Message[];
  ask(messages: readonly Message[]): Promise<Told<Message>>;
}

export const LOOK = {
  name: "look",
  description: "looks somewhere",
  parameters: { type: "object", properties: { at: { type: "string" } }, required: ["at"] },
};

const PATIENCE_MS = 20_000;

const calls = ["a", "b"].map((at) => ({ name: LOOK.name, args: { at } }));

/** Asked to look, it looks at two places; then it repeats what it was told last. */
const script = (messages: readonly Fields[]): Said => {
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  const told = messages.slice(last + 1).map(textOf);
  return told.at(-1)?.startsWith("Look") === true
    ? { thinking: "Both.", text: "Let me see.", calls }
    : { text: `I heard: ${told.join(", ")}` };
};

/** Nobody is answered before so many have asked: what is to happen at once does. */
class Meeting {
  #missing = 0;
  #met = Promise.withResolvers<void>();

  expect(count: number): void {
    this.#missing = count;
    this.#met = Promise.withResolvers<void>();
  }

  /** Who does not come, when all should, is found out by what they were told: nobody waits for long. */
  async come(): Promise<void> {
    if (--this.#missing <= 0) this.#met.resolve();
    const patience = AbortSignal.timeout(PATIENCE_MS);
    await Promise.race([this.#met.promise, once(patience, "abort")]);
  }
}

interface Case<Message> {
  /** The model comes to it before it answers. */
  readonly meeting: Meeting;
  readonly speaker: Speaker<Message>;
  /** Since the case began. */
  readonly counted: () => Promise<Readonly<Record<string, number>>>;
  readonly newCalls: () => number;
  readonly asked: Message;
  /** A turn that waits for two tools. */
  readonly told: Told<Message>;
}

async function parked<Message>(
  speaker: Speaker<Message>,
  gateway: ServedGateway,
  provider: ScriptedProvider,
  meeting: Meeting,
  name: string,
): Promise<Case<Message>> {
  const asked = speaker.user(`Look, ${name}`);
  const told = await speaker.ask([asked]);
  assert.equal(told.ids.length, 2, told.text);
  const [answersBefore, callsBefore] = [await gateway.answers(), provider.calls.length];
  const counted = async (): Promise<Readonly<Record<string, number>>> => {
    const now = Object.entries(await gateway.answers());
    const since = now.map(([how, count]) => [how, count - (answersBefore[how] ?? 0)] as const);
    return Object.fromEntries(since.filter(([, count]) => count > 0));
  };
  return { meeting, speaker, counted, newCalls: () => provider.calls.length - callsBefore, asked, told };
}

/** The results, as they are expected. */
function answered<Message>({ speaker, asked, told }: Case<Message>): readonly Message[] {
  const [a = "", b = ""] = told.ids;
  return [asked, ...told.said, ...speaker.results([a, "a house"], [b, "a tree"])];
}

/** The turn still waits, and goes on. */
async function continues<Message>(one: Case<Message>): Promise<void> {
  const before = (await one.counted())["continued_turn"] ?? 0;
  assert.equal((await one.speaker.ask(answered(one))).text, "I heard: a house, a tree");
  assert.equal((await one.counted())["continued_turn"], before + 1);
}

type Check = <Message>(one: Case<Message>) => Promise<void>;

const CASES: Readonly<Record<string, Check>> = {
  "results in another order continue the turn": async (one) => {
    const { speaker, asked, told } = one;
    const [a = "", b = ""] = told.ids;
    const reordered = [asked, ...told.said, ...speaker.results([b, "a tree"], [a, "a house"])];
    assert.equal(
      (await speaker.ask(reordered)).text,
      "I heard: a house, a tree",
      "in the order of the calls",
    );
    assert.equal(one.newCalls(), 1);
    assert.deepEqual(await one.counted(), { continued_turn: 1 });
  },

  "results twice in one request are answered apart": async (one) => {
    const { speaker, asked, told } = one;
    const [a = "", b = ""] = told.ids;
    const twice = speaker.results([a, "a house"], [b, "a tree"], [a, "a house"], [b, "a tree"]);
    const { text } = await speaker.ask([asked, ...told.said, ...twice]);
    assert.match(text, /a house, a tree/);
    assert.deepEqual(await one.counted(), { "fresh partly_answered": 1 });
    await continues(one);
    assert.equal(one.newCalls(), 2);
  },

  "results sent a second time are answered anew": async (one) => {
    await continues(one);
    assert.equal((await one.speaker.ask(answered(one))).text, "I heard: a house, a tree");
    assert.equal(one.newCalls(), 2, "what was delivered is no retry");
    assert.deepEqual(await one.counted(), { continued_turn: 1, "fresh not_waiting": 1 });
  },

  "an edited history is answered apart": async (one) => {
    const { speaker } = one;
    const [, ...rest] = answered(one);
    const { text } = await speaker.ask([speaker.user("Look, but elsewhere"), ...rest]);
    assert.equal(text, "I heard: a house, a tree");
    assert.deepEqual(await one.counted(), { "fresh diverged": 1 });
    await continues(one);
  },

  "two identical requests at once: the turn goes on once, and both are told": async (one) => {
    one.meeting.expect(2);
    const both = [one.speaker.ask(answered(one)), one.speaker.ask(answered(one))];
    while ((await one.counted())["attached"] === undefined && one.newCalls() < 2) await setImmediate();
    await one.meeting.come();
    for (const { text } of await Promise.all(both)) assert.equal(text, "I heard: a house, a tree");
    assert.equal(one.newCalls(), 1);
    assert.deepEqual(await one.counted(), { continued_turn: 1, attached: 1 });
  },

  "two different requests at once: each is answered what it said": async (one) => {
    const { speaker, asked, told } = one;
    const [a = "", b = ""] = told.ids;
    const ask = (seen: string) =>
      speaker.ask([asked, ...told.said, ...speaker.results([a, seen], [b, "a tree"])]);
    one.meeting.expect(2);
    const answers = await Promise.all([ask("a house"), ask("a barn")]);
    assert.deepEqual(
      answers.map(({ text }) => text),
      ["I heard: a house, a tree", "I heard: a barn, a tree"],
    );
    assert.equal(one.newCalls(), 2);
    assert.equal((await one.counted())["continued_turn"], 1);
  },

  "compaction: a summary goes on as a conversation of its own, and the results may never come": async (
    one,
  ) => {
    const { speaker } = one;
    const summary = speaker.user("So far: nothing was seen. Go on.");
    const first = await speaker.ask([summary]);
    assert.equal(first.text, "I heard: So far: nothing was seen. Go on.");
    const second = await speaker.ask([summary, ...first.said, speaker.user("And now?")]);
    assert.equal(second.text, "I heard: And now?");
    assert.deepEqual(await one.counted(), { "fresh new": 1, continued_conversation: 1 });
    await continues(one);
    assert.equal(one.newCalls(), 3);
  },
};

/** Every case, in one gateway. */
export async function checkOddHistories<Message>(
  t: TestContext,
  speakerOf: (gateway: ServedGateway) => Speaker<Message>,
): Promise<void> {
  const meeting = new Meeting();
  const provider = await openaiProvider(t, (messages) =>
    inTwo([], () => meeting.come(), openaiEvents(script(messages))),
  );
  const gateway = await serveGateway(t, { provider });
  const speaker = speakerOf(gateway);
  for (const [name, check] of Object.entries(CASES)) {
    await t.test(name, async () => check(await parked(speaker, gateway, provider, meeting, name)));
  }
}
