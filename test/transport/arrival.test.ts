/**
 * What a connection shows of a response behind its last byte: by real sockets that hang up in good order, are reset, or say more.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import type { Arrival } from "../../src/transport/node/exchange.ts";
import { openPort, type Port, type PortOptions } from "../../src/transport/node/index.ts";
import { answerPings, END_STREAM, frame, goAway, hello, post, TYPES } from "./raw-http2.ts";

const WORDS = "all of it";

type News = Arrival | "broken";

interface Served {
  readonly port: Port;
  /** What is known of each response, in the order in which it became known. */
  readonly arrivals: News[];
  readonly arrived: (count: number) => Promise<readonly News[]>;
}

/** Answers each request at once. */
async function serve(t: TestContext, limits: PortOptions["limits"] = {}): Promise<Served> {
  const arrivals: News[] = [];
  let news = Promise.withResolvers<void>();
  const tell = (arrival: News): void => {
    arrivals.push(arrival);
    news.resolve();
    news = Promise.withResolvers();
  };
  const port = await openPort({
    limits,
    handle: (exchange) => {
      exchange.listen({
        received: () => undefined,
        ended: () => {
          exchange.respond(200, { "content-length": String(WORDS.length) });
          exchange.end(Buffer.from(WORDS));
        },
        drained: () => undefined,
        closed: (isWhole) => void (isWhole || tell("broken")),
        arrived: tell,
      });
    },
  });
  t.after(() => port.close(0));
  const arrived = async (count: number): Promise<readonly News[]> => {
    while (arrivals.length < count) await news.promise;
    return arrivals;
  };
  return { port, arrivals, arrived };
}

async function socketTo(t: TestContext, { port }: Port): Promise<Socket> {
  const socket = connectTcp(port, "127.0.0.1");
  socket.on("error", () => undefined);
  t.after(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

/** Resolves when the whole response has been read. */
async function ask(socket: Socket, request: string | Buffer): Promise<void> {
  let read = "";
  const { promise, resolve } = Promise.withResolvers<void>();
  const take = (piece: Buffer): void => {
    read += piece.toString("latin1");
    if (read.includes(WORDS)) resolve();
  };
  socket.on("data", take);
  socket.write(request);
  await promise;
  socket.off("data", take);
}

const get = (connection: string): string =>
  `GET / HTTP/1.1\r\nhost: localhost\r\nconnection: ${connection}\r\n\r\n`;
const get2 = (): Buffer =>
  Buffer.concat([hello(), post(1, "/"), frame(TYPES.data, END_STREAM, 1, new Uint8Array())]);

for (const connection of ["keep-alive", "close"]) {
  test(`HTTP/1.1, connection: ${connection}: hung up in good order is closed, reset is lost`, async (t) => {
    const { port, arrived } = await serve(t);
    const content = await socketTo(t, port);
    await ask(content, get(connection));
    content.end();
    assert.deepEqual(await arrived(1), ["closed"]);
    const broken = await socketTo(t, port);
    await ask(broken, get(connection));
    broken.resetAndDestroy();
    assert.deepEqual(await arrived(2), ["closed", "lost"]);
  });
}

test("HTTP/1.1: a client that asks again on the connection has got the response before, whatever follows", async (t) => {
  const { port, arrived } = await serve(t);
  const socket = await socketTo(t, port);
  await ask(socket, get("keep-alive"));
  await ask(socket, get("keep-alive"));
  assert.deepEqual(await arrived(1), ["confirmed"]);
  socket.resetAndDestroy();
  assert.deepEqual(await arrived(2), ["confirmed", "lost"]);
});

test("HTTP/1.1: a connection that was told its last response, and does not hang up, is cut; its requests are not served", async (t) => {
  const { port, arrived, arrivals } = await serve(t, { hangUpTimeoutMs: 50 });
  const socket = connectTcp({ port: port.port, host: "127.0.0.1", allowHalfOpen: true });
  t.after(() => socket.destroy());
  await ask(socket, get("close"));
  assert.deepEqual(await arrived(1), ["closed"]);
  const other = connectTcp({ port: port.port, host: "127.0.0.1", allowHalfOpen: true });
  other.on("error", () => undefined);
  t.after(() => other.destroy());
  other.write(get("close"));
  await once(other.resume(), "end");
  other.write(get("close"));
  await arrived(2);
  assert.equal(arrivals.length, 2, "one response on each connection");
});

test("HTTP/2: a client that asks again on the connection and answers a ping has got the responses before, whatever follows", async (t) => {
  const { port, arrived } = await serve(t);
  const socket = await socketTo(t, port);
  const session = connectHttp2(port.url, { createConnection: () => socket });
  session.on("error", () => undefined);
  const streams = [1, 2, 3].map(() => session.request({ ":path": "/" }));
  await Promise.all(streams.map((stream) => once(stream.resume(), "close")));
  await once(session.request({ ":path": "/" }).resume(), "close");
  assert.deepEqual(await arrived(3), ["confirmed", "confirmed", "confirmed"]);
  socket.resetAndDestroy();
  assert.equal((await arrived(4)).at(-1), "lost");
});

test("HTTP/2: before that, hung up in good order is closed; reset, or gone with an error, is lost", async (t) => {
  const { port, arrived } = await serve(t);
  const content = await socketTo(t, port);
  await ask(content, get2());
  content.end();
  assert.deepEqual(await arrived(1), ["closed"]);
  const broken = await socketTo(t, port);
  await ask(broken, get2());
  broken.resetAndDestroy();
  assert.deepEqual(await arrived(2), ["closed", "lost"]);
  const angry = await socketTo(t, port);
  await ask(angry, get2());
  angry.end(goAway(2));
  assert.deepEqual(await arrived(3), ["closed", "lost", "lost"]);
});

test("HTTP/2: a client that answers no ping until it is cut has lost the response", async (t) => {
  const { port, arrived } = await serve(t, { pingIntervalMs: 30 });
  const silent = await socketTo(t, port);
  await ask(silent, get2());
  assert.deepEqual(await arrived(1), ["lost"]);
  const honest = await socketTo(t, port);
  answerPings(honest);
  await ask(honest, get2());
  assert.deepEqual(await arrived(2), ["lost", "confirmed"]);
});
