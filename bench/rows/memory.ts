/**
 * Memory of the server's process for each stream that is attached and idle, against bare `node:http2`.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Measured, numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";

interface Idle {
  readonly server: "holdfast" | "bare-http2";
  readonly perConnection: number;
}

const STREAMS = 10_000;
const SHARED = 50;

async function idle(
  rounds: Rounds,
  directory: string,
  { server: kind, perConnection }: Idle,
): Promise<Measured> {
  const streams = rounds.size(STREAMS, 100);
  const server = await Peer.start(`targets/${kind}.ts`, { core: "server", nodeOptions: ["--expose-gc"] });
  const load = await Peer.start("load/delivery.ts", { core: "load" });
  const started = await server.call("start", {
    directory,
    store: "sqlite",
    sealed: true,
    application: "emission",
  });
  const before = await server.call("usage");
  await load.call("open", {
    protocol: kind === "holdfast" ? "holdfast" : "http2",
    streams,
    perConnection,
    port: numberOf(started, "port"),
    creditPort: numberOf(started, "creditPort"),
    creditEvery: 1_000,
  });
  // Two heartbeats later: what only the attach needed is gone.
  await sleep(rounds.size(11_000, 100));
  const after = await server.call("usage");
  const perStream = (name: string): number =>
    (numberOf(after, name) - numberOf(before, name)) / streams / 1024;
  return { kib: perStream("rssBytes"), heapKib: perStream("heapBytes") };
}

export const memory: Row = {
  name: "memory",
  title: "resident memory per idle attached stream, 10,000 streams",
  stepsPerRound: 4,
  async run(rounds) {
    const results = await rounds.run({
      own: (directory) => idle(rounds, directory, { server: "holdfast", perConnection: 1 }),
      "own, bare": (directory) => idle(rounds, directory, { server: "bare-http2", perConnection: 1 }),
      shared: (directory) => idle(rounds, directory, { server: "holdfast", perConnection: SHARED }),
      "shared, bare": (directory) => idle(rounds, directory, { server: "bare-http2", perConnection: SHARED }),
    });
    const pair = (variant: string, label: string): Line[] => {
      const value = results.ratio(variant, `${variant}, bare`, "kib");
      const heap = results.median(variant, "heapKib").toFixed(1);
      return [
        {
          what: `Holdfast, ${label}`,
          unit: "KiB/stream",
          value: results.spread(variant, "kib"),
          ratio: { to: "bare node:http2", value },
          budget: { text: "at most 1.3", met: value <= 1.3 },
          note: `of it in the JavaScript heap: ${heap} KiB`,
        },
        {
          what: `bare node:http2, ${label}`,
          unit: "KiB/stream",
          value: results.spread(`${variant}, bare`, "kib"),
          note: `of it in the JavaScript heap: ${results.median(`${variant}, bare`, "heapKib").toFixed(1)} KiB`,
        },
      ];
    };
    return { lines: [...pair("own", "a connection each"), ...pair("shared", `${SHARED} to a connection`)] };
  },
};
