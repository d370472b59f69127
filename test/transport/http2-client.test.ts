import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { HoldfastError } from "../../src/protocol/errors.ts";
import type { ServerFrame } from "../../src/protocol/frames.ts";
import type { Accept, Connect } from "../../src/transport/index.ts";
import { fetchConnect } from "../../src/transport/index.ts";
import { type Exchange, http2Connect, openPort, respondWith } from "../../src/transport/node/index.ts";
import { httpRig } from "./http-rig.ts";
import { ATTACH } from "./split-rig.ts";

const META = { idempotencyKey: "key", streamKey: new Uint8Array(32), credentials: "alice" };
const idle = { received: () => undefined, drained: () => undefined, closed: () => undefined };
const quiet: Accept = () => idle;

/** Connects, attaches, and waits for the end. */
function ending(
  connect: Connect,
  onFrame: (frame: ServerFrame) => void = () => undefined,
): Promise<HoldfastError | undefined> {
  return new Promise((resolve) => {
    const wire = connect(META, { received: onFrame, drained: () => undefined, closed: resolve });
    wire.write([ATTACH]);
  });
}

type Make = (url: string) => { readonly connect: Connect; close(): void };

const transports: Readonly<Record<string, Make>> = {
  "HTTP/2": (url) => http2Connect({ url }),
  fetch: (url) => fetchConnect({ url }),
  "shared fetch": (url) => fetchConnect({ url, shared: true }),
};

async function answering(t: TestContext, handle: (exchange: Exchange) => void): Promise<string> {
  const port = await openPort({ handle });
  t.after(() => port.close(0));
  return port.url;
}

for (const [name, make] of Object.entries(transports)) {
  test(`${name}: what a proxy answers becomes the right error`, async (t) => {
    const cases: [number, Record<string, string>, string, number | undefined][] = [
      [401, {}, "unauthenticated", undefined],
      [429, { "retry-after": "3" }, "overloaded", 3000],
      [503, { "retry-after": "1" }, "unavailable", 1000],
      [502, {}, "unavailable", undefined],
      [404, {}, "internal", undefined],
      [200, { "content-type": "text/html" }, "internal", undefined],
    ];
    for (const [status, headers, code, retryAfterMs] of cases) {
      const url = await answering(t, (exchange) =>
        respondWith(exchange, status, headers, "<html>a proxy</html>"),
      );
      const transport = make(url);
      const reason = await ending(transport.connect);
      transport.close();
      assert.deepEqual([reason?.code, reason?.retryAfterMs], [code, retryAfterMs]);
    }
  });

  test(`${name}: a server that is not there is a lost connection`, async (t) => {
    const port = await openPort({ handle: () => undefined });
    await port.close(0);
    const transport = make(port.url);
    t.after(() => transport.close());
    const reason = await ending(transport.connect);
    assert.equal(reason?.code, "connection_lost");
    assert.match(reason.message, /^the connection broke: connect ECONNREFUSED 127\.0\.0\.1:\d+$/);
  });

  test(`${name}: a response that stops without its end is a lost connection`, async (t) => {
    const url = await answering(t, (exchange) => {
      exchange.respond(200, { "content-type": "application/connect+proto" });
      exchange.end();
    });
    const transport = make(url);
    t.after(() => transport.close());
    assert.equal((await ending(transport.connect))?.code, "connection_lost");
  });

  test(`${name}: a response that is no protobuf is refused`, async (t) => {
    const url = await answering(t, (exchange) => {
      exchange.respond(200, { "content-type": "application/connect+proto" });
      exchange.write(Buffer.from("0000000003ffffff", "hex"));
    });
    const transport = make(url);
    t.after(() => transport.close());
    assert.equal((await ending(transport.connect))?.code, "invalid_frame");
  });

  test(`${name}: an error frame is delivered, and the end that repeats it is none of its own`, async (t) => {
    const rig = await httpRig((_meta, wire) => {
      queueMicrotask(() => {
        wire.write([{ kind: "error", code: "fenced", message: "another", retryAfterMs: undefined }]);
        wire.end();
      });
      return idle;
    }, t);
    const transport = make(rig.url);
    t.after(() => transport.close());
    const frames: ServerFrame[] = [];
    assert.equal(await ending(transport.connect, (frame) => frames.push(frame)), undefined);
    assert.deepEqual(
      frames.map((frame) => frame.kind === "error" && frame.code),
      ["fenced"],
    );
  });

  test(`${name}: closing the transport loses its connections, and it can be used again`, async (t) => {
    const rig = await httpRig(quiet, t);
    const transport = make(rig.url);
    t.after(() => transport.close());
    for (let round = 0; round < 2; round++) {
      const over = ending(transport.connect);
      while (rig.relay.connectionCount === 0) await new Promise((resolve) => setImmediate(resolve));
      transport.close();
      assert.equal((await over)?.code, "connection_lost");
      while (rig.relay.connectionCount > 0) await new Promise((resolve) => setImmediate(resolve));
    }
  });
}

test("HTTP/2: connections share a session until it is full, and a new one follows one that broke", async (t) => {
  const accepted: string[] = [];
  const rig = await httpRig((meta) => {
    accepted.push(meta.idempotencyKey);
    return idle;
  }, t);
  const transport = http2Connect({ url: rig.url, streamsPerSessionMax: 3 });
  t.after(() => transport.close());
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
  };
  let closedCount = 0;
  const connect = (): void => {
    transport.connect(META, { ...idle, closed: () => void closedCount++ }).write([ATTACH]);
  };
  for (let count = 0; count < 3; count++) connect();
  await until(() => accepted.length === 3);
  assert.equal(rig.relay.connectionCount, 1);
  connect();
  await until(() => accepted.length === 4);
  assert.equal(rig.relay.connectionCount, 2);
  rig.relay.cut();
  await until(() => closedCount === 4);
  connect();
  await until(() => accepted.length === 5);
  assert.equal(rig.relay.connectionCount, 1);
});

test("HTTP/2: a server that falls silent is noticed by its missing pong", async (t) => {
  const accepted = Promise.withResolvers<void>();
  const rig = await httpRig(() => {
    accepted.resolve();
    return idle;
  }, t);
  const transport = http2Connect({ url: rig.url, pingIntervalMs: 20 });
  t.after(() => transport.close());
  const over = ending(transport.connect);
  await accepted.promise;
  rig.relay.stop();
  assert.equal((await over)?.code, "connection_lost");
});

test("HTTP/2: a server that does not answer the connection is given up", async (t) => {
  const rig = await httpRig(quiet, t);
  rig.relay.stop();
  const transport = http2Connect({ url: rig.url, connectTimeoutMs: 5_000, pingIntervalMs: 20 });
  t.after(() => transport.close());
  assert.equal((await ending(transport.connect))?.code, "connection_lost");
});
