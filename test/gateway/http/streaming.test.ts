import assert from "node:assert/strict";
import { test } from "node:test";
import { GatewayError } from "../../../src/gateway/openai/index.ts";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { ALICE_KEY, ask, bearer, eventually, readJson, VERSIONS } from "../../server/http/rig.ts";
import { askChat, chatBody, contentOf, errorOf, framesOf, openChat, startGateway } from "./gateway-rig.ts";
import { calls, ended, failed, restarted, ScriptedAnswer, text } from "./scripted-answers.ts";

const STREAM = { body: chatBody({ stream: true }) };

for (const version of VERSIONS) {
  test(`over HTTP/${version} an answer is streamed: role first, ids, finish, usage, [DONE], end`, async (t) => {
    const rig = await startGateway(t);
    const answer = new ScriptedAnswer("stream-1", [text(4, "one "), text(5, "two"), ended(6)]);
    rig.answers.give(answer);
    const response = await askChat(rig, version, STREAM);
    assert.equal(response.status, 200);
    assert.match(String(response.headers["content-type"]), /^text\/event-stream/);
    assert.equal(response.headers["x-holdfast-stream"], "stream-1");
    assert.equal(response.headers["cache-control"], "no-store");
    assert.match(String(response.headers["x-request-id"]), /^req_[0-9a-f]{32}$/);
    const frames = framesOf(response.body.toString());
    assert.match(frames[0]?.data ?? "", /"role":"assistant"/);
    assert.equal(contentOf(frames), "one two");
    assert.deepEqual(
      frames.map(({ id }) => id),
      ["0:0", "0:4", "0:5", "0:5.1", "0:6", "0:6"],
    );
    assert.match(frames.at(-3)?.data ?? "", /"finish_reason":"stop"/);
    assert.match(frames.at(-2)?.data ?? "", /"prompt_tokens":9/);
    assert.equal(frames.at(-1)?.data, "[DONE]");
    assert.equal(await answer.delivery, true);
    assert.deepEqual(answer.deliveries, [true]);
  });

  test(`over HTTP/${version} tool calls end an answer, and one in a piece says the same`, async (t) => {
    const rig = await startGateway(t);
    const script = [text(1, "look"), calls(2, ["ls", "cat"])];
    const [streamed, whole] = [new ScriptedAnswer("s", script), new ScriptedAnswer("s", script)];
    rig.answers.give(streamed, whole);
    const frames = framesOf((await askChat(rig, version, STREAM)).body.toString());
    assert.match(frames.at(-3)?.data ?? "", /"finish_reason":"tool_calls"/);
    const response = await askChat(rig, version);
    assert.equal(response.headers["x-holdfast-stream"], "s");
    assert.equal(response.headers["content-type"], "application/json");
    const body = readJson(response.body);
    assert.equal(body.get("object"), "chat.completion");
    assert.match(
      response.body.toString(),
      /"id":"call0aaaa".*"id":"call1aaaa".*"finish_reason":"tool_calls"/,
    );
    assert.deepEqual([await streamed.delivery, await whole.delivery], [true, true]);
  });

  test(`over HTTP/${version} a failure before the first word is a status, later an error chunk without [DONE]`, async (t) => {
    const rig = await startGateway(t);
    const early = new ScriptedAnswer("a", [failed(1)]);
    rig.answers.give(early);
    const refused = await askChat(rig, version, STREAM);
    assert.equal(refused.status, 500);
    assert.equal(errorOf(refused).type, "server_error");
    assert.equal(await early.delivery, true, "the failure is what there was to tell");

    const late = new ScriptedAnswer("b", [text(1, "so"), failed(2)]);
    rig.answers.give(late);
    const begun = await askChat(rig, version, STREAM);
    assert.equal(begun.status, 200);
    const frames = framesOf(begun.body.toString());
    assert.match(frames.at(-1)?.data ?? "", /^\{"error":\{.*"type":"server_error"/);
    assert.ok(!begun.body.toString().includes('finish_reason":"'), "no finish reason");
    assert.equal(await late.delivery, true);

    const collected = new ScriptedAnswer("c", [text(1, "so"), failed(2)]);
    rig.answers.give(collected);
    assert.equal((await askChat(rig, version)).status, 500);
    assert.equal(await collected.delivery, true);
  });

  test(`over HTTP/${version} an answer that is lost on its way is told so, and counts as not delivered`, async (t) => {
    const rig = await startGateway(t);
    const diverged = { kind: "diverged", eventId: 2, endsEvent: true } as const;
    const lost = new HoldfastError("unavailable", "the store is gone; come back", { retryAfterMs: 1_500 });
    for (const script of [
      [text(1, "so"), lost],
      [text(1, "so"), "end" as const],
      [text(1, "so"), diverged],
    ]) {
      const answer = new ScriptedAnswer("s", script);
      rig.answers.give(answer);
      const response = await askChat(rig, version, STREAM);
      assert.equal(response.status, 200);
      assert.match(framesOf(response.body.toString()).at(-1)?.data ?? "", /^\{"error"/);
      assert.equal(await answer.delivery, false);
    }
    for (const script of [[lost], [text(1, "so"), lost]]) {
      const answer = new ScriptedAnswer("s", script);
      rig.answers.give(answer);
      const response = await askChat(rig, version);
      assert.equal(response.status, 503);
      assert.equal(response.headers["retry-after"], "2");
      assert.equal(await answer.delivery, false);
    }
    rig.answers.give(new GatewayError({ status: 409, type: "invalid_request_error", message: "no" }));
    assert.equal((await askChat(rig, version, STREAM)).status, 409);
  });

  test(`over HTTP/${version} the head waits for the first content: what fails before it is a status, also when a step began anew`, async (t) => {
    const rig = await startGateway(t, { headHeldMs: 60_000, heartbeatMs: 5 });
    const failing = new ScriptedAnswer("failing", [restarted(1)]);
    rig.answers.give(failing);
    const asked = askChat(rig, version, STREAM);
    await eventually(() => failing.taken === 1, "it was asked for");
    failing.add(failed(2));
    const refused = await asked;
    assert.deepEqual([refused.status, errorOf(refused).type], [500, "server_error"]);
    const speaking = new ScriptedAnswer("speaking", [restarted(1)]);
    rig.answers.give(speaking);
    const opening = openChat(t, rig, version);
    await eventually(() => speaking.taken === 1, "it was asked for");
    speaking.add(text(2, "there"));
    const response = await opening;
    await response.until("there");
    assert.match(framesOf(response.soFar())[0]?.data ?? "", /"role":"assistant"/);
    speaking.add(ended(3));
    await response.ended;
  });

  test(`over HTTP/${version} a model that is slow to begin: the role comes first, then heartbeats that are data`, async (t) => {
    const rig = await startGateway(t, { headHeldMs: 20, heartbeatMs: 20 });
    const answer = new ScriptedAnswer("slow", []);
    rig.answers.give(answer);
    const response = await openChat(t, rig, version);
    assert.equal(response.status, 200);
    await response.until('"role":"assistant"');
    await response.until('"delta":{}');
    assert.ok(
      framesOf(response.soFar()).every(({ id }) => id === "0:0"),
      "no progress",
    );
    answer.add(text(1, "there"));
    await response.until("there");
    const before = framesOf(response.soFar()).length;
    answer.add(ended(2));
    await response.ended;
    assert.match(response.soFar(), /\[DONE\]/);
    assert.ok(framesOf(response.soFar()).length > before);
    assert.equal(await answer.delivery, true);
  });

  test(`over HTTP/${version} a stream's answer is resumed behind the last frame, to the very end`, async (t) => {
    const rig = await startGateway(t);
    const resume = async (
      id: string | undefined,
      script: ConstructorParameters<typeof ScriptedAnswer>[1],
    ) => {
      const answer = new ScriptedAnswer("stream-9", script);
      rig.answers.give(answer);
      const headers = { ...bearer(ALICE_KEY), ...(id === undefined ? {} : { "last-event-id": id }) };
      const response = await ask(rig, version, { path: "/v1/streams/stream-9/events", headers });
      assert.equal(response.status, 200);
      assert.equal(await answer.delivery, true);
      return framesOf(response.body.toString());
    };
    const all = await resume(undefined, [text(4, "one"), ended(5)]);
    assert.match(all[0]?.data ?? "", /"role"/);
    assert.equal(all.length, 5);
    assert.equal((await resume("0", [text(4, "one"), ended(5)])).length, 5);
    assert.deepEqual(await resume("", [text(4, "one"), ended(5)]), all, "no frame came behind the head");
    assert.deepEqual(await resume("0:0", [text(4, "one"), ended(5)]), all.slice(1));
    const rest = await resume("0:4", [ended(5)]);
    assert.deepEqual(rest, all.slice(2));
    assert.deepEqual(await resume("0:4.1", [ended(5)]), all.slice(3));
    assert.deepEqual(await resume("0:5", ["end"]), [{ id: "0:5", data: "[DONE]" }]);
    const places = rig.answers.resumed.map(({ principal, streamId, after }) => [
      principal,
      streamId,
      after?.eventId,
    ]);
    assert.deepEqual(
      places,
      [undefined, undefined, undefined, 0, 4, 4, 5].map((eventId) => ["alice", "stream-9", eventId]),
    );
    for (const id of ["x", "-1", "12", "0:1.5.2", "0:".padEnd(40, "9"), "0:01", "5:4"]) {
      const headers = { ...bearer(ALICE_KEY), "last-event-id": id };
      const refused = await ask(rig, version, { path: "/v1/streams/stream-9/events", headers });
      assert.equal(refused.status, 400, id);
      assert.equal(errorOf(refused).param, "Last-Event-ID");
    }
  });
}
