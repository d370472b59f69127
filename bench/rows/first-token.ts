/**
 * What Holdfast adds to a model's answer: to its first token, to each one after it, and to many at once.
 */
import type { Arguments, Measured } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { type Journal, startDirect, startTalking } from "./agent-peers.ts";

type Ask = (given: Arguments) => Promise<Measured>;

const BURST_TOKENS = 1_000;

/** A model at a steady pace, and then one that says everything at once. */
async function asked(rounds: Rounds, ask: Ask): Promise<Measured> {
  const paced = await ask({
    question: writeQuestion({ tokens: 15, everyMs: 5 }),
    warmUps: rounds.size(20, 1),
    asked: rounds.size(60, 3),
  });
  const burst = await ask({
    question: writeQuestion({ tokens: rounds.size(BURST_TOKENS, 20) }),
    warmUps: rounds.size(5, 1),
    asked: rounds.size(10, 2),
  });
  return { ...paced, burstMs: burst["wholeP50"] ?? Number.NaN };
}

async function direct(rounds: Rounds, how: "fetch" | "sdk"): Promise<Measured> {
  const { load, port } = await startDirect();
  return asked(rounds, (given) => load.call("ask", { ...given, port, how }));
}

async function throughHoldfast(rounds: Rounds, directory: string, journal: Journal): Promise<Measured> {
  const { client, server } = await startTalking(directory, journal);
  await server.peer.call("count");
  const measured = await asked(rounds, (given) => client.call("ask", given));
  const { syncs = Number.NaN, syncSeconds = Number.NaN } = await server.peer.call("counted");
  return { ...measured, syncMs: (syncSeconds * 1000) / syncs };
}

const NAMES = {
  fetch: "fetch",
  sdk: "AI SDK",
  holdfast: "Holdfast",
  memory: "Holdfast, client's journal in memory",
} as const;

type Name = keyof typeof NAMES;

function linesOf(results: Results, what: string, name: string, added: string): readonly Line[] {
  const line = (variant: Name): Line => ({
    what: `${what}: ${NAMES[variant]}`,
    unit: "ms",
    value: results.spread(variant, name),
  });
  const compared = (variant: Name): Line => ({
    ...line(variant),
    ratio: { to: "AI SDK", value: results.ratio(variant, "sdk", name) },
    note: `${added}: ${results.difference(variant, "sdk", name).median.toFixed(2)} ms`,
  });
  return [line("fetch"), line("sdk"), compared("holdfast"), compared("memory")];
}

export const firstToken: Row = {
  name: "first-token",
  title: "a model's answer through Holdfast, durable, against calling the provider directly",
  stepsPerRound: 4,
  async run(rounds) {
    const results = await rounds.run({
      fetch: () => direct(rounds, "fetch"),
      sdk: () => direct(rounds, "sdk"),
      holdfast: (directory) => throughHoldfast(rounds, directory, "disk"),
      memory: (directory) => throughHoldfast(rounds, directory, "memory"),
    });
    const added = "added to calling through the AI SDK";
    return {
      lines: [
        ...linesOf(results, "to the first token, p50", "firstP50", added),
        ...linesOf(results, "to the first token, p90", "firstP90", added),
        ...linesOf(results, "a later token, written to read, p50", "delayP50", added),
        ...linesOf(results, "a later token, written to read, p90", "delayP90", added),
        ...linesOf(results, `${BURST_TOKENS} tokens at once, asked to last`, "burstMs", added),
        {
          what: "one sync of the server's log, mean",
          unit: "ms",
          value: results.spread("holdfast", "syncMs"),
        },
      ],
    };
  },
};
