/**
 * From the application's `emit` to the reader, at 10,000 events a second, against the store's own latency in
 * the same run.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Measured, numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { profiling } from "./deliver.ts";

async function emitToReader(rounds: Rounds, directory: string): Promise<Measured> {
  const target = "targets/holdfast.ts";
  const server = await Peer.start(target, { core: "server", nodeOptions: profiling(target) });
  const load = await Peer.start("load/latency.ts", { core: "load" });
  const started = await server.call("start", {
    directory,
    store: "sqlite",
    sealed: true,
    application: "emission",
  });
  await load.call("open", { port: numberOf(started, "port"), streams: rounds.size(100, 5) });
  await server.call("pace", { perSecond: 10_000 });
  await sleep(rounds.size(2_000, 100));
  await Promise.all([server.call("time"), load.call("time")]);
  await server.call("meter");
  await sleep(rounds.size(5_000, 300));
  const { busy = Number.NaN } = await server.call("metered");
  const [ours, theirs] = [await server.call("timed"), await load.call("timed")];
  return { ...ours, ...theirs, busy };
}

export const latency: Row = {
  name: "latency",
  title: "commit to reader at 10,000 events/s, 100 streams, a connection each",
  stepsPerRound: 1,
  async run(rounds) {
    const results = await rounds.run({ paced: (directory) => emitToReader(rounds, directory) });
    const line = (what: string, name: string, more: Partial<Line> = {}): Line => ({
      what,
      unit: "ms",
      value: results.spread("paced", name),
      ...more,
    });
    const judged = (percent: "P50" | "P99", msMax: number): Line[] => {
      const ms = results.median("paced", `reader${percent}`);
      const ratio = results.ratio("paced", "paced", `reader${percent}`, `commit${percent}`);
      const name = percent.toLowerCase();
      return [
        line(`emit to reader, ${name}`, `reader${percent}`, {
          budget: { text: `at most ${msMax} ms`, met: ms <= msMax },
        }),
        line(`the store's own commit, ${name}`, `commit${percent}`, {
          ratio: { to: "emit to reader against it", value: ratio },
          budget: { text: "at most 1.5", met: ratio <= 1.5 },
        }),
        line(`emit to durable, ${name}`, `durable${percent}`),
      ];
    };
    return { lines: [...judged("P50", 2), ...judged("P99", 10)] };
  },
};
