import assert from "node:assert/strict";
import { connect as http2Connect } from "node:http2";
import { test } from "node:test";
import { create, toBinary } from "../../../src/protocol/message.ts";
import { GetRequestSchema } from "../../../src/protocol/index.ts";
import { attachHeaders } from "./slow-reader.ts";
import { blobHeaders, headerPart, idOf, openStream, putParts, uploadOf } from "./blob-client.ts";
import {
  ask,
  bodyOf,
  eventually,
  type HttpRig,
  openSocket,
  readJson,
  readToEnd,
  startHttp,
  VERSIONS,
} from "./rig.ts";
import { envelopes } from "../../../src/transport/connect/envelopes.ts";

/** An impatient server cuts honest clients too when the machine is busy: they come again. */
async function isAlive(rig: HttpRig): Promise<void> {
  for (const version of VERSIONS) {
    const isServed = (): Promise<boolean> =>
      ask(rig, version, { path: "/health" }).then(
        ({ status }) => status === 200,
        () => false,
      );
    await eventually(isServed, `the server answers over HTTP/${version}`);
  }
}

/** Soon enough for a test. */
const IMPATIENT = {
  firstBytesTimeoutMs: 300,
  headersTimeoutMs: 400,
  requestTimeoutMs: 800,
  idleTimeoutMs: 500,
  pingIntervalMs: 300,
};

test("garbage on a socket is answered or cut, and the server goes on", async (t) => {
  const rig = await startHttp(t, { http: { portLimits: IMPATIENT } });
  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const sayings: Record<string, Buffer> = {
    bytes: Buffer.from(Array.from({ length: 1_000 }, (_, at) => (at * 7919) % 256)),
    "a TLS hello": Buffer.from("16030100f8010000f40303", "hex"),
    "half a request line": Buffer.from("POST /holdfast"),
    "no HTTP": Buffer.from("HELO there\r\n\r\n"),
    "a wrong version": Buffer.from("GET / HTTP/9.9\r\nhost: localhost\r\n\r\n"),
    "no host": Buffer.from("GET /health HTTP/1.1\r\n\r\n"),
    "two hosts": Buffer.from("GET /health HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n"),
    "two lengths": Buffer.from(
      "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc",
    ),
    "length and chunked": Buffer.from(
      "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "a bare preface": Buffer.from(preface),
    "half a preface": Buffer.from(preface.slice(0, 16)),
    "a wrong preface": Buffer.from("PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n"),
    "a preface and garbage": Buffer.from(`${preface}garbage garbage garbage`),
    "a preface and half a frame": Buffer.concat([Buffer.from(preface), Buffer.from("000004", "hex")]),
    "a frame too long": Buffer.concat([Buffer.from(preface), Buffer.from("ffffff040000000000", "hex")]),
    "an absolute target": Buffer.from(
      "GET http://evil.example/health HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    ),
    "a connect": Buffer.from("CONNECT evil.example:80 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    "an upgrade": Buffer.from(
      "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ),
  };
  const answers = await Promise.all(
    Object.entries(sayings).map(async ([what, bytes]) => {
      const socket = await openSocket(t, rig);
      socket.write(bytes);
      const said = (await readToEnd(socket)).toString("latin1");
      return [what, /^HTTP\/1\.1 (\d+)/.exec(said)?.[1] ?? "cut"] as const;
    }),
  );
  const statuses = new Map(answers);
  for (const what of ["no host", "two lengths", "length and chunked", "no HTTP", "bytes", "a TLS hello"]) {
    assert.match(statuses.get(what) ?? "", /400|cut/, what);
  }
  assert.match(statuses.get("two hosts") ?? "", /400|403/);
  assert.match(statuses.get("an absolute target") ?? "", /403|404|400/);
  assert.notEqual(statuses.get("a connect"), "200");
  await isAlive(rig);
});

test("F2: slow clients are cut: no first byte, headers and bodies that dribble, idle connections", async (t) => {
  const rig = await startHttp(t, { http: { portLimits: IMPATIENT } });
  const silent = await openSocket(t, rig);
  const dribbling = await openSocket(t, rig);
  dribbling.write("GET /health HTTP/1.1\r\nhost: localhost\r\n");
  const drip = setInterval(() => dribbling.write("x-a: b\r\n"), 50);
  const body = await openSocket(t, rig);
  const headers = {
    ...attachHeaders("slow"),
    "content-type": "application/proto",
    "content-length": "100000",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  body.write(`POST /holdfast.v1.StreamService/Append HTTP/1.1\r\nhost: localhost\r\n${lines.join("")}\r\n`);
  const bodyDrip = setInterval(() => body.write("x"), 50);
  const idle = await openSocket(t, rig);
  idle.write("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await Promise.all([silent, dribbling, body, idle].map(readToEnd));
  clearInterval(drip);
  clearInterval(bodyDrip);
  await isAlive(rig);
});

test("F2: an HTTP/2 connection that does nothing is asked to leave, one that plays dead is cut", async (t) => {
  const rig = await startHttp(t, { http: { portLimits: IMPATIENT } });
  const session = http2Connect(rig.http.url);
  session.on("error", () => undefined);
  const dead = await openSocket(t, rig);
  dead.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  dead.write(Buffer.from("000000040000000000", "hex"));
  await Promise.all([new Promise((resolve) => session.on("close", resolve)), readToEnd(dead)]);
  await isAlive(rig);
});

test("F2: a blob that stops coming is given up, and its memory with it", async (t) => {
  const rig = await startHttp(t, { http: { blobLimits: { stallMs: 300 } } });
  const owner = await openStream(rig, "stalled");
  const bytes = Buffer.alloc(32 * 1024 * 1024, 1);
  const session = http2Connect(rig.http.url);
  t.after(() => session.destroy());
  const head = { ...blobHeaders(owner), ":method": "POST", ":path": "/holdfast.v1.BlobService/Put" };
  const put = session.request(head, { endStream: false });
  put.write(envelopes([headerPart(owner, idOf(bytes), bytes.length)]));
  assert.match((await bodyOf(put)).toString(), /too slow/);
  put.close();

  const name = { space: JSON.stringify(["alice", "stalled"]), id: idOf(bytes).toString("hex") };
  assert.equal(await rig.blobs.has(name), false);
  const metrics = async (): Promise<string> => (await ask(rig, 1, { path: "/metrics" })).body.toString();
  await eventually(
    async () => (await metrics()).includes("holdfast_blob_held_bytes 0\n"),
    "the memory is given back",
  );
});

test("F2: a blob that nobody takes is given up, and no more of it than fits is written", async (t) => {
  const rig = await startHttp(t, { http: { blobLimits: { stallMs: 300 } } });
  const owner = await openStream(rig, "untaken");
  const bytes = Buffer.alloc(32 * 1024 * 1024, 1);
  await putParts(rig, 2, owner, uploadOf(owner, bytes));
  const request = create(GetRequestSchema, { idempotencyKey: "untaken", blobId: idOf(bytes) });
  const body = envelopes([toBinary(GetRequestSchema, request)]);
  const socket = await openSocket(t, rig);
  socket.pause();
  const head = { host: "localhost", "content-length": String(body.length), ...blobHeaders(owner) };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST /holdfast.v1.BlobService/Get HTTP/1.1\r\n${lines.join("")}\r\n`);
  socket.write(body);
  await eventually(() => rig.logLines.some((line) => line.includes('"blob_get"')), "it is over");
  const { bytesOut = 0, ...rest } = Object.fromEntries(
    readJson(rig.logLines.find((line) => line.includes('"blob_get"'))),
  );
  assert.equal(rest["kind"], "blob_get");
  assert.ok(Number(bytesOut) < bytes.length / 2, `${String(bytesOut)} bytes were written`);
  assert.ok(rig.server.counters.refusals.unavailable > 0);
});

test("E8: one socket above the limit is closed, and there is room again when one leaves", async (t) => {
  const rig = await startHttp(t, { http: { portLimits: { connectionsMax: 3 } } });
  const sockets = await Promise.all([1, 2, 3].map(() => openSocket(t, rig)));
  const above = await openSocket(t, rig);
  assert.equal((await readToEnd(above)).length, 0);
  sockets[0]?.destroy();
  await eventually(async () => {
    const answer = await ask(rig, 1, { path: "/health" }).catch(() => undefined);
    return answer?.status === 200;
  }, "there is room again");
});
