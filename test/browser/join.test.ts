/**
 * Tabs and one stream: who writes, who reads, and what becomes of it when a tab goes. In one process,
 * over the memory transport and Node's Web Locks; the same in a real browser is in `scenarios.test.ts`.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { BrowserClient } from "../../src/client/browser/browser-client.ts";
import type { Locks } from "../../src/client/browser/platform.ts";
import { onWakeUp } from "../../src/client/browser/wake-ups.ts";
import { webWriterLocks } from "../../src/client/browser/writer-locks.ts";
import { type ClientStream, memoryJournalStore } from "../../src/client/index.ts";
import { webSealing } from "../../src/sealing/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer } from "../../src/server/index.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import {
  type Connect,
  type Environment,
  memoryTransport,
  systemEnvironment,
} from "../../src/transport/index.ts";
import { bytes, HOME_KEY, rest, text, until } from "../e2e/rig.ts";

/** Node's types do not have it yet. */
declare const navigator: { readonly locks: Locks };

/** Says each chunk again; "end" is the end. */
const repeating: Application = async (stream) => {
  for await (const input of stream.inputs) {
    if (input.kind !== "chunk") continue;
    if (text(input.body) === "end") return;
    await stream.emit(input.body);
  }
};

let browsers = 0;

interface TabOptions {
  readonly environment?: Environment;
  readonly counting?: (connect: Connect) => Connect;
}

/** A browser: tabs that share journals and locks. */
async function browser(t: TestContext, host = {}): Promise<(options?: TabOptions) => BrowserClient> {
  const store = await openLogStreamStore(new MemoryLog({ durability: "fsync" }), { now: () => Date.now() });
  const server = createServer({ store, sealing: nodeSealing(), application: repeating, host });
  t.after(() => server.shutdown());
  const { connect } = memoryTransport(server.accept, { principalOf: () => "alice" });
  const journals = memoryJournalStore();
  const scope = `browser-${++browsers}`;
  return ({ environment = systemEnvironment(), counting = (same: Connect) => same }: TabOptions = {}) => {
    const writerLocks = webWriterLocks(navigator.locks, scope);
    const client = new BrowserClient(
      {
        connect: counting(connect),
        sealing: webSealing(),
        homeKey: HOME_KEY,
        journals,
        writerLocks,
        environment,
        stream: { heartbeatIntervalMs: 20 },
      },
      { writerLocks, shelf: undefined, release: () => undefined },
    );
    t.after(() => client.close());
    return client;
  };
}

async function firstEvent(stream: ClientStream): Promise<string> {
  const next = await stream.events.next();
  return next.done === true ? "none" : text(next.value.body);
}

test("D2: a second tab is told that the stream is another's, and cannot write to it", async (t) => {
  const tab = await browser(t);
  const writer = await tab().open();
  await writer.send(bytes("a"));
  const second = tab();
  await assert.rejects(second.resume(writer.idempotencyKey), { code: "busy", message: /another tab/ });
  assert.deepEqual((await second.resumeAll()).elsewhere, [
    { idempotencyKey: writer.idempotencyKey, holder: "another tab" },
  ]);
});

test("D2: of the tabs that joined, one goes on as the writer when the writing tab is gone", async (t) => {
  const tab = await browser(t);
  const first = tab();
  const { idempotencyKey } = await first.open({ first: bytes("a") });
  const roles: string[] = [];
  const streams: ClientStream[] = [];
  const joining = [1, 2].map(async (name) => {
    for await (const { role, stream } of tab().join(idempotencyKey)) {
      roles.push(`${name} ${role}`);
      streams.push(stream);
    }
  });
  await until(() => roles.length === 2, "both read");
  assert.deepEqual(roles.toSorted(), ["1 reader", "2 reader"]);
  await first.close();
  await until(() => roles.length === 3, "one writes");
  const writer = streams.at(-1);
  assert.ok(roles.at(-1)?.endsWith("writer") === true && writer !== undefined);
  await writer.send(bytes("b"));
  await writer.send(bytes("end"));
  assert.deepEqual(
    (await rest(writer)).map(({ body }) => text(body)),
    ["a", "b", ""],
  );
  await Promise.all(joining);
  assert.equal(roles.length, 3);
});

test("B6: a tab that joined reads to the end, although the writer has let go by then", async (t) => {
  const tab = await browser(t);
  const writer = await tab().open({ first: bytes("a") });
  const words: string[] = [];
  const roles: string[] = [];
  const joining = (async () => {
    for await (const { role, stream } of tab().join(writer.idempotencyKey)) {
      roles.push(role);
      for await (const { body } of stream.events) words.push(text(body));
    }
  })();
  await until(() => words.length === 1, "it reads");
  await writer.send(bytes("end"));
  assert.equal(await writer.ended, "completed");
  await joining;
  assert.deepEqual([roles, words], [["reader"], ["a", ""]]);
});

test("leaving the loop leaves the stream and the lock to others", async (t) => {
  const tab = await browser(t);
  const first = tab();
  const { idempotencyKey } = await first.open({ first: bytes("a") });
  for await (const { role } of tab().join(idempotencyKey)) {
    assert.equal(role, "reader");
    break;
  }
  await first.close();
  for await (const { role, stream } of tab().join(idempotencyKey)) {
    assert.equal(role, "writer");
    assert.equal(await firstEvent(stream), "a");
    break;
  }
  const last = tab();
  let resumed: ClientStream | undefined;
  await until(() => {
    if (resumed === undefined)
      void last.resume(idempotencyKey).then(
        (stream) => (resumed = stream),
        () => undefined,
      );
    return resumed !== undefined;
  }, "the lock is free again");
});

test("F4: a tab whose timers are held back still answers the server's heartbeats", async (t) => {
  const tab = await browser(t, { heartbeatIntervalMs: 20, clientSilenceMs: 1_000 });
  let isHidden = false;
  const environment: Environment = {
    ...systemEnvironment(),
    after: (delayMs, run) => systemEnvironment().after(isHidden ? 60_000 : delayMs, run),
  };
  let heartbeats = 0;
  const counting =
    (connect: Connect): Connect =>
    (meta, handler) =>
      connect(meta, {
        received: (frame) => {
          if (frame.kind === "heartbeat") heartbeats++;
          handler.received(frame);
        },
        drained: () => handler.drained(),
        closed: (reason) => handler.closed(reason),
      });
  const stream = await tab({ environment, counting }).open({ first: bytes("a") });
  await firstEvent(stream);
  const states: string[] = [];
  stream.watch(({ state }) => states.push(state));
  isHidden = true;
  // Several times the server's patience with a client that says nothing. A busy machine may keep this process waiting for a tenth of a second.
  await until(() => heartbeats > 150 || states.length > 0, "heartbeats for three seconds");
  assert.deepEqual(states, [], "the connection was never lost");
});

test("the network, a look and a page from the cache wake what waits; a hidden page does not", () => {
  const window = new EventTarget();
  const document = Object.assign(new EventTarget(), { visibilityState: "hidden" });
  let woken = 0;
  const stop = onWakeUp({ window, document }, () => woken++);
  window.dispatchEvent(new Event("online"));
  window.dispatchEvent(new Event("pageshow"));
  assert.equal(woken, 2);
  document.dispatchEvent(new Event("visibilitychange"));
  assert.equal(woken, 2);
  document.visibilityState = "visible";
  document.dispatchEvent(new Event("visibilitychange"));
  assert.equal(woken, 3);
  stop();
  for (const type of ["online", "pageshow"]) window.dispatchEvent(new Event(type));
  document.dispatchEvent(new Event("visibilitychange"));
  assert.equal(woken, 3);
});
