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
/** Portkey's gateway holds the first chunk of every stream back for so long, by a timer. */
const PORTKEY_PAUSE_MS = 25;

async function measure(rounds: Rounds, directory: string, kind: Kind): Promise<Measured> {
  const { ask, gateway } = await startAsking(directory, { kind });
  // Holdfast's code is still getting faster after hundreds of answers, Portkey's a little.
  await ask("ask", { question: writeQuestion({ tokens: 2 }), warmUps: rounds.size(500, 1), asked: 1 });
  await gateway?.call("count");
  const pacedAsked = { warmUps: rounds.size(10, 1), asked: rounds.size(100, 3) };
  const paced = await ask("ask", { question: writeQuestion({ tokens: 15, everyMs: 5 }), ...pacedAsked });
  const counted = (await gateway?.call("counted")) ?? {};
  const burst = await ask("ask", {
    question: writeQuestion({ tokens: rounds.size(BURST_CHUNKS, 20) }),
    warmUps: rounds.size(5, 1),
    asked: rounds.size(10, 2),
  });
  const many = { question: writeQuestion({ tokens: CHUNKS }), atOnce: rounds.size(AT_ONCE, 4) };
  await ask("rate", { ...many, measureMs: rounds.size(1_500, 100) });
  await gateway?.call("count");
  const rate = await ask("rate", { ...many, measureMs: rounds.size(4_000, 200) });
  const { serverCpuMs = 0 } = (await gateway?.call("counted")) ?? {};
  const requests = pacedAsked.warmUps + pacedAsked.asked;
  return {
    ...paced,
    ...rate,
    cpuMs: serverCpuMs / numberOf(rate, "answers"),
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
    budget: { text: "at most 0.5", met: ratio <= 0.5 },
    note:
      `Portkey waits ${PORTKEY_PAUSE_MS} ms before each first chunk; without that it would add ${(portkey - PORTKEY_PAUSE_MS).toFixed(1)} ms. ` +
      `A whole answer takes Holdfast ${syncs} commits of ${syncMs} ms to its log`,
  });
}

function rateOf(results: Results, kind: Kind): Line {
  const isLoadBusy = results.median(kind, "loadBusy") > LOAD_BUSY_MAX;
  const cpu = `processor time of the gateway for each: ${results.median(kind, "cpuMs").toFixed(2)} ms`;
  const notes = [
    ...(kind === "direct" ? [] : [cpu]),
    ...(isLoadBusy ? ["the load was the slower side"] : []),
  ];
  return {
    what: `answers of ${CHUNKS} chunks, ${AT_ONCE} at once: ${NAMES[kind]}`,
    unit: "per s",
    value: results.spread(kind, "perSecond"),
    ratio: { to: "no gateway", value: results.ratio(kind, "direct", "perSecond") },
    ...(notes.length === 0 ? {} : { note: notes.join("; ") }),
  };
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
        ...linesOf(results, `${BURST_CHUNKS} chunks at once, asked to last, p50`, "burstMs"),
        rateOf(results, "direct"),
        rateOf(results, "portkey"),
        rateOf(results, "holdfast"),
      ],
    };
  },
};
