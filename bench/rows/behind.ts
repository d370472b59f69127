/**
 * A client returns to an answer under way, 2,000 words late: how long it waits for the first word that it lacks. The server that it returns to has the answer in memory, or was
 * killed meanwhile and has it in its log and at its line.
 */
import { numberOf, type Measured } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { startProvider } from "./agent-peers.ts";

const API_KEY = "hf_bench_behind_0123456789abcdef0123456789abcde";
/** As the design says it. */
const FIRST_MS_MAX = 200;

async function behind(rounds: Rounds, directory: string, isKilled: boolean): Promise<Measured> {
  const provider = await startProvider();
  const load = await Peer.start("load/behind.ts", { core: "load" });
  const start = async (port: number): Promise<{ readonly server: Peer; readonly port: number }> => {
    const server = await Peer.start("targets/serve.ts", { core: "server" });
    const given = { directory, providerPort: provider.port, port, apiKey: API_KEY };
    return { server, port: numberOf(await server.call("start", given), "port") };
  };
  const first = await start(0);
  const words = rounds.size(2_000, 50);
  // Under way for as long as it takes to return to it.
  const question = writeQuestion({ tokens: words * 20, everyMs: 1 });
  await load.call("begin", { port: first.port, apiKey: API_KEY, question, words });
  if (isKilled) {
    await first.server.kill();
    await start(first.port);
  }
  return load.call("resume", { port: first.port, apiKey: API_KEY, words });
}

const WAYS = { lives: "from memory", killed: "after a kill, from the log" } as const;

export const behindRow: Row = {
  name: "behind",
  title: "a client returns to an answer under way, 2,000 words late",
  stepsPerRound: Object.keys(WAYS).length,
  async run(rounds) {
    const results = await rounds.run({
      lives: (directory) => behind(rounds, directory, false),
      killed: (directory) => behind(rounds, directory, true),
    });
    const lines = (["lives", "killed"] as const).flatMap((way): readonly Line[] => {
      const value = results.spread(way, "firstMs");
      const budget = { text: `at most ${FIRST_MS_MAX} ms`, met: value.median <= FIRST_MS_MAX };
      return [
        { what: `to the first missing word, ${WAYS[way]}`, unit: "ms", value, budget },
        {
          what: `to all 2,000 words, ${WAYS[way]}`,
          unit: "ms",
          value: results.spread(way, "allMs"),
        },
      ];
    });
    return { lines };
  },
};
