/**
 * The server is killed in the middle of an answer and started again: how long the reader of a stock SDK sees nothing, and how often the model is called.
 */
import { numberOf, type Measured } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { startProvider } from "./agent-peers.ts";

const API_KEY = "hf_bench_kill_0123456789abcdef0123456789abcdef";
const BEFORE = 10;

async function killed(rounds: Rounds, directory: string): Promise<Measured> {
  const provider = await startProvider();
  const load = await Peer.start("load/killed.ts", { core: "load" });
  const start = async (port: number): Promise<{ readonly server: Peer; readonly port: number }> => {
    const server = await Peer.start("targets/serve.ts", { core: "server" });
    const given = { directory, providerPort: provider.port, port, apiKey: API_KEY };
    return { server, port: numberOf(await server.call("start", given), "port") };
  };
  const first = await start(0);
  await provider.peer.call("counted");
  // Longer than a server takes to start.
  const question = writeQuestion({ tokens: rounds.size(1_000, 400), everyMs: 10 });
  await load.call("begin", { port: first.port, apiKey: API_KEY, question, tokens: BEFORE });
  await first.server.kill();
  const killedMs = performance.now();
  const next = load.call("next").then(() => performance.now());
  await start(first.port);
  const readyMs = performance.now();
  const silentMs = (await next) - killedMs;
  await load.call("whole");
  const { modelCalls = Number.NaN } = await provider.peer.call("counted");
  return { silentMs, startMs: readyMs - killedMs, modelCalls, savedCalls: await savedCalls(first.port) };
}

/** As the server that was started again counts them. */
async function savedCalls(port: number): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const counted = /^holdfast_provider_calls_saved_total\{[^}]*how="line"[^}]*\} (?<calls>\d+)$/m.exec(
    metrics,
  );
  return Number(counted?.groups?.["calls"] ?? 0);
}

export const kill: Row = {
  name: "kill",
  title:
    "the server is killed in the middle of an answer and started at once: a stock client with holdfast/fetch",
  stepsPerRound: 1,
  async run(rounds) {
    const results = await rounds.run({ line: (directory) => killed(rounds, directory) });
    const calls = results.spread("line", "modelCalls");
    const saved = results.spread("line", "savedCalls");
    return {
      lines: [
        { what: "from the kill to the next token", unit: "ms", value: results.spread("line", "silentMs") },
        {
          what: "of that until the server listens again",
          unit: "ms",
          value: results.spread("line", "startMs"),
        },
        {
          what: "calls of the model for the answer",
          unit: "calls",
          value: calls,
          budget: { text: "1", met: calls.median === 1 },
        },
        {
          what: "calls saved, as /metrics has them",
          unit: "calls",
          value: saved,
          budget: { text: "1", met: saved.median === 1 },
        },
      ],
    };
  },
};
