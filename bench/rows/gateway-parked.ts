/**
 * Memory of the gateway's process for each session that waits for a tool's result; and that all of them are still answered.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import type { Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { startAsking } from "./gateway-peers.ts";

const SESSIONS = 1_000;
const PER_PRINCIPAL = 50;
const MESSAGES = 10;

async function parked(rounds: Rounds, directory: string): Promise<Measured> {
  const sessions = rounds.size(SESSIONS, 5);
  const sizes = { perPrincipal: PER_PRINCIPAL, messages: MESSAGES };
  const { ask, gateway } = await startAsking(directory, { kind: "holdfast", nodeOptions: ["--expose-gc"] });
  if (gateway === undefined) throw new Error("Holdfast's gateway was not started");
  // What the code itself takes is there before it is measured.
  await ask("park", { ...sizes, sessions: rounds.size(PER_PRINCIPAL, 1) });
  await ask("answerParked");
  const before = await gateway.call("usage");
  await gateway.call("count");
  const startedMs = performance.now();
  await ask("park", { ...sizes, sessions });
  const parkMs = (performance.now() - startedMs) / sessions;
  const waiting = numberOf(await gateway.call("parked"), "parked");
  const after = await gateway.call("usage");
  const { answered = 0, meanMs = Number.NaN } = await ask("answerParked");
  const { continued = 0, logBytes = Number.NaN } = await gateway.call("counted");
  if (waiting !== sessions || continued !== sessions || answered !== sessions) {
    throw new Error(`of ${sessions} sessions ${waiting} waited and ${continued} went on`);
  }
  const perSession = (name: string): number =>
    (numberOf(after, name) - numberOf(before, name)) / sessions / 1024;
  return {
    kib: perSession("rssBytes"),
    heapKib: perSession("heapBytes"),
    logKib: logBytes / sessions / 1024,
    parkMs,
    meanMs,
  };
}

export const gatewayParked: Row = {
  name: "gateway-parked",
  title: `${SESSIONS} sessions of ${MESSAGES} messages wait for a tool's result, then all get it`,
  stepsPerRound: 1,
  async run(rounds) {
    const results = await rounds.run({ parked: (directory) => parked(rounds, directory) });
    const median = (name: string): string => results.median("parked", name).toFixed(1);
    return {
      lines: [
        {
          what: "resident memory",
          unit: "KiB/session",
          value: results.spread("parked", "kib"),
          note: `of it in the JavaScript heap: ${median("heapKib")} KiB; written to the log by both halves of a turn: ${median("logKib")} KiB`,
        },
        {
          what: "the first half of a turn, one at a time",
          unit: "ms",
          value: results.spread("parked", "parkMs"),
        },
        { what: "the second half, all went on", unit: "ms", value: results.spread("parked", "meanMs") },
      ],
    };
  },
};
