/**
 * Tabs that share one connection keep the contract of a transport, and survive the tab that carries it.
 */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { CHANNEL_VERSION, ownFrame } from "../../src/client/browser/tab-messages.ts";
import type { HoldfastError } from "../../src/protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import {
  type Accept,
  type AcceptedMeta,
  type Connect,
  type MemoryTransport,
  memoryTransport,
  type Wire,
} from "../../src/transport/index.ts";
import { transportConformance } from "../conformance/transport.ts";
import { until } from "../e2e/rig.ts";
import { NodeTabs } from "./node-tabs.ts";

const principalOf = (credentials: string | undefined): string | undefined => credentials;
const META = { idempotencyKey: "s", streamKey: new Uint8Array(32).fill(7), credentials: "alice" };
const heartbeat = (id: string): ClientFrame => ({ kind: "heartbeat", runningExecIds: [id] });
const ack = (seqno: number): ServerFrame => ({ kind: "ack", seqno });

let browsers = 0;
const newBrowser = (): NodeTabs => new NodeTabs(`https://test-${++browsers}`);

const used: NodeTabs[] = [];
after(() => {
  for (const tabs of used) tabs.close();
});

transportConformance("a connection carried by another tab", (accept) => {
  const transport = memoryTransport(accept, { principalOf });
  const tabs = newBrowser();
  used.push(tabs);
  tabs.open(transport.connect);
  const unreachable: Connect = () => assert.fail("the following tab connects by itself");
  const follower = tabs.open(unreachable);
  return {
    connect: follower.connect,
    settle: () => tabs.settle(),
    cut: () => {
      for (const connection of transport.connections) connection.cut();
    },
    congest: () => {
      for (const connection of transport.connections) connection.delay(3);
    },
  };
});

/** What a tab hears of one connection. */
class Heard {
  readonly frames: ServerFrame[] = [];
  closes: (HoldfastError | undefined)[] = [];
  received(frame: ServerFrame): void {
    this.frames.push(frame);
  }
  drained(): void {}
  closed(reason: HoldfastError | undefined): void {
    this.closes.push(reason);
  }
}

interface Served {
  readonly meta: AcceptedMeta;
  readonly wire: Wire<ServerFrame>;
  readonly frames: ClientFrame[];
  isClosed: boolean;
}

function serve(): { transport: (tab: string) => MemoryTransport; served: (Served & { tab: string })[] } {
  const served: (Served & { tab: string })[] = [];
  const acceptFor =
    (tab: string): Accept =>
    (meta, wire) => {
      const one = { tab, meta, wire, frames: new Array<ClientFrame>(), isClosed: false };
      served.push(one);
      return {
        received: (frame) => void one.frames.push(frame),
        drained: () => undefined,
        closed: () => (one.isClosed = true),
      };
    };
  return { transport: (tab) => memoryTransport(acceptFor(tab), { principalOf }), served };
}

test("three tabs: one connects for all, and each gets its own frames", async (t) => {
  const { transport, served } = serve();
  const tabs = newBrowser();
  t.after(() => tabs.close());
  const names = ["a", "b", "c"];
  const heard = names.map(() => new Heard());
  for (const [at, name] of names.entries()) {
    const tab = tabs.open(transport(name).connect);
    if (at === 0) await until(() => tab.shared.isLeading, "the first tab leads");
    const handler = heard[at];
    assert.ok(handler !== undefined);
    tab.connect({ ...META, idempotencyKey: name }, handler).write([heartbeat(name)]);
  }
  await until(
    () => served.length === 3 && served.every(({ frames }) => frames.length === 1),
    "all are there",
  );
  for (const [at, one] of served.entries()) {
    assert.equal(one.tab, "a", "the leader connects for everybody");
    assert.deepEqual(one.frames, [heartbeat(one.meta.idempotencyKey)]);
    one.wire.write([ack(at), ack(at + 1)]);
  }
  await tabs.settle();
  for (const [at, one] of served.entries()) {
    assert.deepEqual(heard[names.indexOf(one.meta.idempotencyKey)]?.frames, [ack(at), ack(at + 1)]);
  }
});

test("B6: when the leading tab goes away, what it carried is lost and the next tab leads", async (t) => {
  const { transport, served } = serve();
  const tabs = newBrowser();
  t.after(() => tabs.close());
  const leader = tabs.open(transport("leader").connect);
  await until(() => leader.shared.isLeading, "it leads");
  const [second, third] = [tabs.open(transport("second").connect), tabs.open(transport("third").connect)];
  const heard = [new Heard(), new Heard()] as const;
  second.connect(META, heard[0]);
  third.connect(META, heard[1]);
  await until(() => served.length === 2, "both are connected");
  leader.close();
  await until(() => heard.every(({ closes }) => closes.length === 1), "both have lost their connection");
  for (const { closes } of heard) assert.equal(closes[0]?.code, "connection_lost");
  await until(() => second.shared.isLeading || third.shared.isLeading, "one of them leads");

  const again = [new Heard(), new Heard()] as const;
  second.connect(META, again[0]).write([heartbeat("2")]);
  third.connect(META, again[1]).write([heartbeat("3")]);
  await until(() => served.length === 4, "both are connected again");
  assert.deepEqual(new Set(served.slice(2).map(({ tab }) => tab)).size, 1, "through one tab");
});

test("a tab that is closed leaves no connection behind", async (t) => {
  const { transport, served } = serve();
  const tabs = newBrowser();
  t.after(() => tabs.close());
  const leader = tabs.open(transport("leader").connect);
  await until(() => leader.shared.isLeading, "it leads");
  const tab = tabs.open(transport("other").connect);
  tab.connect(META, new Heard());
  await until(() => served.length === 1, "it is connected");
  // Says nothing, as a tab that crashes: only its lock becomes free.
  tab.isFrozen = true;
  tab.close();
  await until(() => served[0]?.isClosed === true, "the leader has ended its connection");
});

test("F4: a leader that does not answer is not waited for, and is used again when it does", async (t) => {
  const { transport, served } = serve();
  const tabs = newBrowser();
  t.after(() => tabs.close());
  const leader = tabs.open(transport("leader").connect);
  await until(() => leader.shared.isLeading, "it leads");
  const tab = tabs.open(transport("other").connect, 5);
  const before = new Heard();
  tab.connect(META, before);
  await until(() => served.length === 1, "it is connected");
  leader.isFrozen = true;
  await until(() => before.closes.length === 1, "the silence is noticed");
  assert.equal(before.closes[0]?.code, "connection_lost");
  tab.connect(META, new Heard());
  await until(() => served.length === 2, "it has connected by itself");
  assert.deepEqual(
    served.map((one) => one.tab),
    ["leader", "other"],
  );
  leader.isFrozen = false;
  tab.connect(META, new Heard());
  await until(() => served.length === 3, "once more by itself, and asks the leader meanwhile");
  await tabs.settle();
  tab.connect(META, new Heard());
  await until(() => served.length === 4, "connected again");
  assert.equal(served[3]?.tab, "leader");
});

test("F4: a tab that begins while the leader is frozen connects by itself", async (t) => {
  const { transport, served } = serve();
  const tabs = newBrowser();
  t.after(() => tabs.close());
  const leader = tabs.open(transport("leader").connect);
  await until(() => leader.shared.isLeading, "it leads");
  leader.isFrozen = true;
  const tab = tabs.open(transport("other").connect, 5);
  const heard = new Heard();
  tab.connect(META, heard).write([heartbeat("1")]);
  await until(() => served[0]?.frames.length === 1, "it has connected by itself");
  assert.equal(served[0]?.tab, "other");
  served[0]?.wire.write([ack(1)]);
  await until(() => heard.frames.length === 1, "and is answered");
});

test("a tab gets its own bytes of a body, not the buffer that the body is a view of", () => {
  const buffer = new Uint8Array(1_000);
  const body = buffer.subarray(10, 13);
  const event = ownFrame({ kind: "event", eventId: 1, body, end: undefined });
  assert.equal(event.body.buffer.byteLength, 3);
  assert.equal(ownFrame({ kind: "chunk", seqno: 0, writerEpoch: 1, body }).body.buffer.byteLength, 3);
});

test("the channel between tabs has a version of its own for this shape of frames", async () => {
  const source = await readFile(new URL("../../src/protocol/frames.ts", import.meta.url), "utf8");
  const shape = source.replaceAll(/\/\*\*[^]*?\*\//g, "").replaceAll(/\s+/g, " ");
  // Tabs hand each other frames as they are. When their shape changes: raise CHANNEL_VERSION, and put the new hash here.
  assert.equal(`${CHANNEL_VERSION} ${hash("sha256", shape).slice(0, 16)}`, "2 840716cbfabb4ee2");
});
