import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as http2Connect } from "node:http2";
import { test } from "node:test";
import { Client, type ClientStream } from "../../../src/client/index.ts";
import { retry } from "../../../src/core/index.ts";
import { nodeSealing } from "../../../src/sealing/node.ts";
import { ATTACH, Dialed, transport, TRANSPORTS } from "./dial.ts";
import { ALICE_KEY, ask, eventually, startHttp, VERSIONS } from "./rig.ts";
import { openStream, putParts, uploadOf } from "./blob-client.ts";

const SOON = { ...retry.DEFAULTS, baseMs: 5, capMs: 50, budget: { burst: 10_000, refillMs: 1 } };

for (const name of TRANSPORTS) {
  test(`A3: over ${name} nothing acknowledged is lost when a busy server shuts down and starts again`, async (t) => {
    const first = await startHttp(t);
    const connect = transport(t, first, name);
    const client = new Client({
      connect,
      sealing: nodeSealing(),
      homeKey: new Uint8Array(32).fill(3),
      credentials: async () => ALICE_KEY,
      stream: { retry: SOON },
    });
    t.after(() => client.close());
    const stream: ClientStream = await client.open({ idempotencyKey: "moving" });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const event of stream.events) {
        if (event.body.length > 0) seen.push(Buffer.from(event.body).toString());
      }
    })();
    const said: string[] = [];
    const say = async (count: number): Promise<void> => {
      for (let at = 0; at < count; at++) {
        const words = `word ${said.length}`;
        said.push(words);
        await stream.send(Buffer.from(words));
      }
    };
    await say(20);
    const more = say(200);
    await eventually(() => seen.length > 0, "it has begun");
    await first.http.close({ drainMs: 2_000 });
    await first.store.close();

    const { port } = first.http;
    const second = await startHttp(t, { log: first.log.reopened(), http: { port } });
    await more;
    await stream.close();
    await reading;
    assert.deepEqual(seen, said, "each word once and in order");
    assert.equal(second.server.counters.resumed > 0, true);
  });

  test(`over ${name} a connection is told unavailable at shutdown`, async (t) => {
    const rig = await startHttp(t);
    const dialed = new Dialed(transport(t, rig, name), "told");
    await dialed.welcomed();
    const closing = rig.http.close({ drainMs: 1_000 });
    assert.equal((await dialed.get("error")).code, "unavailable");
    await closing;
  });
}

test("ready says no first; everything else goes on until the notice is over", async (t) => {
  const rig = await startHttp(t);
  const dialed = new Dialed(transport(t, rig, "http2"), "noticed");
  await dialed.welcomed();
  const closing = rig.http.close({ noticeMs: 500, drainMs: 2_000 });
  for (const version of VERSIONS) {
    const ready = await ask(rig, version, { path: "/ready" });
    assert.equal(ready.status, 503);
    assert.match(ready.body.toString(), /shutting down/);
    assert.equal((await ask(rig, version, { path: "/health" })).status, 200);
  }
  dialed.chunk(0, Buffer.from("one more"));
  await dialed.get("event");
  assert.equal((await dialed.get("error")).code, "unavailable");
  await closing;
  await assert.rejects(ask(rig, 1, { path: "/health" }), "nobody is let in");
});

test("HTTP/2 connections get GOAWAY, and one without streams ends at once", async (t) => {
  const rig = await startHttp(t);
  const session = http2Connect(rig.http.url);
  await once(session, "connect");
  const left = Promise.all([once(session, "goaway"), once(session, "close")]);
  await rig.http.close({ drainMs: 10_000 });
  await left;
});

test("a blob under way is finished before the port closes", async (t) => {
  const rig = await startHttp(t);
  const owner = await openStream(rig, "late");
  const bytes = Buffer.alloc(4 * 1024 * 1024, 5);
  const put = putParts(rig, 2, owner, uploadOf(owner, bytes));
  await eventually(async () => {
    const { body } = await ask(rig, 1, { path: "/metrics" });
    return /holdfast_http_requests_(?:open|total)\{kind="blob_put"(?:,status="200")?\} 1/.test(
      body.toString(),
    );
  }, "it has begun");
  await rig.http.close({ drainMs: 5_000 });
  const { error } = await put;
  assert.ok(error === undefined || error === "unavailable" || error === "not_found", error);
});

test("a connection that comes while the server shuts down is told to come back", async (t) => {
  const rig = await startHttp(t);
  const connect = transport(t, rig, "http2");
  await new Dialed(connect, "before").welcomed();
  await rig.server.shutdown();
  const late = new Dialed(connect, "after", ATTACH);
  assert.equal((await late.get("error")).code, "unavailable");
});

test("closing twice closes once", async (t) => {
  const rig = await startHttp(t);
  await Promise.all([rig.http.close(), rig.http.close()]);
});

test("how long requests under way may take is asked behind the drain, when something of its time is used", async (t) => {
  const rig = await startHttp(t);
  const order: string[] = [];
  const drain = async (): Promise<void> => {
    order.push("drain");
    await new Promise((resolve) => setImmediate(resolve));
    order.push("drained");
  };
  await rig.http.close({ drain, drainMs: () => (order.push("asked"), 1_000) });
  assert.deepEqual(order, ["drain", "drained", "asked"]);
});
