import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  type Exchange,
  openPort,
  type Port,
  type PortOptions,
  readBody,
  respondWith,
} from "../../src/transport/node/index.ts";
import { testCertificate } from "./certificate.ts";
import { Relay } from "./relay.ts";

/** Says back what it was asked, with its body. */
function repeat(exchange: Exchange): void {
  void answered(exchange);
}

async function answered(exchange: Exchange): Promise<void> {
  const { httpVersion, method, path, query } = exchange;
  try {
    const body = await readBody(exchange, { bytesMax: 1000, timeoutMs: 10_000 });
    const text = Buffer.from(body).toString();
    respondWith(exchange, 200, {}, `${httpVersion} ${method} ${path} ${query} ${text}`);
  } catch (error) {
    assert.ok(error instanceof HoldfastError);
    respondWith(exchange, 400, {}, error.code);
  }
}

async function port(t: TestContext, options: Partial<PortOptions> = {}): Promise<Port> {
  const opened = await openPort({ handle: repeat, ...options });
  t.after(() => opened.close(0));
  return opened;
}

function socketTo(t: TestContext, { port: number }: { port: number }): Socket {
  const socket = connectTcp(number, "127.0.0.1");
  socket.on("error", () => undefined);
  t.after(() => socket.destroy());
  return socket;
}

function sessionTo(t: TestContext, url: string): ClientHttp2Session {
  const session = connectHttp2(url, { ca: testCertificate.cert });
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  return session;
}

async function answerOf(stream: ReturnType<ClientHttp2Session["request"]>): Promise<string> {
  let text = "";
  for await (const piece of stream) text += String(piece);
  return text;
}

async function heard(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (piece) => (text += String(piece)));
  if (!socket.closed) await once(socket, "close");
  return text;
}

for (const tls of [undefined, testCertificate]) {
  const how = tls === undefined ? "in clear" : "by TLS";
  test(`one port speaks HTTP/2 and HTTP/1.1 ${how}`, async (t) => {
    const { url } = await port(t, tls === undefined ? {} : { tls });
    const stream = sessionTo(t, url).request({ ":method": "POST", ":path": "/a/b?c=d" });
    stream.end("body");
    assert.equal(await answerOf(stream), "2 POST /a/b c=d body");
    if (tls !== undefined) return;
    const response = await fetch(`${url}/a/b?c=d`, { method: "POST", body: "body" });
    assert.equal(await response.text(), "1 POST /a/b c=d body");
  });
}

test("the first bytes may come one by one, in either version", async (t) => {
  const opened = await port(t);
  const request = "PROPFIND /x HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
  const socket = socketTo(t, opened);
  for (const letter of request) {
    socket.write(letter);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.match(await heard(socket), /1 PROPFIND \/x/);
  const relay = await Relay.open(opened.port, { isByteByByte: true });
  t.after(() => relay.close());
  const stream = sessionTo(t, `http://127.0.0.1:${relay.port}`).request({ ":path": "/y" });
  assert.equal(await answerOf(stream), "2 GET /y  ");
});

test("E8: a client that says nothing, or not enough to tell what it speaks, is cut", async (t) => {
  const opened = await port(t, { limits: { firstBytesTimeoutMs: 30 } });
  for (const beginning of ["", "P", "PR"]) {
    const socket = socketTo(t, opened);
    socket.write(beginning);
    assert.equal(await heard(socket), "");
  }
});

test("E8: headers that do not end are cut", async (t) => {
  const opened = await port(t, { limits: { headersTimeoutMs: 50 } });
  const socket = socketTo(t, opened);
  socket.write("GET / HTTP/1.1\r\nhost: h\r\n");
  assert.match(await heard(socket), /^HTTP\/1.1 408/);
});

test("E8: a body that does not end is cut", async (t) => {
  const opened = await port(t, { limits: { headersTimeoutMs: 50, requestTimeoutMs: 100 } });
  const socket = socketTo(t, opened);
  socket.write("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\nfour");
  assert.match(await heard(socket), /^HTTP\/1.1 408/);
});

test("E8: headers above the limit are refused in both versions", async (t) => {
  const opened = await port(t, { limits: { headerBytesMax: 8_192 } });
  const fits = { "x-filler": "y".repeat(6_000) };
  const tooMuch = { "x-filler": "y".repeat(9_000) };
  assert.equal((await fetch(opened.url, { headers: fits })).status, 200);
  assert.equal((await fetch(opened.url, { headers: tooMuch })).status, 431);
  const session = sessionTo(t, opened.url);
  assert.equal(await answerOf(session.request({ ":path": "/", ...fits })), "2 GET /  ");
  const refused = session.request({ ":path": "/", ...tooMuch });
  await assert.rejects(answerOf(refused));
});

test("E8: connections above the limit are closed, and there is room again when one leaves", async (t) => {
  const opened = await port(t, { limits: { connectionsMax: 2 } });
  const first = socketTo(t, opened);
  const second = socketTo(t, opened);
  await Promise.all([once(first, "connect"), once(second, "connect")]);
  assert.equal(await heard(socketTo(t, opened)), "");
  first.destroy();
  second.write("GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
  assert.match(await heard(second), /200 OK/);
  assert.equal((await fetch(opened.url)).status, 200);
});

test("E8: a client may have as many streams on a connection as it is told", async (t) => {
  const { url } = await port(t, { limits: { streamsPerConnectionMax: 3 } });
  const session = sessionTo(t, url);
  await once(session, "remoteSettings");
  assert.equal(session.remoteSettings.maxConcurrentStreams, 3);
});

test("a thousand streams share a connection", async (t) => {
  const { url } = await port(t);
  const session = sessionTo(t, url);
  await once(session, "remoteSettings");
  const streams = Array.from({ length: 1_000 }, (_, at) => session.request({ ":path": `/${at}` }));
  const answers = await Promise.all(streams.map(answerOf));
  assert.deepEqual(answers.at(-1), "2 GET /999  ");
});

test("E8: a flood of streams that are reset at once ends the connection, and the server stays up", async (t) => {
  const { url } = await port(t);
  const session = sessionTo(t, url);
  await once(session, "remoteSettings");
  const closed = new Promise((resolve) => session.on("close", resolve));
  for (let count = 0; count < 20_000 && !session.destroyed; count++) {
    const stream = session.request({ ":path": "/" });
    stream.on("error", () => undefined);
    stream.close();
    if (count % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await closed;
  assert.equal((await fetch(url)).status, 200);
});

test("a peer that does not answer a ping is cut, and its exchange closes", async (t) => {
  const closed = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  const opened = await port(t, {
    limits: { pingIntervalMs: 20 },
    handle(exchange) {
      const nothing = (): void => undefined;
      exchange.listen({
        received: nothing,
        ended: nothing,
        drained: nothing,
        closed: () => closed.resolve(),
      });
      exchange.respond(200, {});
      began.resolve();
    },
  });
  const relay = await Relay.open(opened.port);
  t.after(() => relay.close());
  sessionTo(t, `http://127.0.0.1:${relay.port}`)
    .request({ ":method": "POST", ":path": "/" })
    .on("error", () => undefined);
  await began.promise;
  relay.stop();
  await closed.promise;
});

test("an HTTP/2 connection without streams is asked to leave after a while", async (t) => {
  const { url } = await port(t, { limits: { idleTimeoutMs: 20, pingIntervalMs: 10 } });
  const session = sessionTo(t, url);
  assert.equal(await answerOf(session.request({ ":path": "/" })), "2 GET /  ");
  await once(session, "close");
});

test("closing waits for what is under way and takes nothing new", async (t) => {
  const held: Exchange[] = [];
  const opened = await port(t, { handle: (exchange) => void held.push(exchange) });
  const session = sessionTo(t, opened.url);
  const overHttp2 = answerOf(session.request({ ":path": "/" }));
  const overHttp1 = fetch(opened.url);
  while (held.length < 2) await new Promise((resolve) => setImmediate(resolve));
  const goingAway = once(session, "goaway");
  const closing = opened.close(10_000);
  await goingAway;
  await assert.rejects(fetch(opened.url));
  for (const exchange of held) respondWith(exchange, 200, {}, "done");
  assert.equal(await overHttp2, "done");
  const response = await overHttp1;
  assert.equal(response.headers.get("connection"), "close");
  assert.equal(await response.text(), "done");
  await closing;
});

test("closing hangs up on what does not end in time", async (t) => {
  const began = Promise.withResolvers<void>();
  const opened = await port(t, { handle: () => began.resolve() });
  const answer = fetch(opened.url);
  await began.promise;
  await opened.close(20);
  await assert.rejects(answer);
});

test("a body is read to its limit, and one byte more is refused", async (t) => {
  const { url } = await port(t);
  const post = async (bytes: number): Promise<string> => {
    const response = await fetch(url, { method: "POST", body: "x".repeat(bytes) });
    return response.status === 200 ? "read" : response.text();
  };
  assert.equal(await post(1000), "read");
  assert.equal(await post(1001), "too_large");
  const stream = sessionTo(t, url).request({ ":method": "POST", ":path": "/" });
  stream.write("x".repeat(1001));
  assert.equal(await answerOf(stream), "too_large");
});

test("a handler that throws costs its exchange only, and is told", async (t) => {
  const bugs: unknown[] = [];
  const { url } = await port(t, {
    handle(exchange) {
      if (exchange.path === "/bug") throw new Error("a bug");
      repeat(exchange);
    },
    onBug: (bug) => bugs.push(bug),
  });
  await assert.rejects(fetch(`${url}/bug`));
  assert.equal((await fetch(`${url}/fine`)).status, 200);
  assert.equal(bugs.length, 1);
});
