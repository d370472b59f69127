/**
 * What an event costs when the log is long, and when there are many streams: processor time of the server's
 * whole process, store included.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Measured, numberOf } from "../harness/numbers.ts";
import { Peer } from "../harness/peer.ts";
import type { Line, Row } from "../harness/row.ts";
import type { Results, Rounds, Variant } from "../harness/rounds.ts";
import { profiling } from "./deliver.ts";

const HOLDFAST = { store: "sqlite", sealed: true, application: "emission" };
const WINDOW_EVENTS = 2_000;
/** Streams of the row on stream counts share connections by so many. */
const PER_CONNECTION = 50;

interface Rig {
  readonly server: Peer;
  readonly load: Peer;
}

async function rig(directory: string, streams: number, perConnection: number): Promise<Rig> {
  const target = "targets/holdfast.ts";
  const server = await Peer.start(target, { core: "server", nodeOptions: profiling(target) });
  const load = await Peer.start("load/delivery.ts", { core: "load" });
  const started = await server.call("start", { directory, ...HOLDFAST });
  await load.call("open", {
    protocol: "holdfast",
    streams,
    perConnection,
    port: numberOf(started, "port"),
    creditPort: numberOf(started, "creditPort"),
    creditEvery: 100,
  });
  return { server, load };
}

/** Where the windows begin: event numbers of one stream. */
const STARTS = [1_000, 10_000, 100_000, 500_000, 950_000];
const WINDOW = 50_000;

async function overLength(rounds: Rounds, directory: string): Promise<Measured> {
  const { server, load } = await rig(directory, 2, 1);
  const scale = rounds.size(1, 0.002);
  const warm = Math.round(200_000 * scale);
  const emit = async (total: number, only: number): Promise<void> => {
    await server.call("saturate", { windowEvents: WINDOW_EVENTS, total, only, eventsPerTurn: 20 });
    await load.call("until", { total });
  };
  // On another stream, so that compiling is over before the first window.
  await emit(warm, 0);
  const measured: Record<string, number> = {};
  for (const start of STARTS) {
    const from = warm + Math.round(start * scale);
    const through = from + Math.round(Math.min(WINDOW, start * 9) * scale);
    await emit(from, 1);
    await server.call("meter");
    await emit(through, 1);
    const { cpuMs = Number.NaN } = await server.call("metered");
    measured[`at${start}`] = (cpuMs * 1000) / (through - from);
  }
  return measured;
}

const COUNTS = [10, 100, 1_000, 10_000];
const PER_SECOND = 5_000;

/** At a steady rate, so that as many events share a commit whatever the number of streams. */
async function overStreams(rounds: Rounds, directory: string, streams: number): Promise<Measured> {
  const { server, load } = await rig(directory, streams, PER_CONNECTION);
  const measure = async (): Promise<{ cpuMs: number; events: number }> => {
    await server.call("meter");
    const { events = 0 } = await load.call("measure", { measureMs: rounds.size(5_000, 200) });
    return { cpuMs: numberOf(await server.call("metered"), "cpuMs"), events };
  };
  await sleep(rounds.size(1_000, 10));
  await server.call("pace", { perSecond: PER_SECOND });
  await sleep(rounds.size(3_000, 100));
  const paced = await measure();
  await server.call("pause");
  await sleep(rounds.size(500, 10));
  const idle = await measure();
  return {
    usPerEvent: ((paced.cpuMs - idle.cpuMs) * 1000) / paced.events,
    idleUsPerStreamSecond: (idle.cpuMs * 1000) / streams / (rounds.size(5_000, 200) / 1000),
  };
}

function linesOf(results: Results): readonly Line[] {
  const lengthLines = STARTS.map((start): Line => {
    const value = results.ratio("length", "length", `at${start}`, `at${STARTS[0]}`);
    return {
      what: `one stream, from event ${start.toLocaleString("en")} on`,
      unit: "us/event",
      value: results.spread("length", `at${start}`),
      ratio: { to: "from event 1,000 on", value },
      budget: { text: "at most 1.5", met: value <= 1.5 },
    };
  });
  const countLines = COUNTS.map((count): Line => {
    const value = results.ratio(`${count} streams`, `${COUNTS[0]} streams`, "usPerEvent");
    const idle = results.median(`${count} streams`, "idleUsPerStreamSecond");
    return {
      what: `${count.toLocaleString("en")} streams, ${PER_SECOND.toLocaleString("en")} events/s in all`,
      unit: "us/event",
      value: results.spread(`${count} streams`, "usPerEvent"),
      ratio: { to: "10 streams", value },
      budget: { text: "at most 1.5", met: value <= 1.5 },
      note: `beside it, an idle stream takes ${Math.round(idle)} us a second (heartbeats)`,
    };
  });
  return [...lengthLines, ...countLines];
}

export const flatness: Row = {
  name: "flatness",
  title: "processor time per event over the length of a stream, and over the number of streams",
  stepsPerRound: 1 + COUNTS.length,
  async run(rounds) {
    const variants: Record<string, Variant> = { length: (directory) => overLength(rounds, directory) };
    for (const count of COUNTS) {
      const streams = rounds.size(count, Math.max(2, count / 100));
      variants[`${count} streams`] = (directory) => overStreams(rounds, directory, streams);
    }
    return { lines: linesOf(await rounds.run(variants)) };
  },
};
