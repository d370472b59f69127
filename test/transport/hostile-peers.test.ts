/** What a port and its endpoints do about peers that keep to the letter of HTTP and to nothing else. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { encodeAppend } from "../../src/protocol/append-codec.ts";
import { type Exchange, openPort, type Port, type PortOptions } from "../../src/transport/node/index.ts";
import { bodyBudget } from "../../src/transport/node/body-budget.ts";
import { connectionTable } from "../../src/transport/node/connection-table.ts";
import { listenerTable } from "../../src/transport/node/listener-table.ts";
import { listener } from "../../src/transport/node/listener.ts";
import { streamEndpoints } from "../../src/transport/node/stream-endpoints.ts";
import { encodeListen } from "../../src/protocol/listen-codec.ts";
import { envelopes } from "../../src/transport/connect/envelopes.ts";
import { serveWith } from "./http-rig.ts";
import { HEADERS, rawHttp1 } from "./raw-call.ts";
import { answerPings, frame, hello, post, reset, TYPES } from "./raw-http2.ts";

const NO_ERROR = 0;
/** What a broken server would wait for does not come. */
const SOON = { timeout: 20_000 };

async function port(t: TestContext, options: PortOptions): Promise<Port> {
  const opened = await openPort(options);
  t.after(() => opened.close(0));
  return opened;
}

/** It never hangs up by itself. */
function socketTo(t: TestContext, { port: number }: Port): Socket {
  const socket = connectTcp({ port: number, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => undefined);
  t.after(() => socket.destroy());
  return socket;
}

test(
  "a stream that is reset without an error while nobody reads it is over, and a late answer harms nobody",
  SOON,
  async (t) => {
    const piece = frame(TYPES.data, 0, 1, new Uint8Array(1000));
    const exchanges: Exchange[] = [];
    const begun = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    const handle = (exchange: Exchange): void => {
      exchanges.push(exchange);
      exchange.listen({
        received: () => {
          exchange.pause();
          begun.resolve();
        },
        ended: () => undefined,
        drained: () => undefined,
        closed: () => closed.resolve(),
      });
    };
    const socket = socketTo(t, await port(t, { handle }));
    socket.resume();
    socket.write(Buffer.concat([hello(), post(1, "/"), piece, piece]));
    await begun.promise;
    socket.write(reset(1, NO_ERROR));
    await closed.promise;
    const [exchange] = exchanges;
    assert.ok(exchange !== undefined);
    exchange.respond(200, {});
    assert.equal(exchange.write(new Uint8Array(10)), 0);
    exchange.end();
    exchange.destroy();
  },
);

test("between the reset of a stream and its end an answer is dropped", SOON, async (t) => {
  const done = Promise.withResolvers<void>();
  const handle = (exchange: Exchange): void => {
    exchange.listen({
      received: () => undefined,
      ended: () => undefined,
      drained: () => undefined,
      closed: () => undefined,
    });
    exchange.destroy();
    // Node throws here for a stream that is closed and not yet destroyed.
    exchange.respond(200, {});
    done.resolve();
  };
  const bugs: unknown[] = [];
  const onBug = (bug: unknown): void => {
    bugs.push(bug);
    done.resolve();
  };
  const socket = socketTo(t, await port(t, { handle, onBug }));
  socket.resume();
  socket.write(Buffer.concat([hello(), post(1, "/"), frame(TYPES.data, 0, 1, new Uint8Array(10))]));
  await done.promise;
  assert.deepEqual(bugs, []);
});

for (const version of [1, 2] as const) {
  test(
    `F2: a response that has ended and is never taken is hung up on (HTTP/${version})`,
    SOON,
    async (t) => {
      const closed = Promise.withResolvers<void>();
      const handle = (exchange: Exchange): void => {
        exchange.listen({
          received: () => undefined,
          ended: () => undefined,
          drained: () => undefined,
          closed: () => closed.resolve(),
        });
        exchange.respond(200, {});
        // More than any buffer of the system takes.
        exchange.write(new Uint8Array(32 * 1024 * 1024));
        exchange.end();
      };
      const { url, ...opened } = await port(t, { handle, limits: { lastBytesTimeoutMs: 50 } });
      if (version === 1) {
        const socket = socketTo(t, { ...opened, url });
        socket.pause();
        socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
      } else {
        const session = connectHttp2(url);
        session.on("error", () => undefined);
        t.after(() => session.destroy());
        session.request({ ":path": "/" }).on("error", () => undefined);
      }
      await closed.promise;
    },
  );
}

test("F2: an HTTP/2 connection that was told to leave and does not hang up is cut", SOON, async (t) => {
  const limits = { idleTimeoutMs: 20, pingIntervalMs: 10 };
  const opened = await port(t, { handle: () => undefined, limits });
  const socket = socketTo(t, opened);
  answerPings(socket);
  socket.write(hello());
  await once(socket, "end");
  while (opened.connectionCount > 0) await new Promise((resolve) => setTimeout(resolve, 5));
});

test("F2: a listener that takes none of its signs of life is hung up on", () => {
  const written: number[] = [];
  let isDestroyed = false;
  let isBlocked = true;
  const exchange: Exchange = {
    httpVersion: 1,
    isSecure: false,
    method: "POST",
    path: "/",
    query: "",
    host: "",
    remoteAddress: "",
    hasResponded: false,
    header: () => undefined,
    listen: () => undefined,
    pause: () => undefined,
    resume: () => undefined,
    respond: () => undefined,
    write: (bytes) => {
      written.push(bytes.length);
      return isBlocked ? 1 : 0;
    },
    end: () => undefined,
    destroy: () => {
      isDestroyed = true;
    },
  };
  const listeners = listenerTable();
  const listening = listener(exchange, "alice", "proto", {
    accept: () => assert.fail("nobody connects"),
    connections: connectionTable(),
    listeners,
    bodies: bodyBudget(0),
    onBug: (bug) => assert.fail(String(bug)),
  });
  listening.received(envelopes([encodeListen("name")]));
  listening.ended();
  for (let round = 0; round < 3; round++) listeners.find("alice", "name")?.signOfLife();
  assert.equal(isDestroyed, false, "a slow one has time");
  isBlocked = false;
  listening.drained();
  for (let round = 0; round < 10; round++) listeners.find("alice", "name")?.signOfLife();
  assert.equal(isDestroyed, false, "one that takes them stays");
  isBlocked = true;
  for (let round = 0; round < 5; round++) listeners.find("alice", "name")?.signOfLife();
  assert.equal(isDestroyed, true);
  listening.closed(false);
});

test(
  "F2: the bodies of all appends under way have a bound, and what is over gives its memory back",
  SOON,
  async (t) => {
    const chunk = { kind: "chunk", seqno: 0, writerEpoch: 1 } as const;
    const appendOf = (bytes: number): Uint8Array<ArrayBuffer> =>
      new Uint8Array(
        encodeAppend({
          idempotencyKey: "key",
          frames: [{ ...chunk, body: new Uint8Array(bytes) }],
          connectionTag: "tag",
          listener: "",
          detach: false,
        }),
      );
    const endpoints = streamEndpoints({ accept: () => assert.fail("no attach comes"), appendBytesMax: 2000 });
    const { url } = await port(t, { handle: serveWith(endpoints) });
    const headers = { ...HEADERS, "content-type": "application/proto" };
    const append = (body: Uint8Array<ArrayBuffer>) =>
      rawHttp1(url, "/holdfast.v1.StreamService/Append", body, headers);
    for (let round = 0; round < 3; round++) {
      const refused = await append(appendOf(1000));
      assert.deepEqual([refused.status, refused.code], [429, "overloaded"]);
      assert.equal((await append(appendOf(800))).status, 200);
    }
  },
);
