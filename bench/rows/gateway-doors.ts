/**
 * The doors of Holdfast's gateway side by side: what Responses and Messages cost beside chat, for the same answers of the same provider.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import type { Door } from "../load/doors.ts";
import { startAsking } from "./gateway-peers.ts";

const CHUNKS = 20;
const AT_ONCE = 32;
const RATIO_MAX = 1.2;

const NAMES: Readonly<Record<Door, string>> = { chat: "chat", responses: "Responses", messages: "Messages" };

async function measure(rounds: Rounds, directory: string, door: Door | "direct"): Promise<Measured> {
  const kind = door === "direct" ? "direct" : "holdfast";
  const { ask, gateway } = await startAsking(directory, { kind });
  const by = door === "direct" ? {} : { door };
  await ask("ask", { question: writeQuestion({ tokens: 2 }), warmUps: rounds.size(500, 1), asked: 1, ...by });
  const paced = await ask("ask", {
    question: writeQuestion({ tokens: 15, everyMs: 5 }),
    warmUps: rounds.size(10, 1),
    asked: rounds.size(100, 3),
    ...by,
  });
  const many = { question: writeQuestion({ tokens: CHUNKS }), atOnce: rounds.size(AT_ONCE, 4), ...by };
  await ask("rate", { ...many, measureMs: rounds.size(1_500, 10) });
  await gateway?.call("count");
  const rate = await ask("rate", { ...many, measureMs: rounds.size(4_000, 20) });
  const { serverCpuMs = 0 } = (await gateway?.call("counted")) ?? {};
  return { ...paced, cpuMs: serverCpuMs / numberOf(rate, "answers") };
}

/** What each door adds to the first token of the provider's own answer. */
function addedOf(results: Results): readonly Line[] {
  const added = (door: Door) => results.difference(door, "direct", "firstP50");
  const line = (door: Door): Line => ({
    what: `to the first token, p50, added: ${NAMES[door]}`,
    unit: "ms",
    value: added(door),
  });
  return [
    line("chat"),
    ...others((door) => againstChat(line(door), added(door).median / added("chat").median)),
  ];
}

function cpuOf(results: Results): readonly Line[] {
  const line = (door: Door): Line => ({
    what: `processor time of an answer of ${CHUNKS} chunks: ${NAMES[door]}`,
    unit: "ms",
    value: results.spread(door, "cpuMs"),
  });
  return [line("chat"), ...others((door) => againstChat(line(door), results.ratio(door, "chat", "cpuMs")))];
}

function others(lineOf: (door: Door) => Line): readonly Line[] {
  return [lineOf("responses"), lineOf("messages")];
}

function againstChat(line: Line, value: number): Line {
  const budget = { text: `at most ${RATIO_MAX}`, met: value <= RATIO_MAX };
  return { ...line, ratio: { to: "chat", value }, budget };
}

export const gatewayDoors: Row = {
  name: "gateway-doors",
  title: "the gateway's doors side by side: chat, Responses and Messages",
  stepsPerRound: 4,
  async run(rounds) {
    const results = await rounds.run({
      direct: (directory) => measure(rounds, directory, "direct"),
      chat: (directory) => measure(rounds, directory, "chat"),
      responses: (directory) => measure(rounds, directory, "responses"),
      messages: (directory) => measure(rounds, directory, "messages"),
    });
    return { lines: [...addedOf(results), ...cpuOf(results)] };
  },
};
