/**
 * Memory of the gateway's process for each session that waits for a tool's result, for a hundred and for a thousand of them, when they have just begun to wait and
 * when they rest; and that all of them are still answered.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Measured, numberOf } from "../harness/numbers.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { startAsking } from "./gateway-peers.ts";
import { proveKept } from "./gateway-proof.ts";

const COUNTS = [100, 1_000] as const;
const PER_PRINCIPAL = 50;
const MESSAGES = 10;
const KIB_MAX = 20;
/** The gateway lets go of a stream after 5 s, the server of its turn at the second tick behind that. */
const REST_MS = 20_000;
/** What a thousand may take each, against a hundred. */
const GROWTH_MAX = 1.1;

type Count = (typeof COUNTS)[number];

async function parked(rounds: Rounds, directory: string, count: Count): Promise<Measured> {
  const sessions = rounds.size(count, count / 50);
  const sizes = { perPrincipal: PER_PRINCIPAL, messages: MESSAGES };
  const asking = await startAsking(directory, { kind: "holdfast", nodeOptions: ["--expose-gc"] });
  const { ask, gateway } = asking;
  if (gateway === undefined) throw new Error("Holdfast's gateway was not started");
  // What the code itself takes is there before it is measured.
  await ask("park", { ...sizes, sessions: rounds.size(4 * PER_PRINCIPAL, 1) });
  await ask("answerParked");
  // Their streams are over, and let go of at the server's next ticks: they would be counted against the ones that rest.
  await sleep(rounds.size(REST_MS, 1));
  await gateway.call("tidy");
  const before = await gateway.call("usage");
  await gateway.call("count");
  const startedMs = performance.now();
  await ask("park", { ...sizes, sessions });
  const parkMs = (performance.now() - startedMs) / sessions;
  const waiting = numberOf(await gateway.call("parked"), "parked");
  const hot = await gateway.call("usage");
  await sleep(rounds.size(REST_MS, 1));
  const after = await gateway.call("usage");
  const { answered = 0, meanMs = Number.NaN } = await ask("answerParked");
  const { continued = 0, logBytes = Number.NaN } = await gateway.call("counted");
  if (waiting !== sessions || continued !== sessions || answered !== sessions) {
    throw new Error(`of ${sessions} sessions ${waiting} waited and ${continued} went on`);
  }
  await proveKept(asking);
  const perSession = (usage: Measured, name: string): number =>
    (numberOf(usage, name) - numberOf(before, name)) / sessions / 1024;
  const live = (usage: Measured): number =>
    perSession(usage, "heapBytes") + perSession(usage, "externalBytes");
  return {
    kib: perSession(after, "rssBytes"),
    hotKib: live(hot),
    liveKib: live(after),
    logKib: logBytes / sessions / 1024,
    parkMs,
    meanMs,
  };
}

const variantOf = (count: Count): string => `${count} parked`;

function linesOf(results: Results, count: Count): readonly Line[] {
  const variant = variantOf(count);
  const live = results.spread(variant, "liveKib");
  const growth = results.ratio(variant, variantOf(COUNTS[0]), "liveKib");
  const logKib = results.median(variant, "logKib").toFixed(1);
  return [
    {
      what: `${count}: live memory, resting`,
      unit: "KiB/session",
      value: live,
      ...(count === COUNTS[0] ? {} : { ratio: { to: `${COUNTS[0]} sessions`, value: growth } }),
      budget: {
        text: `at most ${KIB_MAX}, and ${GROWTH_MAX} times that of ${COUNTS[0]}`,
        met: live.median <= KIB_MAX && growth <= GROWTH_MAX,
      },
      note: `written to the log by both halves of a turn: ${logKib} KiB`,
    },
    {
      what: `${count}: live memory, just parked`,
      unit: "KiB/session",
      value: results.spread(variant, "hotKib"),
    },
    { what: `${count}: resident memory`, unit: "KiB/session", value: results.spread(variant, "kib") },
    {
      what: `${count}: the first half of a turn, one at a time`,
      unit: "ms",
      value: results.spread(variant, "parkMs"),
    },
    { what: `${count}: the second half, all went on`, unit: "ms", value: results.spread(variant, "meanMs") },
  ];
}

export const gatewayParked: Row = {
  name: "gateway-parked",
  title: `sessions of ${MESSAGES} messages wait for a tool's result, then all get it`,
  stepsPerRound: COUNTS.length,
  async run(rounds) {
    const results = await rounds.run(
      Object.fromEntries(
        COUNTS.map((count) => [variantOf(count), (directory) => parked(rounds, directory, count)]),
      ),
    );
    return { lines: COUNTS.flatMap((count) => linesOf(results, count)) };
  },
};
