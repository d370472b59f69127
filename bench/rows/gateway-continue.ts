/**
 * A tool's result goes to a turn that waits for it, against one that begins anew with the whole history.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { startAsking } from "./gateway-peers.ts";
import { proveKept } from "./gateway-proof.ts";

const LENGTHS = [10, 100, 1_000] as const;
/** What a result may take longer to its first token than without a gateway. */
const ADDED_MS_MAX: Readonly<Record<(typeof LENGTHS)[number], number>> = { 10: 3.5, 100: 3.5, 1_000: 7 };

/** A model that reads a message in a millisecond and remembers what it has read. */
const READS_US = 1_000;

type Way = "direct" | "live" | "fresh";

/** All lengths of a round in one process: they are compared with one another. */
async function continued(rounds: Rounds, directory: string, way: Way): Promise<Measured> {
  const kind = way === "direct" ? "direct" : "holdfast";
  const asking = await startAsking(directory, { kind, reuse: way === "live" });
  const { ask, gateway } = asking;
  const sizes = { warmUps: rounds.size(10, 1), asked: rounds.size(25, 1) };
  const measured: Record<string, number> = {};
  // The code is warm before the first length is measured.
  await ask("continues", { warmUps: rounds.size(200, 1), asked: 1, messages: LENGTHS[0], messageUs: 0 });
  await gateway?.call("count");
  for (const messages of LENGTHS) {
    const history = { messages: rounds.size(messages, Math.ceil(messages / 20)) };
    const instant = await ask("continues", { ...sizes, ...history, messageUs: 0 });
    const reading = await ask("continues", { ...sizes, ...history, messageUs: READS_US });
    measured[`instant${messages}`] = numberOf(instant, "firstP50");
    measured[`reading${messages}`] = numberOf(reading, "firstP50");
    measured[`bytes${messages}`] = numberOf(instant, "bodyBytes");
  }
  const { continued: reused = 0 } = (await gateway?.call("counted")) ?? {};
  const turns = 2 * LENGTHS.length * (sizes.warmUps + sizes.asked);
  if (reused !== (way === "live" ? turns : 0)) throw new Error(`${reused} of ${turns} turns were continued`);
  if (way === "live") await proveKept(asking);
  return measured;
}

const NAMES: Readonly<Record<Way, string>> = {
  direct: "no gateway",
  live: "the turn goes on",
  fresh: "a fresh session",
};

function linesOf(results: Results, messages: (typeof LENGTHS)[number]): readonly Line[] {
  const name = `instant${messages}`;
  const line = (way: Way): Line => ({
    what: `${messages} messages: ${NAMES[way]}`,
    unit: "ms",
    value: results.spread(way, name),
  });
  const added = (way: Way): Line => ({
    what: `${messages} messages, added: ${NAMES[way]}`,
    unit: "ms",
    value: results.difference(way, "direct", name),
  });
  const live = added("live");
  const addedMax = ADDED_MS_MAX[messages];
  const kib = (results.median("direct", `bytes${messages}`) / 1024).toFixed(0);
  return [
    { ...line("direct"), note: `a request of ${kib} KiB` },
    line("fresh"),
    { ...line("live"), ratio: { to: "fresh, times faster", value: results.ratio("fresh", "live", name) } },
    added("fresh"),
    { ...live, budget: { text: `at most ${addedMax}`, met: live.value.median <= addedMax } },
  ];
}

function readingLines(results: Results, messages: number): readonly Line[] {
  const name = `reading${messages}`;
  return (["direct", "fresh", "live"] as const).map((way) => ({
    what: `${messages} messages, a model that reads 1 ms each and remembers: ${NAMES[way]}`,
    unit: "ms",
    value: results.spread(way, name),
  }));
}

/** From the shortest history to the longest. */
function growth(results: Results): Line {
  const [shortest, longest] = [`instant${LENGTHS[0]}`, `instant${LENGTHS[2]}`];
  const value = results.ratio("live", "live", longest, shortest);
  const provider = results.ratio("direct", "direct", longest, shortest);
  return {
    what: `the turn goes on: ${LENGTHS[2]} messages against ${LENGTHS[0]}`,
    unit: "ms",
    value: results.spread("live", longest),
    ratio: { to: `${LENGTHS[0]} messages`, value },
    budget: { text: "at most 1.5", met: value <= 1.5 },
    note: `the client's request and the one to the provider grow with the history; without a gateway: ${provider.toFixed(1)}`,
  };
}

export const gatewayContinue: Row = {
  name: "gateway-continue",
  title: "from a tool's result to the first token, after 10, 100 and 1,000 messages",
  stepsPerRound: 3,
  async run(rounds) {
    const results = await rounds.run({
      direct: (directory) => continued(rounds, directory, "direct"),
      live: (directory) => continued(rounds, directory, "live"),
      fresh: (directory) => continued(rounds, directory, "fresh"),
    });
    return {
      lines: [
        ...LENGTHS.flatMap((messages) => linesOf(results, messages)),
        growth(results),
        ...LENGTHS.flatMap((messages) => readingLines(results, messages)),
      ],
    };
  },
};
