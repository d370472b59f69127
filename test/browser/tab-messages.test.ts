/**
 * A message between tabs that has another shape changes nothing: it comes from another version of the page, or from code that is not ours.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { BroadcastChannel } from "node:worker_threads";
import {
  CHANNEL_VERSION,
  isToLeader,
  isToTab,
  type ToLeader,
  type ToTab,
} from "../../src/client/browser/tab-messages.ts";
import type { HoldfastError } from "../../src/protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import { memoryTransport, type Wire } from "../../src/transport/index.ts";
import { until } from "../e2e/rig.ts";
import { clientFrames, serverFrames } from "../protocol/fixtures/stream-messages.ts";
import { NodeTabs } from "./node-tabs.ts";

const STREAM_KEY = new Uint8Array(32).fill(7);
const CLIENT_FRAMES = Object.values(clientFrames);
const SERVER_FRAMES = Object.values(serverFrames);
const META = { idempotencyKey: "s", streamKey: STREAM_KEY, credentials: "alice" };
const conversation = { key: STREAM_KEY, keepMs: 60_000 };

const TO_LEADER: readonly ToLeader[] = [
  { kind: "ping", tab: "t" },
  { kind: "open", tab: "t", connection: 1, meta: { ...META, conversation } },
  { kind: "frames", tab: "t", connection: 1, frames: CLIENT_FRAMES },
  { kind: "end", tab: "t", connection: 1 },
];
const reason = { code: "unavailable", message: "later", retryAfterMs: 7 } as const;
const TO_TAB: readonly ToTab[] = [
  { kind: "here", leader: "l" },
  { kind: "frames", leader: "l", connection: 1, frames: SERVER_FRAMES },
  { kind: "taken", leader: "l", connection: 1, bytes: 12 },
  { kind: "closed", leader: "l", connection: 1, reason },
];

/** What may be left out. */
const OPTIONAL = new Set(["conversation", "credentials", "reason", "retryAfterMs", "firstChunk", "end"]);

/** What a channel carries, and no field of ours may hold, unless it is a text or yes and no. */
const STRANGE: readonly unknown[] = [
  null,
  true,
  "x",
  0.5,
  -1,
  2 ** 53,
  7n,
  new Map(),
  new ArrayBuffer(4),
  new Error("x"),
  /x/,
  new Date(0),
];

/** The message with one field changed at a time, at any depth. */
function* changesOf(message: object): Generator<{ what: string; changed: object }> {
  const fields: [string, unknown][] = Object.entries(message);
  const withField = (name: string, value: unknown): object => ({ ...message, [name]: value });
  for (const [name, value] of fields) {
    if (!OPTIONAL.has(name))
      yield { what: `no ${name}`, changed: Object.fromEntries(fields.filter(([other]) => other !== name)) };
    for (const strange of STRANGE) {
      const isAllowed = typeof strange === typeof value && ["string", "boolean"].includes(typeof value);
      if (!isAllowed) yield { what: `${name} is ${String(strange)}`, changed: withField(name, strange) };
    }
    if (Array.isArray(value)) {
      const items: readonly unknown[] = value;
      for (const strange of [undefined, null, 7])
        yield { what: `${name} has ${String(strange)}`, changed: withField(name, [...items, strange]) };
    } else if (typeof value === "object" && value !== null && !(value instanceof Uint8Array)) {
      for (const { what, changed } of changesOf(value))
        yield { what: `${name}: ${what}`, changed: withField(name, changed) };
    }
  }
}

test("messages between tabs are what they should be, over the channel too", () => {
  for (const message of TO_LEADER) assert.ok(isToLeader(structuredClone(message)), message.kind);
  for (const message of TO_TAB) assert.ok(isToTab(structuredClone(message)), message.kind);
  assert.ok(isToTab({ kind: "closed", leader: "l", connection: 1, reason: undefined }));
  assert.ok(isToTab({ kind: "here", leader: "l", news: "of a newer page" }), "more than we know is no harm");
});

test("a message between tabs with any field that is absent or something else is none", () => {
  let changes = 0;
  for (const [messages, isOurs] of [
    [TO_LEADER, isToLeader],
    [TO_TAB, isToTab],
  ] as const)
    for (const message of messages)
      for (const { what, changed } of changesOf(message)) {
        changes++;
        assert.ok(!isOurs(structuredClone(changed)), `${message.kind}: ${what}`);
      }
  assert.ok(changes > 250, `${changes} changes`);
  for (const other of [
    undefined,
    null,
    "here",
    7,
    [],
    {},
    { kind: "constructor" },
    { kind: "__proto__" },
    { kind: 1 },
  ]) {
    assert.ok(!isToLeader(other) && !isToTab(other), JSON.stringify(other));
  }
});

interface Scene {
  readonly tabs: NodeTabs;
  readonly served: { readonly wire: Wire<ServerFrame>; readonly frames: ClientFrame[]; isClosed: boolean }[];
  readonly heard: { readonly frames: ServerFrame[]; readonly closes: (HoldfastError | undefined)[] };
  readonly write: (frame: ClientFrame) => void;
  /** As any document of this origin could. */
  readonly post: (channel: string, message: unknown) => void;
  readonly leader: string;
  readonly tab: string;
}

/** A tab whose connection another tab carries, and a stranger who knows the channels and the names of both. */
async function scene(t: TestContext): Promise<Scene> {
  const served: Scene["served"] = [];
  const { connect } = memoryTransport(
    (_, wire) => {
      const one = { wire, frames: new Array<ClientFrame>(), isClosed: false };
      served.push(one);
      return {
        received: (frame) => void one.frames.push(frame),
        drained: () => undefined,
        closed: () => (one.isClosed = true),
      };
    },
    { principalOf: (credentials) => credentials },
  );
  const tabs = new NodeTabs(`https://strange-${t.name}`);
  const base = `holdfast/${CHANNEL_VERSION}/${tabs.url}`;
  const channels = new Map<string, BroadcastChannel>();
  const channelOf = (name: string): BroadcastChannel => {
    const channel = channels.get(name) ?? new BroadcastChannel(`${base}/${name}`);
    channels.set(name, channel);
    return channel;
  };
  t.after(() => {
    tabs.close();
    for (const channel of channels.values()) channel.close();
  });
  const names = { leader: "", tab: "" };
  channelOf("leader").addEventListener("message", (event: Event) => {
    const data: unknown = Reflect.get(event, "data");
    if (isToLeader(data) && data.kind === "open") names.tab = data.tab;
  });
  channelOf("all").addEventListener("message", (event: Event) => {
    const data: unknown = Reflect.get(event, "data");
    if (isToTab(data)) names.leader = data.leader;
  });
  const leading = tabs.open(connect);
  await until(() => leading.shared.isLeading, "the first tab leads");
  const heard: Scene["heard"] = { frames: [], closes: [] };
  const wire = tabs
    .open(() => assert.fail("the following tab connects by itself"))
    .connect(META, {
      received: (frame) => void heard.frames.push(frame),
      drained: () => undefined,
      closed: (why) => void heard.closes.push(why),
    });
  await until(() => served.length === 1 && names.leader !== "" && names.tab !== "", "all know each other");
  return {
    tabs,
    served,
    heard,
    ...names,
    write: (frame) => void wire.write([frame]),
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- it is no window
    post: (channel, message) => channelOf(channel).postMessage(message),
  };
}

test("messages of another shape do no harm to a connection that another tab carries", async (t) => {
  const { tabs, served, heard, write, post, leader, tab } = await scene(t);
  for (const message of TO_LEADER)
    for (const { changed } of changesOf({ ...message, tab })) post("leader", changed);
  for (const message of TO_TAB)
    for (const { changed } of changesOf({ ...message, leader }))
      for (const channel of ["all", `tab/${tab}`]) post(channel, changed);
  await tabs.settle();
  assert.equal(served.length, 1, "no connection was opened");
  assert.deepEqual([served[0]?.isClosed, served[0]?.frames, heard.frames, heard.closes], [false, [], [], []]);
  write({ kind: "heartbeat", runningExecIds: ["1"] });
  await until(() => served[0]?.frames.length === 1, "the connection carries what the tab says");
  served[0]?.wire.write([{ kind: "ack", seqno: 3 }]);
  await until(() => heard.frames.length === 1, "and what the server says");
});

/** A frame of each kind with one field changed. */
const notFrames = (frames: readonly object[]): object[] =>
  frames.flatMap((frame) => [...changesOf(frame)].map(({ changed }) => changed));

test("E8: a frame between tabs that is none closes its connection alone, and reaches no server and no stream", async (t) => {
  const { tabs, served, heard, post, leader, tab } = await scene(t);
  // As the first version of these messages had them: bytes.
  const strangers = [...notFrames(CLIENT_FRAMES), new Uint8Array(3), { kind: "said" }, {}];
  for (const [at, frame] of strangers.entries()) {
    const of = { tab, connection: 100 + at };
    post("leader", { ...of, kind: "open", meta: META });
    post("leader", { ...of, kind: "frames", frames: [frame] });
  }
  await until(() => served.filter(({ isClosed }) => isClosed).length === strangers.length, "each is closed");
  assert.equal(served.length, strangers.length + 1);
  assert.ok(
    served.every(({ frames }) => frames.length === 0),
    "no server got one",
  );
  assert.deepEqual([served[0]?.isClosed, heard.closes], [false, []], "the tab's own is untouched");

  post(`tab/${tab}`, { kind: "frames", leader, connection: 1, frames: [{ kind: "ack", seqno: "3" }] });
  await until(() => heard.closes.length === 1, "the connection of a frame that is none is closed");
  assert.deepEqual([heard.closes[0]?.code, heard.frames], ["invalid_frame", []]);
  await tabs.settle();
  await until(() => served[0]?.isClosed === true, "at the server too");
});
