/**
 * The port with a certificate: which versions it speaks, what it does with clients that speak something else, and that everything that is
 * served in clear is served over it.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect as http2Connect } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect as tlsConnect, type ConnectionOptions, type SecureVersion, type TLSSocket } from "node:tls";
import { test, type TestContext } from "node:test";
import { openClient } from "../../../src/client-node/index.ts";
import { gatewayHttp } from "../../../src/gateway/http/index.ts";
import { temporaryDirectory } from "../../client-node/temporary.ts";
import { ScriptedAnswers } from "../../gateway/http/scripted-answers.ts";
import { testCertificate } from "../../transport/certificate.ts";
import {
  ALICE_KEY,
  BOB_KEY,
  bearer,
  bodyOf,
  eventually,
  type HttpRig,
  openSocket,
  readToEnd,
  startHttp,
} from "./rig.ts";

const CA = testCertificate.cert;

function start(
  t: TestContext,
  more: NonNullable<Parameters<typeof startHttp>[1]>["http"] = {},
): Promise<HttpRig> {
  return startHttp(t, { http: { tls: testCertificate, ...more } });
}

/** A connection after its handshake; rejects when there was none. */
async function shakeHands(t: TestContext, rig: HttpRig, more: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = tlsConnect({ host: "127.0.0.1", port: rig.http.port, ca: CA, ...more });
  t.after(() => socket.destroy());
  await once(socket, "secureConnect");
  return socket;
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

const HEALTH: Asked = { method: "GET", path: "/health", headers: {}, body: "" };

async function askHttp1(rig: HttpRig, { method, path, headers, body }: Asked): Promise<string> {
  const { port } = rig.http;
  const request = httpsRequest({ host: "127.0.0.1", port, ca: CA, method, path, headers, agent: false });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.on("response", resolve);
    request.on("error", reject);
  });
  request.end(body);
  const response = await answered;
  return `${response.statusCode} ${(await bodyOf(response)).toString()}`;
}

async function askHttp2(rig: HttpRig, { method, path, headers, body }: Asked): Promise<string> {
  const session = http2Connect(rig.http.url, { ca: CA });
  try {
    const stream = session.request({ ...headers, ":method": method, ":path": path }, { endStream: false });
    const answered = new Promise<number | undefined>((resolve, reject) => {
      stream.on("response", (head) => resolve(head[":status"]));
      stream.on("error", reject);
    });
    stream.end(body);
    return `${await answered} ${(await bodyOf(stream)).toString()}`;
  } finally {
    session.close();
  }
}

const VERSIONS = { "HTTP/1.1": askHttp1, "HTTP/2": askHttp2 };

const isAlive = async (rig: HttpRig): Promise<void> =>
  assert.match(await askHttp1(rig, HEALTH), /^200 .*alive/);

test("TLS: ALPN says which version is spoken; a client without it speaks HTTP/1.1", async (t) => {
  const rig = await start(t);
  const spoken = async (...ALPNProtocols: string[]): Promise<unknown> =>
    (await shakeHands(t, rig, ALPNProtocols.length === 0 ? {} : { ALPNProtocols })).alpnProtocol;
  assert.deepEqual(
    [
      await spoken("h2", "http/1.1"),
      await spoken("http/1.1"),
      await spoken("http/1.1", "h2"),
      await spoken(),
    ],
    ["h2", "http/1.1", "h2", false],
  );
  await assert.rejects(spoken("spdy/1"), { code: "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL" });
  const plain = await shakeHands(t, rig);
  plain.write("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
  assert.match((await readToEnd(plain)).toString(), /^HTTP\/1\.1 200 OK\r\n/);
  for (const ask of Object.values(VERSIONS)) assert.match(await ask(rig, HEALTH), /^200 .*alive/);
});

test("TLS: versions before 1.2 are refused", async (t) => {
  const rig = await start(t);
  const speaking = (version: SecureVersion): Promise<TLSSocket> =>
    shakeHands(t, rig, { minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" });
  for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
    assert.equal((await speaking(version)).getProtocol(), version);
  }
  for (const version of ["TLSv1", "TLSv1.1"] as const) {
    await assert.rejects(speaking(version), { code: "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION" });
  }
  await isAlive(rig);
});

test("TLS: plain text is cut off, and gets no answer", async (t) => {
  const rig = await start(t);
  const plain = {
    "HTTP/1.1": `GET /v1/models HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${ALICE_KEY}\r\n\r\n`,
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u0004\0\0\0\0\0",
  };
  for (const [what, bytes] of Object.entries(plain)) {
    const socket = await openSocket(t, rig);
    socket.write(bytes);
    // At the most an alert.
    const said = await readToEnd(socket);
    assert.ok(said.length <= 7, `${what}: ${said.toString("latin1")}`);
  }
  const requests = rig.logLines.filter((line) => line.includes('"kind"'));
  assert.deepEqual(requests, [], "no request came of it");
  await isAlive(rig);
});

test("F2: a client that does not finish its TLS handshake is cut", async (t) => {
  const rig = await start(t, { portLimits: { firstBytesTimeoutMs: 300 } });
  const half = Buffer.from("16030100f8010000f40303", "hex");
  const sockets = [];
  for (const bytes of [Buffer.of(), half]) {
    const socket = await openSocket(t, rig);
    socket.write(bytes);
    sockets.push(socket);
  }
  // One that hangs up in the middle, half of it.
  sockets.at(-1)?.end();
  const closed = sockets.map((socket) => ({ socket, isOver: false }));
  for (const one of closed) void readToEnd(one.socket).then(() => (one.isOver = true));
  await eventually(() => closed.every(({ isOver }) => isOver), "both are cut");
  await eventually(
    () =>
      isAlive(rig).then(
        () => true,
        () => false,
      ),
    "others are served",
  );
});

test("TLS: the native client goes through, and tells nothing to a server that it does not trust", async (t) => {
  const rig = await start(t);
  const options = { url: rig.http.url, apiKey: ALICE_KEY, homeKey: new Uint8Array(32).fill(5) };
  await using trusting = await openClient({ ...options, ca: CA, directory: temporaryDirectory(t) });
  const stream = await trusting.open({ first: new Uint8Array([1, 2, 3]) });
  for await (const { body } of stream.events) {
    assert.deepEqual(body, new Uint8Array([1, 2, 3]));
    break;
  }
  const blobId = await stream.putBlob(new Uint8Array(100_000).fill(9));
  assert.deepEqual(await stream.getBlob(blobId), new Uint8Array(100_000).fill(9));
  await stream.close();
  assert.equal(await stream.ended, "completed");

  // The lines of the client before may still be written: another principal's are told apart.
  await using wary = await openClient({ ...options, apiKey: BOB_KEY, directory: temporaryDirectory(t) });
  const refused = await wary.open({ first: new Uint8Array([1]) });
  await eventually(() => refused.status.trouble !== undefined, "it says why");
  assert.notEqual(refused.status.state, "live");
  await eventually(() => rig.logLines.some((line) => line.includes('"alice"')), "a request has its line");
  assert.ok(!rig.logLines.some((line) => line.includes('"bob"')), "no request came");
});

for (const [version, ask] of Object.entries(VERSIONS)) {
  test(`TLS: the gateway answers over ${version}, streamed and in one piece`, async (t) => {
    const rig = await start(t, { mounts: [gatewayHttp({ answers: new ScriptedAnswers() })] });
    const chat = (stream: boolean): Promise<string> =>
      ask(rig, {
        method: "POST",
        path: "/v1/chat/completions",
        headers: { ...bearer(ALICE_KEY), "content-type": "application/json" },
        body: JSON.stringify({ model: "acme/one", stream, messages: [{ role: "user", content: "hi" }] }),
      });
    assert.match(await chat(true), /^200 [^]*hello[^]*\[DONE\]\n\n$/);
    assert.match(await chat(false), /^200 .*"content":"hello"/);
    const unsigned = { ...HEALTH, path: "/v1/models" };
    assert.match(await ask(rig, unsigned), /^401 /);
    assert.match(await ask(rig, { ...unsigned, headers: { "api-key": ALICE_KEY } }), /^200 .*acme\/one/);
  });
}
