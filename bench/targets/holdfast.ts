/**
 * Holdfast as it is served: `createServer`, the SQLite store, sealing, `serveHttp`. Or, for comparison, over
 * the memory store and without sealing.
 */
import { eventBody, nowUs } from "../harness/body.ts";
import { serveCommands } from "../harness/child.ts";
import { type Arguments, flagIn, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { percentile } from "../harness/statistics.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import type { Application, ApplicationStream } from "../../src/server/application.ts";
import { serveHttp } from "../../src/server/http/index.ts";
import type { Authenticate } from "../../src/server/http/sign-in.ts";
import { createServer } from "../../src/server/server.ts";
import { memoryStreamStore, openSqliteStore } from "../../src/store/index.ts";
import type { StreamStore } from "../../src/store/stream-store.ts";
import { Emission } from "./emission.ts";
import { noSealing } from "./no-sealing.ts";

const emission = new Emission();
const streams = new Map<string, ApplicationStream>();
let store: StreamStore | undefined;
/** Microseconds; undefined while they are of no interest. */
let commitTimes: number[] | undefined;
let durableTimes: number[] | undefined;

async function start(given: Arguments): Promise<Measured> {
  const now = (): number => Date.now();
  store =
    textIn(given, "store") === "sqlite"
      ? (await openSqliteStore(textIn(given, "directory"), { now })).streams
      : await memoryStreamStore({ now });
  timeCommits(store);
  const server = createServer({
    store,
    sealing: flagIn(given, "sealed") ? nodeSealing() : noSealing,
    application: textIn(given, "application") === "echo" ? echo : emit,
  });
  const authenticate: Authenticate = async (apiKey) => {
    if (apiKey === undefined) throw new HoldfastError("unauthenticated", "an API key is needed");
    return { principal: apiKey };
  };
  const port = "port" in given ? numberIn(given, "port") : 0;
  const http = await serveHttp({ server, authenticate, port });
  return { port: http.port, creditPort: (await emission.listen()).port };
}

/** Gives the stream to the emission, and stays until it is over. */
const emit: Application = async (stream) => {
  streams.set(stream.idempotencyKey, stream);
  const remove = emission.add((body) => {
    const startedUs = nowUs();
    stream.emit(body).then(
      () => durableTimes?.push(nowUs() - startedUs),
      () => undefined,
    );
  });
  await new Promise((resolve) => {
    stream.signal.addEventListener("abort", resolve);
  });
  streams.delete(stream.idempotencyKey);
  remove();
};

const echo: Application = async (stream) => {
  for await (const input of stream.inputs) {
    if (input.kind === "chunk") stream.emit(input.body).catch(() => undefined);
  }
};

/** The store's own latency: from the call to its promise, its queue included. */
function timeCommits(timed: StreamStore): void {
  const commit = timed.commit.bind(timed);
  timed.commit = async (wanted) => {
    if (commitTimes === undefined) return commit(wanted);
    const startedUs = nowUs();
    const result = await commit(wanted);
    commitTimes?.push(nowUs() - startedUs);
    return result;
  };
}

function timed(): Measured {
  const commits = Float64Array.from(commitTimes ?? []).toSorted();
  const durable = Float64Array.from(durableTimes ?? []).toSorted();
  commitTimes = undefined;
  durableTimes = undefined;
  return {
    commitP50: percentile(commits, 50) / 1000,
    commitP99: percentile(commits, 99) / 1000,
    durableP50: percentile(durable, 50) / 1000,
    durableP99: percentile(durable, 99) / 1000,
  };
}

/** Puts events on one stream, so many in a commit. */
async function fill(given: Arguments): Promise<Measured> {
  const stream = streams.get(textIn(given, "name"));
  if (stream === undefined) throw new Error("the stream is not there");
  const body = eventBody(numberIn(given, "bytes"));
  const perCommit = numberIn(given, "perCommit");
  let head = 0;
  for (let left = numberIn(given, "events"); left > 0; left -= perCommit) {
    const emitted = Array.from({ length: Math.min(left, perCommit) }, () => stream.emit(body));
    head = Math.max(...(await Promise.all(emitted)));
  }
  return { head };
}

/** Reads a whole log from the store and leaves it sealed: what a replay cannot be faster than. */
async function readDirectly(given: Arguments): Promise<Measured> {
  const name = { principal: textIn(given, "principal"), idempotencyKey: textIn(given, "name") };
  const head = numberIn(given, "head");
  if (store === undefined) throw new Error("not started");
  const startedUs = nowUs();
  let bytes = 0;
  for (let next = 1; next <= head;) {
    const batches = await store.readEvents(name, next, READ_BYTES);
    const last = batches.at(-1);
    if (last === undefined) throw new Error("the log is shorter than it was");
    for (const { sealed } of batches) bytes += sealed.length;
    next = last.first + last.count;
  }
  return { readMs: (nowUs() - startedUs) / 1000, bytes };
}

/** As the server reads for a replay. */
const READ_BYTES = 256 * 1024;

serveCommands({
  ...emission.commands,
  start,
  fill,
  readDirectly,
  timed,
  time() {
    commitTimes = [];
    durableTimes = [];
    return {};
  },
});
