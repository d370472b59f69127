/**
 * What stands between a model's answer and its reader: the line, a hop over a local socket for each piece, and the `fetch` that passes whole events only,
 * to an SDK, or parsed to our own reader of chat completions.
 */
import type { Measured } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { startDirect } from "./agent-peers.ts";

/** As the design says it. */
const ADDED_MS_MAX = 0.15;

const WAYS = ["fetch", "line", "upstream", "events"] as const;
type Way = (typeof WAYS)[number];

const WHAT: Readonly<Record<Way, string>> = {
  fetch: "fetch",
  line: "line",
  upstream: "line, whole events for an SDK",
  events: "line, whole events, parsed",
};

async function asked(rounds: Rounds, directory: string, how: Way): Promise<Measured> {
  const { load, port } = await startDirect();
  const question = writeQuestion({ tokens: 40, everyMs: 5 });
  const [warmUps, count] = [rounds.size(10, 1), rounds.size(40, 3)];
  return load.call("ask", { question, warmUps, asked: count, port, how, directory });
}

export const line: Row = {
  name: "line",
  title: "a model's answer through the line, against the same fetch without it",
  stepsPerRound: WAYS.length,
  async run(rounds) {
    const results = await rounds.run({
      fetch: (directory) => asked(rounds, directory, "fetch"),
      line: (directory) => asked(rounds, directory, "line"),
      upstream: (directory) => asked(rounds, directory, "upstream"),
      events: (directory) => asked(rounds, directory, "events"),
    });
    const addedBy = (way: Way): Line => {
      const added = results.difference(way, "fetch", "delayP50");
      const budget = { text: `at most ${ADDED_MS_MAX} ms`, met: added.median <= ADDED_MS_MAX };
      return { what: `a later token, p50, added: ${WHAT[way]}`, unit: "ms", value: added, budget };
    };
    const lines = (["firstP50", "delayP50", "delayP90"] as const).flatMap((name) => {
      const what = {
        firstP50: "to the first token, p50",
        delayP50: "a later token, p50",
        delayP90: "a later token, p90",
      }[name];
      return WAYS.map((how) => ({
        what: `${what}: ${WHAT[how]}`,
        unit: "ms",
        value: results.spread(how, name),
      }));
    });
    return { lines: [...lines, addedBy("line"), addedBy("upstream"), addedBy("events")] };
  },
};
