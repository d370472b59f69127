/** Clients and an application that read the same log after a restart. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Client } from "../../src/client/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer } from "../../src/server/index.ts";
import { MemoryLog, openLogStreamStore, type StreamStore } from "../../src/store/index.ts";
import { memoryTransport, systemEnvironment } from "../../src/transport/index.ts";
import { bytes, HOME_KEY, PRINCIPAL, until } from "../e2e/rig.ts";

const LONG = 600;

/** A clock that stands still: however slow the machine is, nothing is late. */
const environment = { ...systemEnvironment(), now: () => 0, monotonic: () => 0 };

/** A server over this store and a client of it; `written`: events that the server has given to connections. */
function started(t: TestContext, store: StreamStore, application: Application) {
  const bugs: unknown[] = [];
  const onBug = (bug: unknown): void => void bugs.push(bug);
  const server = createServer({ store, sealing: nodeSealing(), application, environment, onBug });
  const seen = { written: 0 };
  const transport = memoryTransport(
    (meta, wire) =>
      server.accept(meta, {
        write: (frames) => {
          seen.written += frames.filter(({ kind }) => kind === "event").length;
          return wire.write(frames);
        },
        end: () => wire.end(),
      }),
    { principalOf: () => PRINCIPAL },
  );
  const client = new Client<Uint8Array>({
    connect: transport.connect,
    sealing: nodeSealing(),
    homeKey: HOME_KEY,
    onBug,
  });
  const close = async (): Promise<void> => {
    await client.close();
    await server.shutdown();
    assert.deepEqual(bugs, []);
  };
  t.after(close);
  return { client, close, seen };
}

for (const [events, what] of [
  [LONG, "a run that reads a long log back lets its clients read first"],
  [20, "a run reads a short log back at once"],
] as const) {
  test(what, async (t) => {
    const store = await openLogStreamStore(new MemoryLog(), { now: Date.now });
    let isSaid = false;
    const first = started(t, store, async (stream) => {
      for (let count = 0; count < events; count++) await stream.emit(bytes("word"));
      isSaid = true;
      await new Promise((resolve) => stream.signal.addEventListener("abort", resolve));
    });
    const { idempotencyKey } = await first.client.open({ first: bytes("go") });
    await until(() => isSaid, "all is said");
    await first.close();
    let [past, writtenBefore] = [0, -1];
    const second = started(t, store, async (stream) => {
      for await (const _ of stream.past()) if (past++ === 0) writtenBefore = second.seen.written;
    });
    await second.client.follow(idempotencyKey);
    await until(() => past === events, "the run has read its log");
    assert.equal(writtenBefore, events === LONG ? events : 0);
  });
}
