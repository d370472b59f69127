/**
 * What an answer costs the gateway's process once it is over, while its stream is kept: memory, and the rate of answers after many.
 *
 * Answers are counted, not minutes: a slow machine takes longer and says the same.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { startAsking } from "./gateway-peers.ts";
import { proveKept } from "./gateway-proof.ts";

const AT_ONCE = 32;
const PARTS = 4;
/** Behind so many, what is bounded is full: the tail of events, caches, and the answers that can still be asked for by an equal request. */
const WARM_ANSWERS = 15_000;
const BYTES_MAX = 400;
const RATE_LOSS_MAX = 0.05;
/** The agent's cache is full in the first part: with its usual bound it takes 65,000 answers, and would be counted for them. */
const CACHE_BYTES_MAX = 1024 * 1024;

async function over(rounds: Rounds, directory: string, answers: number): Promise<Measured> {
  const nodeOptions = ["--expose-gc"];
  const asking = await startAsking(directory, {
    kind: "holdfast",
    nodeOptions,
    cacheBytesMax: CACHE_BYTES_MAX,
  });
  const { ask, gateway } = asking;
  if (gateway === undefined) throw new Error("Holdfast's gateway was not started");
  const question = writeQuestion({ tokens: 2 });
  const atOnce = rounds.size(AT_ONCE, 4);
  const many = async (count: number): Promise<Measured> => {
    await gateway.call("count");
    const rate = await ask("many", { question, atOnce, count });
    const counted = await gateway.call("counted");
    await gateway.call("tidy");
    const cpuMs = numberOf(counted, "serverCpuMs") / count;
    return { ...(await gateway.call("usage")), ...rate, cpuMs };
  };
  const part = Math.ceil(answers / PARTS);
  await many(rounds.size(WARM_ANSWERS, 20));
  const before = await many(part);
  let last = before;
  for (let at = 0; at < PARTS; at++) last = await many(part);
  await proveKept(asking);
  const grown = (name: string): number => (numberOf(last, name) - numberOf(before, name)) / (PARTS * part);
  const kept = (name: string): number => numberOf(last, name) / numberOf(before, name);
  return {
    answers: PARTS * part,
    liveBytes: grown("heapBytes") + grown("externalBytes"),
    residentBytes: grown("rssBytes"),
    rateKept: kept("perSecond"),
    cpuKept: kept("cpuMs"),
  };
}

function rowOf(name: string, answers: number, isLong: boolean): Row {
  return {
    name,
    title: `${answers.toLocaleString("en")} answers that are over, while their streams are kept`,
    stepsPerRound: 1,
    isLong,
    async run(rounds) {
      const size = rounds.size(answers, 40);
      const results = await rounds.run({ over: (directory) => over(rounds, directory, size) });
      const spread = (what: string) => results.spread("over", what);
      const [live, resident, rate] = [spread("liveBytes"), spread("residentBytes"), spread("rateKept")];
      const atMost = { text: `at most ${BYTES_MAX}` };
      return {
        lines: [
          {
            what: "live memory",
            unit: "bytes/answer",
            value: live,
            budget: { ...atMost, met: live.median <= BYTES_MAX },
            note: `over ${results.median("over", "answers")} answers`,
          },
          {
            what: "resident memory",
            unit: "bytes/answer",
            value: resident,
            budget: { ...atMost, met: resident.median <= BYTES_MAX },
          },
          {
            what: "rate of the last part against that of the first",
            unit: "",
            value: rate,
            budget: { text: "at least 0.95", met: rate.median >= 1 - RATE_LOSS_MAX },
          },
          {
            what: "processor time of an answer, the last part against the first",
            unit: "",
            value: spread("cpuKept"),
          },
        ],
      };
    },
  };
}

export const gatewayOver: Row = rowOf("gateway-over", 20_000, false);
/** A quarter of an hour and more for each round. */
export const gatewayOverLong: Row = rowOf("gateway-over-long", 200_000, true);
