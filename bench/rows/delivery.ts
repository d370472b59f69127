/**
 * Events per second to 100 and 1,000 streams with a reader each: durable and sealed, the same server
 * without store and sealing, and the bare servers that are the limit.
 */
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds, Variant } from "../harness/rounds.ts";
import { rounded } from "../harness/table.ts";
import { deliver, type Delivery, LOAD_BUSY_MAX } from "./deliver.ts";

const HOLDFAST = "targets/holdfast.ts";
const DURABLE = { store: "sqlite", sealed: true, application: "emission" };
const BARE = { store: "memory", sealed: false, application: "emission" };

type Kind = "durable" | "memory" | "http2" | "sse";

const kinds: Readonly<Record<Kind, Pick<Delivery, "target" | "protocol" | "options">>> = {
  durable: { target: HOLDFAST, protocol: "holdfast", options: DURABLE },
  memory: { target: HOLDFAST, protocol: "holdfast", options: BARE },
  http2: { target: "targets/bare-http2.ts", protocol: "http2" },
  sse: { target: "targets/bare-sse.ts", protocol: "sse" },
};

/** Streams, and how many share a connection. */
const shapes = [
  { label: "100 streams, a connection each", streams: 100, perConnection: 1 },
  { label: "1,000 streams, a connection each", streams: 1_000, perConnection: 1 },
  { label: "1,000 streams, 50 to a connection", streams: 1_000, perConnection: 50 },
];

function variantsOf(rounds: Rounds): Record<string, Variant> {
  const variants: Record<string, Variant> = {};
  for (const { label, streams, perConnection } of shapes) {
    for (const [kind, how] of Object.entries(kinds)) {
      // HTTP/1.1 has nothing to share.
      if (kind === "sse" && perConnection > 1) continue;
      const size = { streams: rounds.size(streams, streams / 20), perConnection };
      variants[`${kind}, ${label}`] = (directory) => deliver(rounds, directory, { ...how, ...size });
    }
  }
  return variants;
}

function linesOf(results: Results): readonly Line[] {
  return shapes.flatMap(({ label, streams, perConnection }) => {
    const isJudged = streams === 1_000;
    const against = (kind: Kind, to: string, atLeast: number | undefined): Line => {
      const value = results.ratio(`durable, ${label}`, `${kind}, ${label}`, "perSecond");
      const judged =
        atLeast === undefined || !isJudged
          ? {}
          : { budget: { text: `at least ${atLeast}`, met: value >= atLeast } };
      return {
        what: `${to}: ${label}`,
        unit: "events/s",
        value: results.spread(`${kind}, ${label}`, "perSecond"),
        ratio: { to: "durable against it", value },
        ...judged,
        ...noteOf(results, `${kind}, ${label}`),
      };
    };
    const durable: Line = {
      what: `durable and sealed: ${label}`,
      unit: "events/s",
      value: results.spread(`durable, ${label}`, "perSecond"),
      ...noteOf(results, `durable, ${label}`),
    };
    const lines = [durable, against("memory", "without store and sealing", 0.6)];
    if (perConnection === 1) lines.push(against("sse", "bare node:http SSE", 0.4));
    lines.push(against("http2", "bare node:http2", undefined));
    return lines;
  });
}

/** Processor time does not wait for others as throughput does: on a busy machine it is the better number. */
function noteOf(results: Results, variant: string): { note: string } {
  const load = results.median(variant, "loadBusy");
  const server = results.median(variant, "serverBusy");
  const cost = `${rounded(results.median(variant, "serverUsPerEvent"))} us of the server's processor time per event`;
  if (load <= LOAD_BUSY_MAX || server > load) return { note: cost };
  return { note: `${cost}; the load was busier than the server, which may be faster than shown` };
}

export const delivery: Row = {
  name: "delivery",
  title: "events delivered to one reader per stream, 150 bytes each",
  stepsPerRound: 11,
  async run(rounds) {
    return { lines: linesOf(await rounds.run(variantsOf(rounds))) };
  },
};
