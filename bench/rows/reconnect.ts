/**
 * A client that missed 10,000 events comes back: to the same process, and to one that was killed and started
 * again.
 */
import { apiKeyOf, streamNameOf } from "../harness/names.ts";
import { EVENT_BYTES } from "../harness/body.ts";
import { type Measured, numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds } from "../harness/rounds.ts";
import { profiling } from "./deliver.ts";

const HOLDFAST = { store: "sqlite", sealed: true, application: "emission" };
/** More than the store has of the youngest events in memory. */
const LATER = { events: 400, bytes: 60_000, perCommit: 10 };
/** Ten events to a commit is what 10,000 events/s over few streams come to. */
const PER_COMMIT = 10;

async function startServer(directory: string): Promise<{ readonly server: Peer; readonly port: number }> {
  const target = "targets/holdfast.ts";
  const server = await Peer.start(target, { core: "server", nodeOptions: profiling(target) });
  return { server, port: numberOf(await server.call("start", { directory, ...HOLDFAST }), "port") };
}

async function comeBack(rounds: Rounds, directory: string, isRestarted: boolean): Promise<Measured> {
  const events = rounds.size(10_000, 500);
  const load = await Peer.start("load/reconnect.ts", { core: "load" });
  let { server, port } = await startServer(directory);
  await load.call("visit", { port, stream: 0 });
  const stream = { name: streamNameOf(0), principal: apiKeyOf(0) };
  await server.call("fill", { ...stream, events, bytes: EVENT_BYTES, perCommit: PER_COMMIT });
  if (isRestarted) {
    // Or the next process would find the missed events in memory again.
    await load.call("visit", { port, stream: 1 });
    await server.call("fill", { name: streamNameOf(1), principal: apiKeyOf(1), ...LATER });
    await server.kill();
    ({ server, port } = await startServer(directory));
  }
  // Once to warm the code, which a server that has been up for a second has behind it.
  await load.call("comeBack", { port, events });
  await server.call("readDirectly", { ...stream, head: events });
  const back = await load.call("comeBack", { port, events });
  return { ...back, ...(await server.call("readDirectly", { ...stream, head: events })) };
}

/** What a client waits for when the server has just started: nothing is warm, nothing is cached. */
async function comeBackFirst(rounds: Rounds, directory: string): Promise<Measured> {
  const events = rounds.size(10_000, 500);
  const load = await Peer.start("load/reconnect.ts", { core: "load" });
  const before = await startServer(directory);
  await load.call("visit", { port: before.port, stream: 0 });
  const stream = { name: streamNameOf(0), principal: apiKeyOf(0) };
  await before.server.call("fill", { ...stream, events, bytes: EVENT_BYTES, perCommit: PER_COMMIT });
  await before.server.kill();
  const { port } = await startServer(directory);
  return load.call("comeBack", { port, events });
}

/**
 * The budget is about reading from a disk: a process that has just written the events has them in memory, sealed, and reading
 * them takes next to nothing beside a connection and an attach.
 */
function linesOf(results: Results, variant: string, label: string, isJudged: boolean): readonly Line[] {
  const line = (what: string, unit: string, name: string): Line => ({
    what: `${what}${label}`,
    unit,
    value: results.spread(variant, name),
  });
  const first = results.ratio(variant, variant, "firstMs", "readMs");
  return [
    {
      ...line("to the first event", "ms", "firstMs"),
      ratio: { to: "reading all from the store", value: first },
      ...(isJudged ? { budget: { text: "at most 2", met: first <= 2 } } : {}),
    },
    {
      ...line("to the last event", "ms", "lastMs"),
      ratio: {
        to: "reading all from the store",
        value: results.ratio(variant, variant, "lastMs", "readMs"),
      },
    },
    line("replayed", "MB/s", "megabytesPerSecond"),
    line("reading all from the store", "ms", "readMs"),
  ];
}

export const reconnect: Row = {
  name: "reconnect",
  title: "coming back with 10,000 missed events of 150 bytes, on a new connection",
  stepsPerRound: 3,
  async run(rounds) {
    const results = await rounds.run({
      same: (directory) => comeBack(rounds, directory, false),
      restarted: (directory) => comeBack(rounds, directory, true),
      first: (directory) => comeBackFirst(rounds, directory),
    });
    const value = results.spread("first", "firstMs");
    return {
      lines: [
        ...linesOf(results, "same", "", false),
        ...linesOf(results, "restarted", ", after a kill and a restart", true),
        { what: "to the first event, very first request of a new process", unit: "ms", value },
      ],
    };
  },
};
