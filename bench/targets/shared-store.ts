/**
 * One node's store under load, for the row on PostgreSQL: commits of many streams at once, plain batches of `INSERT`, and two nodes of production parts of which one runs a
 * stream and the other serves its reader.
 */
import { Client as Driver } from "pg";
import { eventBody, nowUs } from "../harness/body.ts";
import { busyMeter, serveCommands } from "../harness/child.ts";
import { type Arguments, type Measured, numberIn, textIn } from "../harness/numbers.ts";
import { percentile } from "../harness/statistics.ts";
import { Client } from "../../src/client/index.ts";
import type { StreamState } from "../../src/core/stream-state.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import type { ApplicationStream } from "../../src/server/application.ts";
import { createServer } from "../../src/server/server.ts";
import { openSqliteStore } from "../../src/store/index.ts";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import type { StreamStore } from "../../src/store/stream-store.ts";
import { memoryTransport } from "../../src/transport/index.ts";

const PRINCIPAL = "bench";
/** So many events share a commit of a stream, as deltas do while the disk is busy. */
const EVENTS_PER_COMMIT = 4;
const LEASE_MS = 600_000;
let store: StreamStore | undefined;
let groups = 0;

async function start(given: Arguments): Promise<Measured> {
  if (textIn(given, "store") === "sqlite") {
    store = (await openSqliteStore(textIn(given, "directory"), { now: Date.now })).streams;
  } else {
    const onGroup = (): void => void groups++;
    store = (await openPostgresStore(textIn(given, "url"), { onGroup })).streams;
  }
  return {};
}

/** Each of so many streams has one commit under way, all the time. */
async function commits(given: Arguments): Promise<Measured> {
  const sealed = eventBody(numberIn(given, "bytes") * EVENTS_PER_COMMIT);
  const prefix = textIn(given, "prefix");
  const timesUs: number[] = [];
  const over = new AbortController();
  let count = 0;
  const one = async (at: number): Promise<void> => {
    if (store === undefined) throw new Error("not started");
    const name = { principal: PRINCIPAL, idempotencyKey: `${prefix}-${at}` };
    const host = { hostId: prefix, leaseMs: LEASE_MS };
    const made = await store.create({ name, keyCheck: new Uint8Array(32), host });
    if (made.kind !== "committed") throw new Error(`the stream is ${made.kind}`);
    let { state }: { state: StreamState } = made;
    while (!over.signal.aborted) {
      const { hostEpoch, nextSeqno, eventHead } = state;
      const events = { first: eventHead + 1, count: EVENTS_PER_COMMIT, sealed };
      const expected = { hostEpoch, nextSeqno, eventHead };
      const beganUs = nowUs();
      const result = await store.commit({ name, expected, chunks: undefined, events, change: {} });
      if (result.kind !== "committed") throw new Error(`the commit is a ${result.kind}`);
      timesUs.push(nowUs() - beganUs);
      ({ state } = result);
      count++;
    }
  };
  const all = Promise.all(Array.from({ length: numberIn(given, "streams") }, (_, at) => one(at)));
  await pause(numberIn(given, "warmMs"));
  timesUs.length = 0;
  const [before, groupsBefore, beganMs, busy] = [count, groups, performance.now(), busyMeter()];
  await pause(numberIn(given, "measureMs"));
  const seconds = (performance.now() - beganMs) / 1000;
  const [commitsDone, groupsDone, used] = [count - before, groups - groupsBefore, busy()];
  over.abort();
  await all;
  const sorted = Float64Array.from(timesUs).toSorted();
  return {
    perSecond: (commitsDone * EVENTS_PER_COMMIT) / seconds,
    rowsPerSecond: commitsDone / seconds,
    perGroup: commitsDone / Math.max(1, groupsDone),
    commitP50: percentile(sorted, 50) / 1000,
    commitP99: percentile(sorted, 99) / 1000,
    usPerCommit: (numberOr(used["cpuMs"]) * 1000) / Math.max(1, commitsDone),
  };
}

/** As many rows of as many bytes in a transaction, and nothing else: what no store over `pg` can be faster than. */
async function plain(given: Arguments): Promise<Measured> {
  const driver = new Driver({ connectionString: textIn(given, "url") });
  await driver.connect();
  await driver.query(
    "CREATE TABLE IF NOT EXISTS plain (stream bigint, first bigint, bytes bytea, PRIMARY KEY (stream, first))",
  );
  const streams = numberIn(given, "streams");
  const sealed = Buffer.from(eventBody(numberIn(given, "bytes") * EVENTS_PER_COMMIT));
  const ids = Array.from({ length: streams }, (_, at) => at);
  const bodies = ids.map(() => sealed);
  let first = 0;
  const batch = async (): Promise<void> => {
    await driver.query({
      name: "plain",
      text: "INSERT INTO plain SELECT s, $2, b FROM unnest($1::bigint[], $3::bytea[]) AS t(s, b)",
      values: [ids, first++, bodies],
    });
  };
  const until = performance.now() + numberIn(given, "warmMs");
  while (performance.now() < until) await batch();
  const beganMs = performance.now();
  let count = 0;
  while (performance.now() < beganMs + numberIn(given, "measureMs")) {
    await batch();
    count += streams;
  }
  const seconds = (performance.now() - beganMs) / 1000;
  await driver.query("DROP TABLE plain");
  await driver.end();
  return { perSecond: (count * EVENTS_PER_COMMIT) / seconds };
}

/** Behind the commit: from when an event is durable at the node that runs its stream to its arrival at a reader, there or at the other node. */
async function behind(given: Arguments): Promise<Measured> {
  const url = textIn(given, "url");
  const here = await openPostgresStore(url, { isRinging: true });
  const there = await openPostgresStore(url, { isRinging: true });
  const begun = Promise.withResolvers<ApplicationStream>();
  const nodes = [here, there].map(({ streams, letters }, at) => {
    const server = createServer({
      store: streams,
      letters,
      hostId: `node-${at}`,
      sealing: nodeSealing(),
      application: async (stream) => {
        begun.resolve(stream);
        await new Promise((resolve) => stream.signal.addEventListener("abort", resolve));
      },
    });
    const { connect } = memoryTransport(server.accept, { principalOf: () => PRINCIPAL });
    const homeKey = new Uint8Array(32).fill(1);
    return { server, client: new Client({ connect, sealing: nodeSealing(), homeKey, journals: "none" }) };
  });
  const [own, other] = nodes;
  if (own === undefined || other === undefined) throw new Error("there are two nodes");
  const stream = await own.client.open({ first: new Uint8Array(1) });
  const app = await begun.promise;
  const body = eventBody(numberIn(given, "bytes"));
  // The other node can have it from now on.
  const first = await app.emit(body);
  const reader = await (given["elsewhere"] === true ? other : own).client.follow(stream.idempotencyKey);
  const arrivedUs = new Map<number, number>();
  const events = numberIn(given, "events");
  const last = first + events;
  const reading = (async () => {
    for await (const { eventId } of reader.events) {
      arrivedUs.set(eventId, nowUs());
      if (eventId >= last) return;
    }
  })();
  const durableUs = new Map<number, number>();
  for (let at = 0; at < events; at++) {
    const eventId = await app.emit(body);
    durableUs.set(eventId, nowUs());
    await pause(numberIn(given, "everyMs"));
  }
  await reading;
  const lateUs = [...durableUs].map(([id, us]) => (arrivedUs.get(id) ?? Number.NaN) - us);
  const sorted = Float64Array.from(lateUs).toSorted();
  await Promise.all(nodes.map(({ client }) => client.close()));
  await Promise.all(nodes.map(({ server }) => server.shutdown()));
  await Promise.all([here.close(), there.close()]);
  return { p50: Math.max(0.001, percentile(sorted, 50) / 1000), p99: percentile(sorted, 99) / 1000 };
}

function numberOr(value: number | undefined): number {
  return value ?? Number.NaN;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

serveCommands({ start, commits, plain, behind });
