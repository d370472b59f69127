/**
 * What a gateway adds to a provider's answer: Holdfast's, which keeps it, and Portkey's, which passes it on.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { LOAD_BUSY_MAX } from "./deliver.ts";
import { type Kind, startAsking } from "./gateway-peers.ts";
import { proveKept } from "./gateway-proof.ts";

const BURST_CHUNKS = 1_000;
const AT_ONCE = 32;
const CHUNKS = 20;
/** Less than any real model takes to its first word, and more than a commit. */
const THINKING_MS = 20;
const CPU_RATIO_MAX = 1.5;
const RATE_RATIO_MIN = 0.7;

async function measure(rounds: Rounds, directory: string, kind: Kind): Promise<Measured> {
  const asking = await startAsking(directory, { kind });
  const { ask, gateway } = asking;
  // Holdfast's code is still getting faster after hundreds of answers, Portkey's a little.
  await ask("ask", { question: writeQuestion({ tokens: 2 }), warmUps: rounds.size(500, 1), asked: 1 });
  await gateway?.call("count");
  const pacedAsked = { warmUps: rounds.size(10, 1), asked: rounds.size(100, 3) };
  const paced = await ask("ask", { question: writeQuestion({ tokens: 15, everyMs: 5 }), ...pacedAsked });
  const counted = (await gateway?.call("counted")) ?? {};
  const thinking = await ask("ask", {
    question: writeQuestion({ tokens: 5, everyMs: 5, messageUs: THINKING_MS * 1_000 }),
    ...pacedAsked,
  });
  const burst = await ask("ask", {
    question: writeQuestion({ tokens: rounds.size(BURST_CHUNKS, 20) }),
    warmUps: rounds.size(5, 1),
    asked: rounds.size(10, 2),
  });
  const many = { question: writeQuestion({ tokens: CHUNKS }), atOnce: rounds.size(AT_ONCE, 4) };
  await ask("rate", { ...many, measureMs: rounds.size(1_500, 10) });
  await gateway?.call("count");
  const rate = await ask("rate", { ...many, measureMs: rounds.size(4_000, 20) });
  const { serverCpuMs = 0 } = (await gateway?.call("counted")) ?? {};
  if (kind === "holdfast") await proveKept(asking);
  const requests = pacedAsked.warmUps + pacedAsked.asked;
  return {
    ...paced,
    ...rate,
    cpuMs: serverCpuMs / numberOf(rate, "answers"),
    thinkingMs: numberOf(thinking, "firstP50"),
    burstMs: numberOf(burst, "wholeP50"),
    syncs: (counted["syncs"] ?? 0) / requests,
    syncMs: ((counted["syncSeconds"] ?? 0) * 1_000) / (counted["syncs"] ?? 1),
  };
}

const NAMES: Readonly<Record<Kind, string>> = {
  direct: "no gateway",
  portkey: "Portkey",
  holdfast: "Holdfast",
};

function linesOf(results: Results, what: string, name: string): readonly Line[] {
  const line = (kind: Kind): Line => ({
    what: `${what}: ${NAMES[kind]}`,
    unit: "ms",
    value: results.spread(kind, name),
  });
  return [line("direct"), line("portkey"), line("holdfast")];
}

/** What each adds to calling the provider, and how the two compare. */
function addedOf(results: Results, what: string, name: string, more: Partial<Line> = {}): readonly Line[] {
  const portkey = results.difference("portkey", "direct", name);
  const holdfast = results.difference("holdfast", "direct", name);
  const ratio = { to: "Portkey", value: holdfast.median / portkey.median };
  return [
    { what: `${what}, added: Portkey`, unit: "ms", value: portkey },
    { what: `${what}, added: Holdfast`, unit: "ms", value: holdfast, ratio, ...more },
  ];
}

function firstToken(results: Results): readonly Line[] {
  const portkey = results.difference("portkey", "direct", "firstP50").median;
  const ratio = results.difference("holdfast", "direct", "firstP50").median / portkey;
  const syncs = results.median("holdfast", "syncs").toFixed(1);
  const syncMs = results.median("holdfast", "syncMs").toFixed(2);
  return addedOf(results, "to the first token, p50", "firstP50", {
    budget: { text: "at most 1", met: ratio <= 1 },
    note: `a whole answer takes Holdfast ${syncs} commits of ${syncMs} ms to its log`,
  });
}

function laterChunk(results: Results): readonly Line[] {
  const [direct, portkey, holdfast] = linesOf(results, "a later chunk, written to read, p50", "delayP50");
  if (direct === undefined || portkey === undefined || holdfast === undefined) return [];
  const value = results.ratio("holdfast", "portkey", "delayP50");
  const budget = { text: "at most 1", met: value <= 1 };
  return [direct, portkey, { ...holdfast, ratio: { to: "Portkey", value }, budget }];
}

function cpuOf(results: Results): readonly Line[] {
  const line = (kind: Kind): Line => ({
    what: `processor time of an answer of ${CHUNKS} chunks: ${NAMES[kind]}`,
    unit: "ms",
    value: results.spread(kind, "cpuMs"),
  });
  const value = results.ratio("holdfast", "portkey", "cpuMs");
  const budget = { text: `at most ${CPU_RATIO_MAX}`, met: value <= CPU_RATIO_MAX };
  return [line("portkey"), { ...line("holdfast"), ratio: { to: "Portkey", value }, budget }];
}

function rateOf(results: Results, kind: Kind): Line {
  const isLoadBusy = results.median(kind, "loadBusy") > LOAD_BUSY_MAX;
  return {
    what: `answers of ${CHUNKS} chunks, ${AT_ONCE} at once: ${NAMES[kind]}`,
    unit: "per s",
    value: results.spread(kind, "perSecond"),
    ratio: { to: "no gateway", value: results.ratio(kind, "direct", "perSecond") },
    ...(isLoadBusy ? { note: "the load was the slower side" } : {}),
  };
}

function rates(results: Results): readonly Line[] {
  const value = results.ratio("holdfast", "portkey", "perSecond");
  return [
    rateOf(results, "direct"),
    rateOf(results, "portkey"),
    {
      ...rateOf(results, "holdfast"),
      ratio: { to: "Portkey", value },
      budget: { text: `at least ${RATE_RATIO_MIN}`, met: value >= RATE_RATIO_MIN },
    },
  ];
}

export const gateway: Row = {
  name: "gateway",
  title: "chat completions through Holdfast's gateway and Portkey's, against calling the provider directly",
  stepsPerRound: 3,
  async run(rounds) {
    const results = await rounds.run({
      direct: (directory) => measure(rounds, directory, "direct"),
      portkey: (directory) => measure(rounds, directory, "portkey"),
      holdfast: (directory) => measure(rounds, directory, "holdfast"),
    });
    return {
      lines: [
        ...linesOf(results, "to the first token, p50", "firstP50"),
        ...firstToken(results),
        ...linesOf(results, "to the first token, p90", "firstP90"),
        ...addedOf(results, "to the first token, p90", "firstP90"),
        ...addedOf(results, `to the first token of a model that thinks ${THINKING_MS} ms, p50`, "thinkingMs"),
        ...laterChunk(results),
        ...linesOf(results, `${BURST_CHUNKS} chunks at once, asked to last, p50`, "burstMs"),
        ...rates(results),
        ...cpuOf(results),
      ],
    };
  },
};
