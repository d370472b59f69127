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
  const of = (name: string): number => numberOf(measured, name);
  return {
    [`${prefix}Ms`]: of("firstP50"),
    [`${prefix}Sent`]: of("sentBytes"),
    [`${prefix}Received`]: of("receivedBytes"),
  };
}

/** Each of the measured turns makes the conversation longer by one: few, so that it stays what it is called. */
async function goOn(rounds: Rounds, directory: string, length: number): Promise<Measured> {
  const turns = rounds.quick ? Math.ceil(length / 50) : length;
  const question = { question: QUESTION };
  const provider = await startProvider();
  const first = await startAgent(directory, provider);
  const client = await startClient(directory, first, "disk");
  await client.call("grow", { turns, ...question });
  await first.peer.kill();
  const { peer: server } = await startAgent(directory, provider, first.port);
  // Other conversations first: what is cold is what the server knows of this one, not its code.
  await client.call("turns", { turns: rounds.size(20, 1), ...question });
  const cold = await client.call("goOn", { asked: 1, ...question });
  await server.call("count");
  const asked = rounds.size(5, 1);
  const warm = await client.call("goOn", { asked, ...question });
  const { logBytes = Number.NaN } = await server.call("counted");
  const whole = { turns, messageBytes: TOKENS * TOKEN_BYTES, ...question };
  await client.call("withHistory", { ...whole, asked: rounds.size(5, 1) });
  const history = await client.call("withHistory", { ...whole, asked });
  return {
    ...named(warm, "warm"),
    ...named(cold, "cold"),
    ...named(history, "history"),
    logBytes: logBytes / asked,
  };
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
  const kib = (name: string): string => `${(results.median(variant, name) / 1024).toFixed(1)} KiB`;
  const back = `received in such a turn: ${kib("warmReceived")}; written to the server's log: ${kib("logBytes")}`;
  return [
    line("sent with the whole history", "bytes", "historySent"),
    { ...judged("sent from the checkpoint", "bytes", "warmSent", "historySent"), note: back },
    judged("sent from the checkpoint, server restarted", "bytes", "coldSent", "historySent"),
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
