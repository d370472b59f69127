/**
 * Stalls end to end: each side names what stands still, says when it moves again, and counts.
 *
 * The server runs on a clock that the test moves. The client runs on the real one, with short stall clocks; the tests wait for what it
 * reports, however long that takes.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "../../src/protocol/message.ts";
import { stallLine, type StreamStallNews } from "../../src/client/index.ts";
import { writeExecUnknown } from "../../src/protocol/exec-codec.ts";
import { AgentClientMessageSchema, AgentServerMessageSchema } from "../../src/protocol/messages.ts";
import type { Application, TurnStallNews } from "../../src/server/index.ts";
import { MemoryLog } from "../../src/store/index.ts";
import { execRequest } from "./exec-messages.ts";
import { bytes, Rig, turn, until } from "./rig.ts";
import { NAME, OPEN, ScriptedHost, settle } from "./scripted-host.ts";

const TICK_MS = 5_000;
const EXEC = { id: 1, execId: "exec-1", toolCallId: "", kind: "shell" } as const;

const kvRequest = toBinary(
  AgentServerMessageSchema,
  create(AgentServerMessageSchema, {
    message: { case: "kvServerMessage", value: { id: 3, message: { case: "getBlobArgs", value: {} } } },
  }),
);
const kvAnswer = toBinary(
  AgentClientMessageSchema,
  create(AgentClientMessageSchema, { message: { case: "kvClientMessage", value: { id: 3 } } }),
);

/** Says what it was told to, once, and then waits for its client until that has closed. */
const asking =
  (...events: readonly Uint8Array[]): Application =>
  async (stream) => {
    let said = 0;
    for await (const _ of stream.past()) said++;
    for (const event of events.slice(said)) await stream.emit(event);
    for await (const input of stream.inputs) if (input.kind === "close") return;
  };

/** Lets time pass as a server that is awake sees it; the client lives meanwhile, and names these execs. */
async function pass(
  host: ScriptedHost,
  ms: number,
  client?: { write: (frames: readonly { kind: "heartbeat"; runningExecIds: readonly string[] }[]) => number },
  runningExecIds: readonly string[] = [],
): Promise<void> {
  for (let passed = 0; passed < ms; passed += TICK_MS) {
    host.clock.add(TICK_MS);
    client?.write([{ kind: "heartbeat", runningExecIds }]);
    await turn();
    await host.clock.fire(TICK_MS);
  }
}

test("F4: a server names a running turn that stands still, also while no client is attached, and says when it moves", async (t) => {
  const news: TurnStallNews[] = [];
  let go = (): void => undefined;
  const host = await ScriptedHost.start(t, {
    application: async (stream) => {
      await new Promise<void>((resolve) => (go = resolve));
      await stream.emit(bytes("at last"));
      for await (const _ of stream.inputs);
    },
    onStall: (one) => news.push(one),
  });
  const { wire } = await host.attach(OPEN);
  wire.end();
  await pass(host, 60_000);
  assert.equal(news.length, 0);
  await pass(host, 10_000);
  assert.deepEqual(
    news.map(({ kind, clock, stuck, principal, idempotencyKey }) => [
      kind,
      clock,
      stuck,
      principal,
      idempotencyKey,
    ]),
    [["stalled", "no_progress", "the turn", NAME.principal, NAME.idempotencyKey]],
  );
  assert.equal(host.server.counters.stalls.server.no_progress.now, 1);
  go();
  await settle();
  assert.equal(news.at(-1)?.kind, "resumed");
  assert.deepEqual(host.server.counters.stalls.server.no_progress, { stalled: 1, resumed: 1, now: 0 });
});

test("F4: a server knows from heartbeats which execs its client has in hand, and names the one that is lost", async (t) => {
  const news: TurnStallNews[] = [];
  const host = await ScriptedHost.start(t, {
    application: asking(execRequest),
    onStall: (one) => news.push(one),
  });
  const { wire } = await host.attach(OPEN);
  await pass(host, 300_000, wire, ["exec-1"]);
  assert.equal(news.length, 0, "an exec that runs may take as long as it likes");
  await pass(host, 10_000, wire, []);
  const [stalled] = news;
  assert.ok(stalled?.kind === "stalled");
  assert.deepEqual([stalled.clock, stalled.stuck], ["unanswered", "exec exec-1"]);
  assert.deepEqual(
    stalled.unanswered.map(({ request }) => request),
    ["exec exec-1"],
  );
  wire.write([{ kind: "chunk", seqno: 1, writerEpoch: 1, body: writeExecUnknown(EXEC, "lost") }]);
  await settle();
  assert.deepEqual(
    news.map(({ kind }) => kind),
    ["stalled", "resumed"],
  );
});

test("F4: a server that was started anew knows from the logs what its turn waits for", async (t) => {
  const rows = new MemoryLog();
  const first = await ScriptedHost.start(t, { application: asking(execRequest, kvRequest) }, rows);
  const { wire } = await first.attach(OPEN);
  wire.write([{ kind: "chunk", seqno: 1, writerEpoch: 1, body: writeExecUnknown(EXEC, "lost") }]);
  await settle();
  await first.server.shutdown();
  const news: TurnStallNews[] = [];
  const options = {
    application: asking(execRequest, kvRequest),
    onStall: (one: TurnStallNews) => void news.push(one),
  };
  const second = await ScriptedHost.start(t, options, rows);
  const back = await second.attach({ ...OPEN, mode: "resume", fresh: false, firstChunk: undefined });
  await pass(second, 60_000, back.wire);
  assert.deepEqual(
    news.map(({ stuck }) => stuck),
    ["kv 3"],
  );
  back.wire.write([{ kind: "chunk", seqno: 2, writerEpoch: 1, body: kvAnswer }]);
  await settle();
  assert.deepEqual(
    news.map(({ kind }) => kind),
    ["stalled", "resumed"],
  );
});

test("F4: a stream that a server lets go of stands still no longer for its counters", async (t) => {
  const host = await ScriptedHost.start(t, { application: asking() });
  await host.attach(OPEN);
  await pass(host, 70_000);
  const { counters } = host.server;
  assert.equal(counters.stalls.server.no_progress.now, 1);
  await host.server.shutdown();
  assert.deepEqual(counters.stalls.server.no_progress, { stalled: 1, resumed: 0, now: 0 });
});

/** Short, so that a test need not wait long; what is compared is what is reported, never when. */
const STREAM = {
  heartbeatIntervalMs: 10,
  retry: { baseMs: 2, capMs: 10, budget: { burst: 10_000, refillMs: 1 } },
  stall: { heartbeatsMissedMax: 100_000, progressMs: 100_000, unansweredMs: 20 },
};

test("F4: a client tells its logger of a blob that is not answered, and when it is; by default it prints nothing", async (t) => {
  const news: StreamStallNews[] = [];
  const rig = await Rig.start(t, asking(kvRequest));
  const client = rig.client({ stream: STREAM, onStall: (one) => news.push(one) });
  const stream = await client.open({ first: bytes("go") });
  await until(() => news.length > 0, "the stall is reported");
  assert.ok(news[0]?.kind === "stalled");
  assert.deepEqual(
    [news[0].clock, news[0].stuck, news[0].idempotencyKey],
    ["unanswered", "kv 3", stream.idempotencyKey],
  );
  assert.match(
    stallLine(news[0]),
    /^stall detected \(unanswered\): kv 3 stands still for .* unanswered: kv 3 for /,
  );
  assert.equal(client.stalls.unanswered.now, 1);
  await stream.send(kvAnswer);
  await until(() => news.length === 2, "activity is reported");
  assert.equal(news[1]?.kind, "resumed");
  assert.deepEqual(client.stalls.unanswered, { stalled: 1, resumed: 1, now: 0 });
});

test("F4: an exec of a client without tools is in the application's hands, and the server hears so", async (t) => {
  const news: StreamStallNews[] = [];
  const rig = await Rig.start(t, asking(execRequest));
  const beats: (readonly string[])[] = [];
  const client = rig.client({
    stream: { ...STREAM, stall: { ...STREAM.stall, progressMs: 20 } },
    onStall: (one) => news.push(one),
  });
  rig.onReceived = (frame) => {
    if (frame.kind === "heartbeat") beats.push(frame.runningExecIds);
  };
  const stream = await client.open({ first: bytes("go") });
  await until(
    () => beats.filter((execIds) => execIds.includes("exec-1")).length > 10,
    "many heartbeats name it",
  );
  assert.deepEqual(
    news.filter(({ clock }) => clock === "unanswered"),
    [],
  );
  await stream.send(writeExecUnknown(EXEC, "lost"));
  await until(() => beats.at(-1)?.length === 0, "the heartbeat names nothing more");
});

test("a logger that fails is reported as a bug and does not fail the stream", async (t) => {
  const rig = await Rig.start(t, asking(kvRequest));
  const bugs: unknown[] = [];
  const client = rig.client({
    stream: STREAM,
    onBug: (bug) => bugs.push(bug),
    onStall: () => {
      throw new Error("the log is full");
    },
  });
  const stream = await client.open({ first: bytes("go") });
  await until(() => bugs.length > 0, "the bug is reported");
  await stream.send(kvAnswer);
  await stream.close();
  assert.equal(await stream.ended, "completed");
});
