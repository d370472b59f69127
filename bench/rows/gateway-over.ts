/**
 * What an answer costs the gateway's process once it is over, while its stream is kept: memory, and the rate of answers after many.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { startAsking } from "./gateway-peers.ts";
import { proveKept } from "./gateway-proof.ts";

const PARTS = 4;
const PART_MS = 60_000;
const AT_ONCE = 32;
const LIVE_BYTES_MAX = 400;
const RATE_LOSS_MAX = 0.05;
/** The agent's cache is full in the first minute: with its usual bound it takes 65,000 answers, and would be counted for them. */
const CACHE_BYTES_MAX = 1024 * 1024;

async function over(rounds: Rounds, directory: string): Promise<Measured> {
  const nodeOptions = ["--expose-gc"];
  const asking = await startAsking(directory, {
    kind: "holdfast",
    nodeOptions,
    cacheBytesMax: CACHE_BYTES_MAX,
  });
  const { ask, gateway } = asking;
  if (gateway === undefined) throw new Error("Holdfast's gateway was not started");
  const load = {
    question: writeQuestion({ tokens: 2 }),
    atOnce: rounds.size(AT_ONCE, 4),
    measureMs: rounds.size(PART_MS, 20),
  };
  const many = async (): Promise<Measured> => {
    const rate = await ask("rate", load);
    await gateway.call("tidy");
    return { ...rate, ...(await gateway.call("usage")) };
  };
  // The code warms up, and what is bounded fills: the tail of events, and caches.
  await many();
  const first = await many();
  let answers = 0;
  let last = first;
  for (let part = 0; part < PARTS; part++) {
    last = await many();
    answers += numberOf(last, "answers");
  }
  await proveKept(asking);
  const grown = (name: string): number => (numberOf(last, name) - numberOf(first, name)) / answers;
  return {
    answers,
    liveBytes: grown("heapBytes") + grown("externalBytes"),
    residentBytes: grown("rssBytes"),
    rateKept: numberOf(last, "perSecond") / numberOf(first, "perSecond"),
  };
}

export const gatewayOver: Row = {
  name: "gateway-over",
  title: "answers that are over, while their streams are kept",
  stepsPerRound: 1,
  async run(rounds) {
    const results = await rounds.run({ over: (directory) => over(rounds, directory) });
    const [live, kept] = [results.spread("over", "liveBytes"), results.spread("over", "rateKept")];
    return {
      lines: [
        {
          what: "live memory",
          unit: "bytes/answer",
          value: live,
          budget: { text: `at most ${LIVE_BYTES_MAX}`, met: live.median <= LIVE_BYTES_MAX },
          note: `over ${results.median("over", "answers")} answers`,
        },
        { what: "resident memory", unit: "bytes/answer", value: results.spread("over", "residentBytes") },
        {
          what: "rate of the last minute against that of the first",
          unit: "",
          value: kept,
          budget: { text: "at least 0.95", met: kept.median >= 1 - RATE_LOSS_MAX },
        },
      ],
    };
  },
};
