/**
 * Delivery against `resumable-stream` over Redis, which keeps a running answer reachable but stores nothing.
 */
import { spawnSync } from "node:child_process";
import type { Line, Row } from "../harness/row.ts";
import { deliver } from "./deliver.ts";

const STREAMS = 100;

export const resumableStream: Row = {
  name: "resumable-stream",
  title: "events delivered, 100 streams, a connection each, against resumable-stream with Redis",
  stepsPerRound: 3,
  async run(rounds) {
    if (spawnSync("redis-server", ["--version"]).status !== 0) {
      return { lines: [], skipped: "there is no redis-server on this machine" };
    }
    const shape = { streams: rounds.size(STREAMS, 4), perConnection: 1 };
    const theirs = { target: "targets/resumable-stream.ts", protocol: "sse", ...shape } as const;
    const results = await rounds.run({
      durable: (directory) =>
        deliver(rounds, directory, {
          ...shape,
          target: "targets/holdfast.ts",
          protocol: "holdfast",
          options: { store: "sqlite", sealed: true, application: "emission" },
        }),
      first: (directory) => deliver(rounds, directory, { ...theirs, options: { resumed: false } }),
      resumed: (directory) => deliver(rounds, directory, { ...theirs, options: { resumed: true } }),
    });
    const against = (variant: string, what: string): Line => ({
      what,
      unit: "events/s",
      value: results.spread(variant, "perSecond"),
      ratio: { to: "durable against it", value: results.ratio("durable", variant, "perSecond") },
    });
    return {
      lines: [
        { what: "durable and sealed", unit: "events/s", value: results.spread("durable", "perSecond") },
        against("first", "resumable-stream, the first reader (past Redis)"),
        against("resumed", "resumable-stream, a reader that came back (through Redis)"),
      ],
    };
  },
};
