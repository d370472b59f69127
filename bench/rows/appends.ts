/**
 * Durable appends, and appends delivered to a reader, against the Durable Streams reference server.
 */
import type { Measured } from "../harness/numbers.ts";
import { numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { profiling } from "./deliver.ts";

interface Appending {
  readonly server: "holdfast" | "durable-streams";
  readonly connections: number;
  /** Chunks that a writer has unacknowledged. */
  readonly unacked: number;
  /** Whether what is appended is followed by a reader. */
  readonly readers: boolean;
}

async function append(rounds: Rounds, directory: string, appending: Appending): Promise<Measured> {
  const { connections, unacked, readers } = appending;
  const isOurs = appending.server === "holdfast";
  const target = `targets/${appending.server}.ts`;
  const server = await Peer.start(target, { core: "server", nodeOptions: profiling(target) });
  const load = await Peer.start(isOurs ? "load/appends.ts" : "load/durable-streams.ts", { core: "load" });
  const ours = { store: "sqlite", sealed: true, application: readers ? "echo" : "emission" };
  const started = await server.call("start", { directory, ...(isOurs ? ours : {}) });
  await load.call("open", { port: numberOf(started, "port"), connections, unacked, readers });
  await load.call("begin");
  await load.call("measure", { measureMs: rounds.size(1_500, 100) });
  return load.call("measure", { measureMs: rounds.size(3_000, 300) });
}

/** A writer of ours may have 256 chunks unacknowledged; a quarter of that keeps it in one HTTP/2 window. */
const PIPELINED = 64;

export const appends: Row = {
  name: "appends",
  title: "durable appends, 150 bytes each, against @durable-streams/server, file-backed",
  stepsPerRound: 5,
  async run(rounds) {
    const writers = { connections: rounds.size(64, 4), readers: false };
    const followed = { connections: rounds.size(100, 4), readers: true, unacked: 1 };
    const theirs = { server: "durable-streams", unacked: 1 } as const;
    const results = await rounds.run({
      one: (directory) => append(rounds, directory, { ...writers, server: "holdfast", unacked: 1 }),
      pipelined: (directory) =>
        append(rounds, directory, { ...writers, server: "holdfast", unacked: PIPELINED }),
      theirs: (directory) => append(rounds, directory, { ...writers, ...theirs }),
      followed: (directory) => append(rounds, directory, { ...followed, server: "holdfast" }),
      "followed, theirs": (directory) => append(rounds, directory, { ...followed, ...theirs }),
    });
    const oneRatio = results.ratio("one", "theirs", "perSecond");
    const pipelinedRatio = results.ratio("pipelined", "theirs", "perSecond");
    const atLeast = (value: number) => ({ budget: { text: "at least 50", met: value >= 50 } });
    return {
      lines: [
        {
          what: "64 connections, one append under way on each",
          unit: "appends/s",
          value: results.spread("one", "perSecond"),
          ratio: { to: "Durable Streams", value: oneRatio },
          ...atLeast(oneRatio),
        },
        {
          what: "64 connections, 64 unacknowledged on each",
          unit: "appends/s",
          value: results.spread("pipelined", "perSecond"),
          ratio: { to: "Durable Streams", value: pipelinedRatio },
          ...atLeast(pipelinedRatio),
        },
        {
          what: "Durable Streams, 64 connections",
          unit: "appends/s",
          value: results.spread("theirs", "perSecond"),
        },
        {
          what: "100 streams, each appended to and followed by a reader",
          unit: "events/s",
          value: results.spread("followed", "deliveredPerSecond"),
          ratio: {
            to: "Durable Streams",
            value: results.ratio("followed", "followed, theirs", "deliveredPerSecond"),
          },
        },
        {
          what: "Durable Streams, 100 streams, followed by SSE",
          unit: "events/s",
          value: results.spread("followed, theirs", "deliveredPerSecond"),
        },
      ],
    };
  },
};
