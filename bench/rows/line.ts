/**
 * What the line adds to a model's answer: a hop over a local socket for each piece of it.
 */
import type { Measured } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { startDirect } from "./agent-peers.ts";

/** As the design says it. */
const ADDED_MS_MAX = 0.15;

async function asked(rounds: Rounds, directory: string, how: "fetch" | "line"): Promise<Measured> {
  const { load, port } = await startDirect();
  const question = writeQuestion({ tokens: 40, everyMs: 5 });
  const [warmUps, count] = [rounds.size(10, 1), rounds.size(40, 3)];
  return load.call("ask", { question, warmUps, asked: count, port, how, directory });
}

export const line: Row = {
  name: "line",
  title: "a model's answer through the line, against the same fetch without it",
  stepsPerRound: 2,
  async run(rounds) {
    const results = await rounds.run({
      fetch: (directory) => asked(rounds, directory, "fetch"),
      line: (directory) => asked(rounds, directory, "line"),
    });
    const added = results.difference("line", "fetch", "delayP50");
    const lines = (["firstP50", "delayP50", "delayP90"] as const).flatMap((name) => {
      const what = {
        firstP50: "to the first token, p50",
        delayP50: "a later token, p50",
        delayP90: "a later token, p90",
      }[name];
      return (["fetch", "line"] as const).map((how) => ({
        what: `${what}: ${how}`,
        unit: "ms",
        value: results.spread(how, name),
      }));
    });
    return {
      lines: [
        ...lines,
        {
          what: "a later token, p50, added: by the line",
          unit: "ms",
          value: added,
          budget: { text: `at most ${ADDED_MS_MAX} ms`, met: added.median <= ADDED_MS_MAX },
        },
      ],
    };
  },
};
