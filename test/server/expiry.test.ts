/**
 * The end of a stream's time (A7, D7) beside everything else that may happen to it at that moment: a connection that asks
 * for it, another node that runs it. Servers on one store in memory; time passes, and sweeps come, when a test says so.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { AttachFrame, ServerFrame } from "../../src/protocol/frames.ts";
import { PROTOCOL_VERSION } from "../../src/protocol/limits.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { MemoryLog, openLogStreamStore, type StreamStore } from "../../src/store/index.ts";
import { systemEnvironment } from "../../src/transport/index.ts";
import { created, streamName } from "../conformance/stream-fixtures.ts";
import { bytes, turn, until } from "../e2e/rig.ts";

const RETENTION = { retentionMs: 1_000, tombstoneMs: 1e9 };
/** No other timer of a server is set for so long. */
const SWEEP_MS = 123_456_789;
const NAME = { principal: "alice", idempotencyKey: "0123456789abcdef0123456789abcdef" };
const META = { ...NAME, streamKey: new Uint8Array(32).fill(3) };

/** The store of a test and its clock. */
async function openStore(): Promise<{ store: StreamStore; clock: { nowMs: number } }> {
  const clock = { nowMs: 1_000_000 };
  const log = new MemoryLog({ durability: "fsync" });
  return { store: await openLogStreamStore(log, { now: () => clock.nowMs }), clock };
}

interface Node {
  readonly server: Server;
  /** One sweep, to its end. */
  sweep(): Promise<void>;
  /** What a new connection hears; it stays open. */
  attach(frame: Partial<AttachFrame>): readonly ServerFrame[];
}

function startNode(t: TestContext, store: StreamStore, hostId: string, aheadMs = 0): Node {
  const system = systemEnvironment();
  let sweep = (): void => undefined;
  let isSwept = false;
  const server = createServer({
    store: {
      ...store,
      // What a sweep does last.
      tidy: async (quietSinceMs) => {
        await store.tidy(quietSinceMs);
        isSwept = true;
      },
    },
    sealing: nodeSealing(),
    application: () => new Promise(() => undefined),
    hostId,
    sweepIntervalMs: SWEEP_MS,
    host: { retention: RETENTION },
    environment: {
      ...system,
      now: () => system.now() + aheadMs,
      after(delayMs, run) {
        if (delayMs !== SWEEP_MS) return system.after(delayMs, run);
        sweep = run;
        return () => undefined;
      },
    },
  });
  t.after(() => server.shutdown());
  return {
    server,
    async sweep() {
      isSwept = false;
      sweep();
      await until(() => isSwept, "a sweep ends");
    },
    attach(frame) {
      const heard: ServerFrame[] = [];
      const wire = {
        write: (frames: readonly ServerFrame[]) => (heard.push(...frames), 0),
        end: () => undefined,
      };
      server.accept(META, wire).received({
        kind: "attach",
        protocolVersion: PROTOCOL_VERSION,
        mode: "resume",
        role: "reader",
        eventId: 0,
        journalId: "",
        firstChunk: undefined,
        fresh: false,
        abort: false,
        ...frame,
      });
      return heard;
    },
  };
}

const OPEN = {
  mode: "open",
  role: "writer",
  journalId: "0123456789abcdef",
  firstChunk: bytes("hello"),
  fresh: true,
} as const;

const kinds = (heard: readonly ServerFrame[]): readonly string[] =>
  heard.map((frame) => (frame.kind === "error" ? frame.code : frame.kind));

test("A7: a stream that a connection is about to get does not expire under it", async (t) => {
  const { store, clock } = await openStore();
  const first = startNode(t, store, "a");
  const opened = first.attach(OPEN);
  await until(() => opened.length > 0, "the stream is made");
  await first.server.shutdown();

  const gate = Promise.withResolvers<void>();
  const second = startNode(
    t,
    {
      ...store,
      readChunks: async (...args) => {
        await gate.promise;
        return store.readChunks(...args);
      },
    },
    "a",
  );
  clock.nowMs += 2_000;
  const heard = second.attach({});
  await turn();
  await second.sweep();
  gate.resolve();
  await until(() => heard.length > 0, "it is answered");
  assert.equal(heard[0]?.kind, "welcome");
  assert.equal((await store.load(NAME)).kind, "live");
});

test("A7: while the tombstone is on its way to the disk, a connection that asks for the stream waits, and hears that it is gone", async (t) => {
  const { store, clock } = await openStore();
  const first = startNode(t, store, "a");
  const opened = first.attach(OPEN);
  await until(() => opened.length > 0, "the stream is made");
  await first.server.shutdown();

  const gate = Promise.withResolvers<void>();
  let isGone = false;
  const second = startNode(
    t,
    {
      ...store,
      expire: async (...args) => {
        const expired = await store.expire(...args);
        isGone = true;
        await gate.promise;
        return expired;
      },
    },
    "a",
  );
  const reader = second.attach({});
  await until(() => reader.length > 0, "a reader is welcomed");
  clock.nowMs += 2_000;
  const swept = second.sweep();
  await until(() => isGone, "the tombstone is durable");
  const late = second.attach({});
  await turn();
  assert.deepEqual(kinds(late), []);
  gate.resolve();
  await swept;
  await until(() => late.length > 0, "it is answered");
  assert.deepEqual(kinds(late), ["stream_gone"]);
  assert.equal(kinds(reader).at(-1), "unavailable");
});

test("D7: a stream whose writer is attached to another node does not expire, however quiet it is", async (t) => {
  const { store, clock } = await openStore();
  const host = startNode(t, store, "a");
  const opened = host.attach(OPEN);
  await until(() => opened.length > 0, "the stream is made");
  clock.nowMs += 2_000;
  const other = startNode(t, store, "b");
  await other.sweep();
  assert.equal((await store.load(NAME)).kind, "live");
  await host.sweep();
  assert.equal((await store.load(NAME)).kind, "live");

  await host.server.shutdown();
  await other.sweep();
  assert.equal((await store.load(NAME)).kind, "gone");
});

test("D7: one sweep ends all streams whose time is over, however many there are, and shares the commits", async (t) => {
  const { store, clock } = await openStore();
  const names = Array.from({ length: 2_100 }, (_, at) => streamName(`s${at}`));
  for (const name of names) await store.release(name, (await created(store, name)).hostEpoch);
  let [asked, most] = [0, 0];
  const counting: StreamStore = {
    ...store,
    async claim(...args) {
      most = Math.max(most, ++asked);
      const claimed = await store.claim(...args);
      asked--;
      return claimed;
    },
  };
  clock.nowMs += 2_000;
  await startNode(t, counting, "a").sweep();
  for (const name of names) assert.equal((await store.load(name)).kind, "gone");
  assert.ok(most > 10, `${most} at once`);
});

test("D7: the store's clock says which streams have expired, whatever the clock of a node says", async (t) => {
  const { store, clock } = await openStore();
  const name = streamName("s");
  await store.release(name, (await created(store, name)).hostEpoch);
  const node = startNode(t, store, "a", 3_600_000);
  await node.sweep();
  assert.equal((await store.load(name)).kind, "live");
  clock.nowMs += 2_000;
  await node.sweep();
  assert.equal((await store.load(name)).kind, "gone");
});
