/**
 * Real clients, thousands of them in one process: `Client` over the HTTP/2 transport, with journals in
 * memory, so that what is measured is how they come back and not this machine's disk.
 */
import { apiKeyOf } from "../harness/names.ts";
import { serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn } from "../harness/numbers.ts";
import { percentile } from "../harness/statistics.ts";
import { Client } from "../../src/client/client.ts";
import type { ClientStream } from "../../src/client/stream.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import type { Connect } from "../../src/transport/transport.ts";
import { bounded } from "./readers.ts";

const STREAMS_PER_CLIENT = 50;

const streams: ClientStream[] = [];
let attempts = 0;
let failures = 0;
let upMs = Number.POSITIVE_INFINITY;
const liveAgain = new Map<ClientStream, number>();
let lostOnes = 0;

async function open(given: Arguments): Promise<Measured> {
  const url = `http://127.0.0.1:${numberIn(given, "port")}`;
  const sealing = nodeSealing();
  const clientCount = Math.ceil(numberIn(given, "streams") / STREAMS_PER_CLIENT);
  const clients = Array.from({ length: clientCount }, (_, at) => {
    const apiKey = apiKeyOf(at * STREAMS_PER_CLIENT);
    const { connect } = http2Connect({ url });
    return new Client({
      connect: counted(connect),
      sealing,
      homeKey: Buffer.alloc(32, at % 251),
      credentials: async () => apiKey,
    });
  });
  await bounded(numberIn(given, "streams"), 64, async (at) => {
    const client = clients[Math.floor(at / STREAMS_PER_CLIENT)];
    if (client === undefined) throw new Error("there is a client for every stream");
    const stream = await client.open();
    streams.push(stream);
    await live(stream);
    stream.watch(({ state }) => {
      if (state === "live") liveAgain.set(stream, performance.now());
      else liveAgain.delete(stream);
      if (state === "ended" || state === "fenced") lostOnes++;
    });
  });
  return { streams: streams.length };
}

function live(stream: ClientStream): Promise<void> {
  if (stream.status.state === "live") return Promise.resolve();
  return new Promise((resolve) => {
    const stop = stream.watch(({ state }) => {
      if (state !== "live") return;
      stop();
      resolve();
    });
  });
}

/** Counts what is tried, and what comes to nothing while the server is there. */
function counted(connect: Connect): Connect {
  return (meta, handler) => {
    attempts++;
    return connect(meta, {
      received: (frame) => {
        if (frame.kind === "error" && performance.now() > upMs) failures++;
        handler.received(frame);
      },
      drained: () => handler.drained(),
      closed: (reason) => handler.closed(reason),
    });
  };
}

/** From now on the server is gone. */
function down(): Measured {
  attempts = 0;
  failures = 0;
  liveAgain.clear();
  return {};
}

/** The server listens again: resolves when everybody is live. */
async function up(given: Arguments): Promise<Measured> {
  const attemptsDown = attempts;
  upMs = performance.now();
  const giveUpMs = upMs + numberIn(given, "giveUpMs");
  while (liveAgain.size < streams.length) {
    if (performance.now() > giveUpMs || lostOnes > 0) {
      throw new Error(
        `${streams.length - liveAgain.size} of ${streams.length} did not come back, ${lostOnes} for good`,
      );
    }
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
  const times = [...liveAgain.values()].map((ms) => Math.max(0, ms - upMs)).toSorted((a, b) => a - b);
  return {
    halfMs: percentile(times, 50),
    allMs: times.at(-1) ?? Number.NaN,
    attemptsPerClient: attempts / streams.length,
    attemptsUpPerClient: (attempts - attemptsDown) / streams.length,
    failures,
  };
}

serveCommands({ open, down, up });
