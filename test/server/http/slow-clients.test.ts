/**
 * Clients that are slow on purpose over HTTP/2, where no timeout of Node's own watches a request; and what they hold meanwhile. Those over
 * HTTP/1.1 are in `hostile.test.ts`, readers that do not read in `streams.test.ts` and in the gateway's `delivery.test.ts`.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Stream, connect as http2Connect } from "node:http2";
import { test, type TestContext } from "node:test";
import { gatewayHttp } from "../../../src/gateway/http/index.ts";
import { ScriptedAnswers } from "../../gateway/http/scripted-answers.ts";
import { ACK, frame, hello, TYPES } from "../../transport/raw-http2.ts";
import { attachHeaders } from "./slow-reader.ts";
import {
  ALICE_KEY,
  ask,
  bearer,
  bodyOf,
  eventually,
  type HttpRig,
  openSocket,
  readToEnd,
  startHttp,
  VERSIONS,
} from "./rig.ts";

const CONTINUATION = 0x9;
const CHAT = "/v1/chat/completions";
const JSON_HEADERS = { ...bearer(ALICE_KEY), "content-type": "application/json" };

/** A request whose body does not end. */
function begin(
  t: TestContext,
  rig: HttpRig,
  path: string,
  headers: Record<string, string>,
): ClientHttp2Stream {
  const session = http2Connect(rig.http.url);
  session.on("error", () => undefined);
  t.after(() => session.destroy());
  const stream = session.request({ ...headers, ":method": "POST", ":path": path }, { endStream: false });
  stream.on("error", () => undefined);
  return stream;
}

async function statusOf(stream: ClientHttp2Stream): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    stream.on("response", (head) => resolve(head[":status"]));
    stream.on("close", () => reject(new Error("closed without a response")));
  });
}

async function openRequests(rig: HttpRig): Promise<string[]> {
  const { body } = await ask(rig, 1, { path: "/metrics" });
  // The one that asks is one of them.
  return body
    .toString()
    .split("\n")
    .filter((line) => line.startsWith("holdfast_http_requests_open{") && !/ 0$|"metrics"/.test(line));
}

test("F2: over HTTP/2 a body that trickles in is refused, and what it held is given back", async (t) => {
  const limits = { bodyTimeoutMs: 200, bodiesBytesMax: 2_000 };
  const mounts = [gatewayHttp({ answers: new ScriptedAnswers(), limits })];
  const rig = await startHttp(t, { http: { mounts } });
  const slow = begin(t, rig, CHAT, JSON_HEADERS);
  slow.write(`{"user":"${"x".repeat(900)}`);
  const drip = setInterval(() => slow.write("x"), 20);
  t.after(() => clearInterval(drip));
  assert.equal(await statusOf(slow), 400);
  assert.match((await bodyOf(slow)).toString(), /request_timeout/);
  clearInterval(drip);
  const text = "x".repeat(800);
  const body = JSON.stringify({ model: "acme/one", messages: [{ role: "user", content: text }] });
  for (const version of VERSIONS) {
    const answer = await ask(rig, version, { method: "POST", path: CHAT, headers: JSON_HEADERS, body });
    assert.equal(answer.status, 200, answer.body.toString());
  }
});

test("F2: over HTTP/2 an attach that does not come to its end is cut", async (t) => {
  const rig = await startHttp(t);
  const calls = ["Attach", "Stream", "Listen"].map(async (call) => {
    const slow = begin(t, rig, `/holdfast.v1.StreamService/${call}`, attachHeaders("slow"));
    // The head of a message of 1,000 bytes, of which one comes now and then.
    slow.write(Buffer.from([0, 0, 0, 3, 232]));
    const drip = setInterval(() => slow.write(Buffer.from([0])), 100);
    t.after(() => clearInterval(drip));
    slow.resume();
    await new Promise((resolve) => slow.on("close", resolve));
    clearInterval(drip);
  });
  await Promise.all(calls);
  await eventually(async () => (await openRequests(rig)).length === 0, "nothing is left of them");
});

test("F2: over HTTP/2 who is refused before the body has come holds nothing by not ending it", async (t) => {
  const mounts = [gatewayHttp({ answers: new ScriptedAnswers() })];
  const rig = await startHttp(t, { http: { mounts, portLimits: { lastBytesTimeoutMs: 300 } } });
  const refused: readonly [string, Record<string, string>, number][] = [
    [CHAT, { "content-type": "application/json" }, 401],
    [CHAT, { ...JSON_HEADERS, "content-type": "text/plain" }, 415],
    ["/v1/nowhere", JSON_HEADERS, 404],
    ["/health", {}, 405],
    ["/nowhere", {}, 404],
    ["/holdfast.v1.StreamService/Append", { "content-type": "application/proto" }, 401],
    ["/holdfast.v1.StreamService/Attach", { "content-type": "text/plain" }, 415],
  ];
  for (const [path, headers, status] of refused) {
    const stream = begin(t, rig, path, headers);
    stream.write("x");
    stream.resume();
    assert.equal(await statusOf(stream), status, path);
  }
  await eventually(async () => (await openRequests(rig)).length === 0, "all are over");
});

test("F2: over HTTP/2 a connection whose headers do not end is cut", async (t) => {
  const portLimits = { idleTimeoutMs: 600_000, pingIntervalMs: 300 };
  const rig = await startHttp(t, { http: { portLimits } });
  const socket = await openSocket(t, rig);
  socket.write(hello());
  await once(socket, "data");
  socket.write(frame(TYPES.settings, ACK, 0, Buffer.of()));
  // A beginning of headers, with neither END_HEADERS nor END_STREAM. Until they end nothing else may come, no answer to a ping either.
  socket.write(frame(TYPES.headers, 0, 1, Buffer.from([0x82])));
  let frames = 0;
  const drip = setInterval(() => {
    frames++;
    socket.write(frame(CONTINUATION, 0, 1, Buffer.of()));
  }, 100);
  t.after(() => clearInterval(drip));
  let isOver = false;
  void readToEnd(socket).then(() => (isOver = true));
  await eventually(() => isOver, "it is cut");
  clearInterval(drip);
  assert.ok(frames > 0, "for its slowness, not for its first frame");
  assert.equal((await ask(rig, 2, { path: "/health" })).status, 200);
});
