/** What a stream leaves to the garbage collector goes with the young objects: none of it waits for a collection of the old ones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Client } from "../../src/client/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { createServer } from "../../src/server/index.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { memoryTransport, systemEnvironment } from "../../src/transport/index.ts";
import { bytes, HOME_KEY, PRINCIPAL } from "../e2e/rig.ts";

const STREAMS = 200;
/** Streams between two collections of the young objects. */
const ROUND = 40;
/** Hung on each stream of the client. */
const MARK_BYTES = 64 * 1024;

setFlagsFromString("--expose-gc");
const gc: unknown = runInNewContext("gc");

function collect(how?: { readonly type: "minor" }): void {
  assert.ok(typeof gc === "function", "V8's own collector");
  Reflect.apply(gc, undefined, [how]);
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function young(): Promise<void> {
  await turn();
  await turn();
  collect({ type: "minor" });
}

test("F2: a client's streams that are over are collected with the young objects", async (t) => {
  const store = await openLogStreamStore(new MemoryLog(), { now: Date.now });
  const bugs: unknown[] = [];
  const onBug = (bug: unknown): void => void bugs.push(bug);
  const application = async (): Promise<void> => undefined;
  const sealing = nodeSealing();
  const server = createServer({ store, sealing, application, onBug });
  const transport = memoryTransport((meta, wire) => server.accept(meta, wire), {
    principalOf: () => PRINCIPAL,
    environment: systemEnvironment(),
  });
  const client = new Client({
    connect: transport.connect,
    sealing,
    homeKey: HOME_KEY,
    journals: "none",
    onBug,
  });
  t.after(async () => {
    await client.close();
    await server.shutdown();
    assert.deepEqual(bugs, []);
  });
  const run = async (): Promise<void> => {
    for (let at = 1; at <= STREAMS; at++) {
      const stream = await client.open({ first: bytes("go") });
      Object.assign(stream, { mark: Array.from({ length: MARK_BYTES / 8 }, () => at) });
      await stream.ended;
      if (at % ROUND === 0) await young();
    }
  };
  await run();
  collect();
  await run();
  for (let times = 0; times < 3; times++) await young();
  const before = process.memoryUsage().heapUsed;
  collect();
  const kept = (before - process.memoryUsage().heapUsed) / STREAMS;
  assert.ok(kept < MARK_BYTES / 4, `${Math.round(kept)} bytes of each stream wait for the old ones`);
});
