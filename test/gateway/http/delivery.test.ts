import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as tcpConnect } from "node:net";
import { connect as http2Connect } from "node:http2";
import { test } from "node:test";
import { HoldfastError } from "../../../src/protocol/index.ts";
import {
  ALICE_KEY,
  authenticate,
  bearer,
  eventually,
  type Version,
  VERSIONS,
} from "../../server/http/rig.ts";
import {
  askChat,
  CHAT,
  chatBody,
  errorOf,
  framesOf,
  type GatewayRig,
  JSON_TYPE,
  openChat,
  startGateway,
} from "./gateway-rig.ts";
import { calls, ended, ScriptedAnswer, text } from "./scripted-answers.ts";

for (const version of VERSIONS) {
  test(`over HTTP/${version} who hangs up in the middle has not got the answer; nobody reads it on`, async (t) => {
    const rig = await startGateway(t);
    const answer = new ScriptedAnswer("left", [text(1, "half")]);
    rig.answers.give(answer);
    const response = await openChat(t, rig, version);
    await response.until("half");
    assert.equal(rig.answers.chats[0]?.signal.aborted, false);
    response.hangUp();
    assert.equal(await answer.delivery, false);
    assert.equal(rig.answers.chats[0]?.signal.aborted, true);
    answer.add(text(2, "never read"), ended(3));
    await eventually(() => answer.isReturned, "the reader is gone");
    assert.deepEqual(answer.deliveries, [false]);
  });

  test(`over HTTP/${version} who hangs up at [DONE] has got all of it`, async (t) => {
    const rig = await startGateway(t);
    const answer = new ScriptedAnswer("done", [text(1, "all")]);
    rig.answers.give(answer);
    const response = await openChat(t, rig, version);
    await response.until("all");
    answer.add(ended(2));
    await response.until("[DONE]");
    response.hangUp();
    assert.equal(await answer.delivery, true);
    assert.deepEqual(answer.deliveries, [true]);
  });

  test(`over HTTP/${version} who hangs up before anything was said has not got it either`, async (t) => {
    const rig = await startGateway(t, { headHeldMs: 60_000 });
    const waiting = new ScriptedAnswer("waiting", []);
    const accepting = Promise.withResolvers<ScriptedAnswer>();
    rig.answers.give(waiting, accepting.promise);
    for (const [at, body] of [chatBody({ stream: true }), chatBody()].entries()) {
      const leave = await openRequest(rig, version, body);
      await eventually(() => rig.answers.chats.length === at + 1, "it was asked for");
      leave();
      await eventually(() => rig.answers.chats[at]?.signal.aborted === true, "it is noticed");
    }
    const late = new ScriptedAnswer("late", [ended(1)]);
    accepting.resolve(late);
    assert.deepEqual([await waiting.delivery, await late.delivery], [false, false]);
  });

  for (const whoEndsIt of ["the client", "the server"] as const) {
    test(`over HTTP/${version} the last piece was written but not taken when ${whoEndsIt} hangs up: not delivered`, async (t) => {
      const lastBytesTimeoutMs = whoEndsIt === "the server" ? 200 : 60_000;
      const rig = await startGateway(t, {}, { portLimits: { lastBytesTimeoutMs } });
      const answer = new ScriptedAnswer("large", [text(1, "so far")]);
      rig.answers.give(answer);
      const response = await openChat(t, rig, version);
      await response.until("so far");
      response.pause();
      // More than all buffers on the way hold.
      answer.add(calls(2, ["x".repeat(32 * 1024 * 1024)]));
      await eventually(() => answer.isReturned, "it is written");
      if (whoEndsIt === "the client") response.hangUp();
      assert.equal(await answer.delivery, false);
    });
  }

  test(`F2: over HTTP/${version} a client that takes nothing slows its answer down, and is cut`, async (t) => {
    const rig = await startGateway(t, { stalledMs: 300 });
    const words = "x".repeat(64 * 1024);
    const count = 1_000;
    const answer = new ScriptedAnswer(
      "large",
      Array.from({ length: count }, (_, at) => text(at + 1, words)),
    );
    rig.answers.give(answer);
    const response = await openChat(t, rig, version);
    response.pause();
    assert.equal(await answer.delivery, false);
    assert.ok(answer.taken < count / 2, `only what the network took was asked for: ${answer.taken}`);
  });

  test(`over HTTP/${version} a shutdown tells open answers to come back, and new requests too`, async (t) => {
    const rig = await startGateway(t);
    const [streamed, whole] = [new ScriptedAnswer("a", [text(1, "so far")]), new ScriptedAnswer("b", [])];
    rig.answers.give(streamed, whole);
    const response = await openChat(t, rig, version);
    await response.until("so far");
    const collected = askChat(rig, version);
    await eventually(() => rig.answers.chats.length === 2, "both are asked for");
    await rig.http.close({ drainMs: 5_000 });
    await response.ended;
    const last = framesOf(response.soFar()).at(-1)?.data ?? "";
    assert.match(last, /^\{"error":\{.*"code":"shutting_down"/);
    assert.ok(!response.soFar().includes("[DONE]"));
    const refused = await collected;
    assert.equal(refused.status, 503);
    assert.equal(refused.headers["retry-after"], "1");
    assert.deepEqual([errorOf(refused).type, errorOf(refused).code], ["server_error", "shutting_down"]);
    assert.match(String(errorOf(refused).message), /a step that was cut off continues or is generated again/);
    assert.deepEqual([await streamed.delivery, await whole.delivery], [false, false]);
  });

  test(`over HTTP/${version} an answer is cut when its API key is revoked`, async (t) => {
    let isRevoked = false;
    const check = async (apiKey: string | undefined): Promise<{ principal: string }> => {
      if (isRevoked) throw new HoldfastError("unauthenticated", "no");
      return authenticate(apiKey);
    };
    const rig = await startGateway(t, {}, { authenticate: check, recheckMs: 20 });
    const answer = new ScriptedAnswer("cut", [text(1, "so far")]);
    rig.answers.give(answer);
    const opened = await openChat(t, rig, version, { headers: { "x-api-key": ALICE_KEY } });
    await opened.until("so far");
    isRevoked = true;
    await assert.rejects(opened.ended);
    assert.equal(await answer.delivery, false);
  });
}

/** A request whose answer is not waited for. Returns how to hang up. */
async function openRequest(rig: GatewayRig, version: Version, body: string): Promise<() => void> {
  const headers = { ...bearer(ALICE_KEY), ...JSON_TYPE };
  if (version === 2) {
    const session = http2Connect(rig.http.url);
    session.on("error", () => undefined);
    const stream = session.request({ ...headers, ":method": "POST", ":path": CHAT }, { endStream: false });
    stream.on("error", () => undefined);
    stream.end(body);
    return () => session.destroy();
  }
  const socket = tcpConnect({ host: "127.0.0.1", port: rig.http.port });
  socket.on("error", () => undefined);
  await once(socket, "connect");
  const all = Object.entries({ host: "localhost", "content-length": String(body.length), ...headers });
  const lines = all.map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${CHAT} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
  return () => void socket.destroy();
}
