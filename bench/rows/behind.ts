/**
 * A client returns to an answer under way that has 2,000 words: how long it waits for the first word that it lacks. The server that it returns to has the answer in memory, or was
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

const WORDS = 2_000;
const WAYS = {
  lives: { isKilled: false, missing: WORDS - 1, text: "from memory, 1,999 words late" },
  killed: { isKilled: true, missing: WORDS - 1, text: "after a kill, 1,999 words late" },
  near: { isKilled: true, missing: 20, text: "after a kill, 20 words late" },
  nothing: { isKilled: true, missing: WORDS, text: "after a kill, with the role alone" },
} as const;
type Way = keyof typeof WAYS;

async function behind(rounds: Rounds, directory: string, way: Way): Promise<Measured> {
  const { isKilled, missing } = WAYS[way];
  const provider = await startProvider();
  const load = await Peer.start("load/behind.ts", { core: "load" });
  const start = async (port: number): Promise<{ readonly server: Peer; readonly port: number }> => {
    const server = await Peer.start("targets/serve.ts", { core: "server" });
    const given = { directory, providerPort: provider.port, port, apiKey: API_KEY };
    return { server, port: numberOf(await server.call("start", given), "port") };
  };
  const first = await start(0);
  const words = rounds.size(WORDS, 50);
  // Under way for as long as it takes to return to it.
  const question = writeQuestion({ tokens: words * 20, everyMs: 1 });
  await load.call("begin", { port: first.port, apiKey: API_KEY, question, words });
  const killedMs = performance.now();
  if (isKilled) {
    await first.server.kill();
    await start(first.port);
  }
  const startMs = performance.now() - killedMs;
  const asked = { port: first.port, apiKey: API_KEY, missing: missing - (WORDS - words) };
  const resumed = await load.call("resume", { ...asked, missing: Math.max(asked.missing, 20) });
  return { ...resumed, startMs };
}

function linesOf(
  way: Way,
  spread: (name: "firstMs" | "allMs" | "startMs") => Line["value"],
): readonly Line[] {
  const { text, isKilled } = WAYS[way];
  const value = spread("firstMs");
  const budget = { text: `at most ${FIRST_MS_MAX} ms`, met: value.median <= FIRST_MS_MAX };
  return [
    { what: `to the first missing word: ${text}`, unit: "ms", value, budget },
    { what: `to all 2,000 words: ${text}`, unit: "ms", value: spread("allMs") },
    ...(isKilled
      ? [
          {
            what: `before that, from the kill until the server listens`,
            unit: "ms",
            value: spread("startMs"),
          },
        ]
      : []),
  ];
}

export const behindRow: Row = {
  name: "behind",
  title: "a client returns to an answer under way that has 2,000 words",
  stepsPerRound: Object.keys(WAYS).length,
  async run(rounds) {
    const results = await rounds.run({
      lives: (directory) => behind(rounds, directory, "lives"),
      killed: (directory) => behind(rounds, directory, "killed"),
      near: (directory) => behind(rounds, directory, "near"),
      nothing: (directory) => behind(rounds, directory, "nothing"),
    });
    const ways = ["lives", "killed", "near", "nothing"] as const;
    return { lines: ways.flatMap((way) => linesOf(way, (name) => results.spread(way, name))) };
  },
};
