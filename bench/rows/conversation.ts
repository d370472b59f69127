/**
 * A long conversation that goes on: from its checkpoint, against sending all of it again.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { startAgent, startClient, startProvider } from "./agent-peers.ts";

const LENGTHS = [10, 100, 500] as const;

/** An answer of 800 bytes; 500 of them and their questions still fit into one chunk. */
const TOKENS = 8;
const TOKEN_BYTES = 100;
const QUESTION_BYTES = 200;

const QUESTION = writeQuestion({ tokens: TOKENS, tokenBytes: TOKEN_BYTES }).padEnd(QUESTION_BYTES, " .");

function named(measured: Measured, prefix: string): Measured {
  return {
    [`${prefix}Ms`]: numberOf(measured, "firstP50"),
    [`${prefix}Bytes`]: numberOf(measured, "sentBytes"),
  };
}

async function goOn(rounds: Rounds, directory: string, length: number): Promise<Measured> {
  const turns = rounds.quick ? Math.ceil(length / 50) : length;
  const asked = rounds.size(15, 2);
  const provider = await startProvider();
  const first = await startAgent(directory, provider);
  const client = await startClient(directory, first, "disk");
  await client.call("grow", { turns, question: QUESTION });
  const warm = await client.call("goOn", { asked, question: QUESTION });
  const ofHistory = { turns, messageBytes: TOKENS * TOKEN_BYTES, question: QUESTION };
  await client.call("withHistory", { ...ofHistory, asked: rounds.size(3, 1) });
  const history = await client.call("withHistory", { ...ofHistory, asked });
  await first.peer.kill();
  await startAgent(directory, provider, first.port);
  // Other conversations first: what is cold is what the server knows of this one, not its code.
  await client.call("turns", { turns: rounds.size(20, 1), question: QUESTION });
  const cold = await client.call("goOn", { asked: 1, question: QUESTION });
  return { ...named(warm, "warm"), ...named(cold, "cold"), ...named(history, "history") };
}

function linesOf(results: Results, length: number): readonly Line[] {
  const variant = String(length);
  const line = (what: string, unit: string, name: string): Line => ({
    what: `after ${length} turns: ${what}`,
    unit,
    value: results.spread(variant, name),
  });
  const judged = (what: string, unit: string, name: string, against: string): Line => ({
    ...line(what, unit, name),
    ratio: { to: "the history again", value: results.ratio(variant, variant, name, against) },
  });
  return [
    line("sent with the whole history", "bytes", "historyBytes"),
    judged("sent from the checkpoint", "bytes", "warmBytes", "historyBytes"),
    judged("sent from the checkpoint, server restarted", "bytes", "coldBytes", "historyBytes"),
    line("to the first token with the whole history", "ms", "historyMs"),
    judged("to the first token from the checkpoint", "ms", "warmMs", "historyMs"),
    judged("to the first token from the checkpoint, server restarted", "ms", "coldMs", "historyMs"),
  ];
}

export const conversation: Row = {
  name: "conversation",
  title:
    "a conversation of 10, 100 and 500 turns goes on: bytes that the client sends, and time to the first token",
  stepsPerRound: LENGTHS.length,
  async run(rounds) {
    const variants = LENGTHS.map(
      (length) => [String(length), (directory: string) => goOn(rounds, directory, length)] as const,
    );
    const results = await rounds.run(Object.fromEntries(variants));
    return { lines: LENGTHS.flatMap((length) => linesOf(results, length)) };
  },
};
