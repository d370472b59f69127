/**
 * What a gateway adds to a provider's answer: Holdfast's, which keeps it, and Portkey's, which passes it on.
 */
import { type Measured, numberOf } from "../harness/numbers.ts";
import { writeQuestion } from "../harness/question.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { LOAD_BUSY_MAX } from "./deliver.ts";
import { type Kind, startAsking } from "./gateway-peers.ts";

const BURST_CHUNKS = 1_000;
const AT_ONCE = 32;
const CHUNKS = 20;

async function measure(rounds: Rounds, directory: string, kind: Kind): Promise<Measured> {
  const { ask, gateway } = await startAsking(directory, { kind });
  await gateway?.call("count");
  const pacedAsked = { warmUps: rounds.size(50, 1), asked: rounds.size(100, 3) };
  const paced = await ask("ask", { question: writeQuestion({ tokens: 15, everyMs: 5 }), ...pacedAsked });
  const counted = (await gateway?.call("counted")) ?? {};
  const burst = await ask("ask", {
    question: writeQuestion({ tokens: rounds.size(BURST_CHUNKS, 20) }),
    warmUps: rounds.size(5, 1),
    asked: rounds.size(10, 2),
  });
  const many = { question: writeQuestion({ tokens: CHUNKS }), atOnce: rounds.size(AT_ONCE, 4) };
  await ask("rate", { ...many, measureMs: rounds.size(1_500, 100) });
  const rate = await ask("rate", { ...many, measureMs: rounds.size(4_000, 200) });
  const requests = pacedAsked.warmUps + pacedAsked.asked;
  return {
    ...paced,
    ...rate,
    usPerChunk: (numberOf(burst, "streamedP50") * 1_000) / numberOf(burst, "pieces"),
    syncs: (counted["syncs"] ?? 0) / requests,
    syncMs: ((counted["syncSeconds"] ?? 0) * 1_000) / (counted["syncs"] ?? 1),
  };
}

const NAMES: Readonly<Record<Kind, string>> = {
  direct: "no gateway",
  portkey: "Portkey",
  holdfast: "Holdfast",
};

function linesOf(results: Results, what: string, name: string, unit = "ms"): readonly Line[] {
  const line = (kind: Kind): Line => ({
    what: `${what}: ${NAMES[kind]}`,
    unit,
    value: results.spread(kind, name),
  });
  return [line("direct"), line("portkey"), line("holdfast")];
}

/** What each adds to calling the provider, and how the two compare. */
function addedOf(results: Results, what: string, name: string, unit = "ms"): readonly Line[] {
  const [portkey, holdfast] = [
    results.difference("portkey", "direct", name),
    results.difference("holdfast", "direct", name),
  ];
  return [
    { what: `${what}, added: Portkey`, unit, value: portkey },
    {
      what: `${what}, added: Holdfast`,
      unit,
      value: holdfast,
      ratio: { to: "Portkey", value: holdfast.median / portkey.median },
    },
  ];
}

function firstToken(results: Results): readonly Line[] {
  const lines = addedOf(results, "to the first token, p50", "firstP50");
  return lines.map((line) => {
    const { ratio } = line;
    if (ratio === undefined) return line;
    const syncs = results.median("holdfast", "syncs").toFixed(1);
    const syncMs = results.median("holdfast", "syncMs").toFixed(2);
    return {
      ...line,
      budget: { text: "at most 0.5", met: ratio.value <= 0.5 },
      note: `a whole answer takes ${syncs} syncs of ${syncMs} ms; some of them before the first token`,
    };
  });
}

function rates(results: Results): readonly Line[] {
  const lines = linesOf(results, `answers of ${CHUNKS} chunks, ${AT_ONCE} at once`, "perSecond", "per s");
  return lines.map((line, at) => {
    const kind = (["direct", "portkey", "holdfast"] as const)[at] ?? "direct";
    const isLoadBusy = results.median(kind, "loadBusy") > LOAD_BUSY_MAX;
    return {
      ...line,
      ratio: { to: "no gateway", value: results.ratio(kind, "direct", "perSecond") },
      ...(isLoadBusy ? { note: "the load was the slower side" } : {}),
    };
  });
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
        ...linesOf(results, "a later chunk, written to read, p50", "delayP50"),
        ...linesOf(results, `${BURST_CHUNKS} chunks at once, for each`, "usPerChunk", "us"),
        ...rates(results),
      ],
    };
  },
};
