/**
 * 5,000 real clients whose server is killed and comes back five seconds later on the same port and data.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Measured, numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Rounds } from "../harness/rounds.ts";
import { profiling } from "./deliver.ts";

const TARGET = "targets/holdfast.ts";
const HOLDFAST = { store: "sqlite", sealed: true, application: "emission" };
const GIVE_UP_MS = 120_000;

async function storm(rounds: Rounds, directory: string): Promise<Measured> {
  const streams = rounds.size(5_000, 20);
  const load = await Peer.start("load/clients.ts", { core: "load" });
  const first = await Peer.start(TARGET, { core: "server" });
  const port = numberOf(await first.call("start", { directory, ...HOLDFAST }), "port");
  await load.call("open", { port, streams });
  await load.call("down");
  await first.kill();
  await sleep(rounds.size(5_000, 100));
  const second = await Peer.start(TARGET, { core: "server", nodeOptions: profiling(TARGET) });
  await second.call("start", { directory, port, ...HOLDFAST });
  return load.call("up", { giveUpMs: GIVE_UP_MS });
}

export const storm5000: Row = {
  name: "storm",
  title: "5,000 clients come back after a server was killed and restarted 5 s later",
  stepsPerRound: 1,
  async run(rounds) {
    const results = await rounds.run({ storm: (directory) => storm(rounds, directory) });
    const line = (what: string, unit: string, name: string): Line => ({
      what,
      unit,
      value: results.spread("storm", name),
    });
    return {
      lines: [
        line("from listening again until half are live", "ms", "halfMs"),
        line("from listening again until all are live", "ms", "allMs"),
        line("attempts, in all", "per client", "attemptsPerClient"),
        line("attempts, once the server was there", "per client", "attemptsUpPerClient"),
        line("refused, once the server was there", "attempts", "failures"),
      ],
    };
  },
};
