/**
 * The flows of an OpenAI client with tools, each with what a gateway that keeps its sessions has to make of it.
 *
 * A flow judges by what its client sees (streams, response ids, texts). What the gateway counts and what reached the provider is compared with what the flow
 * costs when everything that can be reused is.
 */
import { randomBytes } from "node:crypto";
import { type Line, type Reply, result, said, user } from "../gateway/openai-user.ts";
import type { Counts, Gateway } from "./gateway.ts";

export interface Flow {
  readonly name: string;
  readonly needsKill?: true;
  /** How its answers come about. */
  readonly counts: Partial<Counts>;
  readonly providerCalls: number;
  /** What was not as it has to be, in words. */
  play(gateway: Gateway): Promise<readonly string[]>;
}

export const FLOWS: readonly Flow[] = [
  {
    name: "one tool",
    counts: { fresh: 1, continued_turn: 1 },
    providerCalls: 2,
    play: async (gateway) => (await toolTurn(gateway, 1)).problems,
  },
  {
    name: "parallel tools",
    counts: { fresh: 1, continued_turn: 1 },
    providerCalls: 2,
    play: async (gateway) => (await toolTurn(gateway, 2)).problems,
  },
  {
    name: "results out of order",
    counts: { fresh: 1, continued_turn: 1 },
    providerCalls: 2,
    play: async (gateway) =>
      (await toolTurn(gateway, 3, { order: (results) => results.toReversed() })).problems,
  },
  {
    name: "retry",
    counts: { fresh: 1, continued_turn: 1, replayed: 1 },
    providerCalls: 2,
    play: async (gateway) => {
      const headers = { "idempotency-key": randomBytes(12).toString("hex") };
      const { problems, answer, asked } = await toolTurn(gateway, 1, { headers });
      const again = await gateway.ask(asked, headers).reply();
      return [...problems, ...sameAnswer("the retry", answer, again)];
    },
  },
  {
    name: "cut",
    counts: { fresh: 1 },
    providerCalls: 1,
    play: cutAnswer,
  },
  {
    name: "kill",
    needsKill: true,
    counts: { fresh: 1, continued_turn: 1 },
    providerCalls: 2,
    play: async (gateway) => (await toolTurn(gateway, 1, { between: () => gateway.restart() })).problems,
  },
  {
    name: "next turn",
    counts: { fresh: 1, continued_conversation: 1 },
    providerCalls: 2,
    play: async (gateway) => {
      const first = [user(`say Hello, ${salt()}.`)];
      const hello = await gateway.ask(first).reply();
      const next = await gateway.ask([...first, said(hello), user("say Good day.")]).reply();
      return [...whole("the first turn", hello, "Hello"), ...whole("the next turn", next, "Good day.")];
    },
  },
  {
    name: "two at once",
    counts: { fresh: 2, continued_turn: 2 },
    providerCalls: 4,
    play: async (gateway) => {
      const [one, other] = await Promise.all([toolTurn(gateway, 1), toolTurn(gateway, 1)]);
      const isShared = one.answer.streamId === other.answer.streamId;
      return [
        ...one.problems,
        ...other.problems,
        ...(isShared ? ["two conversations were given one stream"] : []),
      ];
    },
  },
];

interface TurnOptions {
  readonly order?: (results: readonly Line[]) => readonly Line[];
  /** Of the request with the results. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Happens between the calls and their results. */
  readonly between?: () => Promise<void>;
}

interface Turn {
  readonly problems: readonly string[];
  /** The request with the results. */
  readonly asked: readonly Line[];
  readonly answer: Reply;
}

/** A turn in which the model calls so many tools in one step, and answers when it has their results. */
async function toolTurn(gateway: Gateway, tools: number, options: TurnOptions = {}): Promise<Turn> {
  const { order = (results) => results, headers = {}, between = () => Promise.resolve() } = options;
  const texts = Array.from({ length: tools }, () => salt());
  const script = [...texts.map((text) => `call note ${JSON.stringify({ text })}`), "say It is written."];
  const first = [user(script.join("\n"))];
  const called = await gateway.ask(first).reply();
  await between();
  const results = called.calls.map(({ id }, at) => result(id, `noted ${texts[at] ?? ""}`));
  const asked = [...first, said(called), ...order(results)];
  const answer = await gateway.ask(asked, headers).reply();
  return { problems: [...callProblems(called, texts), ...continued(called, answer)], asked, answer };
}

function callProblems(called: Reply, texts: readonly string[]): readonly string[] {
  if (called.finish !== "tool_calls") return [`the tools were not called: ${told(called)}`];
  const wanted = texts.map((text) => JSON.stringify({ text }));
  const got = called.calls.map(({ args }) => JSON.stringify(JSON.parse(args)));
  return JSON.stringify(got) === JSON.stringify(wanted)
    ? []
    : [`the calls are ${got.join(" ")}, not ${wanted.join(" ")}`];
}

function continued(called: Reply, answer: Reply): readonly string[] {
  const isReused = called.streamId !== "" && answer.streamId === called.streamId;
  return [
    ...(isReused ? [] : [`the results began a stream anew: ${called.streamId} became ${answer.streamId}`]),
    ...whole("the answer to the results", answer, "It is written."),
  ];
}

/** The client hangs up in the middle of an answer, and retries as the OpenAI SDK does. */
async function cutAnswer(gateway: Gateway): Promise<readonly string[]> {
  const asked = [{ role: "system", content: `Run ${salt()}.` }, user("count to 40 every 50 ms")];
  const cut = gateway.ask(asked);
  // Words that come while the disk is busy are one piece: the fifth may stand anywhere in it.
  if (!(await cut.until("5 "))) return [`there was nothing to cut: ${told(await cut.reply())}`];
  cut.hangUp();
  const before = await cut.reply();
  await gateway.allHungUp();
  const again = await gateway.ask(asked, { "x-stainless-retry-count": "1" }).reply();
  const counted = Array.from({ length: 40 }, (_, at) => `${at + 1} `).join("");
  return [
    ...(again.streamId === before.streamId
      ? []
      : ["the retry began a stream anew instead of the running answer"]),
    ...(again.text === counted ? [] : [`the retry's answer is not whole: ${told(again)}`]),
  ];
}

function sameAnswer(what: string, before: Reply, again: Reply): readonly string[] {
  const isSame = again.responseId === before.responseId && again.text === before.text;
  return isSame ? [] : [`${what} got another answer: ${told(again)} instead of ${told(before)}`];
}

function whole(what: string, reply: Reply, words: string): readonly string[] {
  const isWhole = reply.isWhole && reply.finish === "stop" && reply.text.includes(words);
  return isWhole ? [] : [`${what} is not whole: ${told(reply)}`];
}

function told({ status, finish, error, text }: Reply): string {
  if (status === 0) return "no response";
  return `status ${status}, finish ${finish ?? "none"}${error === undefined ? "" : `, error ${error}`}, "${text.slice(0, 80)}"`;
}

/** Each run asks what no run before has asked. */
function salt(): string {
  return randomBytes(4).toString("hex");
}
