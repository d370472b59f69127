import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect as http2Connect } from "node:http2";
import { connect as tcpConnect } from "node:net";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { http2Connect as holdfastConnect } from "../../../src/transport/node/http2-client.ts";
import { Dialed } from "./dial.ts";
import { attachHeaders } from "./slow-reader.ts";
import { ask, eventually, type HttpRig, startHttp, VERSIONS } from "./rig.ts";

const BATCH = 500;
const ROUNDS = 10;
const PATIENCE_MS = 300_000;

const descriptors = (): number => {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return 0;
  }
};

/** Opens a connection, says something on it, drops it without a word. */
async function dropHttp1(rig: HttpRig, at: number): Promise<void> {
  const socket = tcpConnect({ host: "127.0.0.1", port: rig.http.port });
  socket.on("error", () => undefined);
  await once(socket, "connect");
  const headers = Object.entries(attachHeaders("stormed")).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = `POST /holdfast.v1.StreamService/Attach HTTP/1.1\r\nhost: localhost\r\n${headers.join("")}\r\n`;
  // Some drop at once, some in the middle of their head, some within their body.
  const sayings = ["", "PO", request.slice(0, 60), request];
  socket.write(sayings[at % sayings.length] ?? "");
  await new Promise((resolve) => setImmediate(resolve));
  if (at % 2 === 0) socket.resetAndDestroy();
  else socket.destroy();
}

async function dropHttp2(rig: HttpRig, at: number): Promise<void> {
  const session = http2Connect(rig.http.url);
  session.on("error", () => undefined);
  await once(session, "connect");
  const head = {
    ...attachHeaders("stormed"),
    ":method": "POST",
    ":path": "/holdfast.v1.StreamService/Stream",
  };
  if (at % 3 !== 0) {
    const stream = session.request(head, { endStream: false });
    stream.on("error", () => undefined);
    if (at % 3 === 1) stream.write(Buffer.from("00000000", "hex"));
  }
  await new Promise((resolve) => setImmediate(resolve));
  session.destroy();
}

test("F2: after 10,000 connections opened and dropped the server is up, and memory and descriptors are back", async (t) => {
  // Both ends share one event loop, which the storm keeps busy: neither may take the other for dead meanwhile.
  const rig = await startHttp(t, {
    http: { portLimits: { connectionsMax: 2_000, pingIntervalMs: PATIENCE_MS } },
  });
  const dialing = holdfastConnect({ url: rig.http.url, pingIntervalMs: PATIENCE_MS });
  t.after(() => dialing.close());
  const witness = new Dialed(dialing.connect, "witness");
  await witness.welcomed();
  // The first round warms everything up, so that what remains afterwards is a leak.
  const storm = async (): Promise<void> => {
    for (const drop of [dropHttp1, dropHttp2]) {
      await Promise.all(Array.from({ length: BATCH }, (_, at) => drop(rig, at)));
    }
    await eventually(async () => {
      const { body } = await ask(rig, 1, { path: "/metrics" });
      // The witness's socket, and the one that asks.
      return /^holdfast_http_sockets 2$/m.test(body.toString());
    }, "all sockets are gone");
  };
  // A writer that says nothing for long is taken for gone.
  const speak = async (seqno: number): Promise<void> => {
    witness.chunk(seqno, Buffer.from("still here"));
    await witness.get("event", ({ eventId }) => eventId > seqno);
  };
  await storm();
  await speak(0);
  const descriptorsBefore = descriptors();
  const memoryBefore = memory();
  for (let round = 1; round < ROUNDS; round++) {
    await storm();
    await speak(round);
  }
  // The lines of the log are the test's own.
  rig.logLines.length = 0;
  assert.ok(
    descriptors() <= descriptorsBefore + 5,
    `${descriptors()} descriptors, ${descriptorsBefore} before`,
  );
  const grownBytes = memory() - memoryBefore;
  assert.ok(grownBytes < 8 * 1024 * 1024, `the heap has grown by ${grownBytes} bytes`);

  await speak(ROUNDS);
  for (const version of VERSIONS) assert.equal((await ask(rig, version, { path: "/health" })).status, 200);
  const open = (await ask(rig, 1, { path: "/metrics" })).body.toString();
  assert.match(open, /holdfast_http_requests_open\{kind="attach"\} 0\n/);
  assert.match(open, /holdfast_connections 1\n/);
});

/** What is in use after a collection. */
function memory(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") Reflect.apply(collect, undefined, []);
  return process.memoryUsage().heapUsed;
}
