/**
 * What a call through `holdfast/fetch` does next, whatever happens to it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  begin,
  type Input,
  type Next,
  RETRY_CODES,
  type State,
  step,
  stopAgainMs,
} from "../../src/fetch/call.ts";
import { Keys, requestName } from "../../src/fetch/keys.ts";
import { RETRY_CODES as GATEWAY_CODES } from "../../src/gateway/openai/gateway-error.ts";

const PATIENCE_MS = 300_000;
const at = { jitter: 1, nowMs: 0 };
const chunk = (delta: object, finish_reason: string | null = null): string =>
  JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, delta, finish_reason }] });
const frame = (data: string, id = "0:1", nowMs = 0): Input => ({ kind: "frame", id, data, jitter: 1, nowMs });
const refused = (status: number, code: string | null | undefined, retryAfterMs = 0): Input => ({
  kind: "refused",
  refusal: { status, code, retryAfterMs },
  ...at,
});
const BROKEN: Input = { kind: "broken", ...at };
const ROLE = chunk({ role: "assistant", content: "" });
const WORD = chunk({ content: "word" });

function after(...inputs: readonly Input[]): readonly [State, readonly Next["kind"][]] {
  let state = begin(PATIENCE_MS, 0);
  const kinds = inputs.map((input) => {
    const [next, { kind }] = step(state, input);
    state = next;
    return kind;
  });
  return [state, kinds];
}

const nextOf = (...inputs: readonly Input[]): Next["kind"] | undefined => after(...inputs)[1].at(-1);
const STREAMED: Input = { kind: "streamed" };
const WAITED: Input = { kind: "waited" };

test("before the head, and before all of an answer in one piece, a break is answered by the POST again", () => {
  assert.deepEqual(after(BROKEN, WAITED, BROKEN, WAITED)[1], ["wait", "post", "wait", "post"]);
  assert.deepEqual(after({ kind: "unstreamed" }, BROKEN, WAITED)[1], ["read_body", "wait", "post"]);
  const [state, kinds] = after({ kind: "unstreamed" }, { kind: "read_whole" });
  assert.deepEqual([kinds.at(-1), state.left], ["end", "whole"]);
});

test("behind the head it is answered by a GET behind the last frame; the head is handed over once", () => {
  const [state, kinds] = after(
    STREAMED,
    frame(ROLE, "0:0"),
    frame(WORD, "0:7"),
    BROKEN,
    WAITED,
    STREAMED,
    frame(WORD, "0:8"),
  );
  assert.deepEqual(kinds, ["hand_over", "pass", "pass", "wait", "get", "read_frame", "pass"]);
  assert.equal(state.lastId, "0:8");
  assert.deepEqual(after(STREAMED, BROKEN, WAITED)[1], ["hand_over", "wait", "get"]);
});

test("[DONE] ends it, and nothing counts behind it", () => {
  const [state, kinds] = after(STREAMED, frame(WORD), frame("[DONE]"), { kind: "left" }, BROKEN);
  assert.deepEqual(kinds.slice(2), ["end", "nothing", "nothing"]);
  assert.equal(state.left, "whole");
});

test("Responses: its last event ends it, whatever its status; errors and content are known as in chat", () => {
  const event = (type: string, more: object = {}): Input =>
    frame(JSON.stringify({ type, sequence_number: 1, ...more }));
  for (const status of ["completed", "incomplete", "failed"])
    assert.deepEqual(after(STREAMED, event(`response.${status}`))[1], ["hand_over", "end"]);
  const error = (code: string): Input => event("error", { code, error: { message: "no", code } });
  assert.deepEqual(after(STREAMED, error("answer_interrupted"))[1], ["hand_over", "wait"]);
  assert.deepEqual(after(STREAMED, error("answer_diverged"))[1], ["hand_over", "end"]);
  const begun = [STREAMED, event("response.created"), event("response.in_progress")];
  assert.equal(after(...begun, { kind: "left" })[1].at(-1), "nothing");
  assert.equal(after(...begun, event("response.output_text.delta"), { kind: "left" })[1].at(-1), "stop");
});

test("leaving behind the first content stops the answer, before it only detaches", () => {
  const tool = chunk({ tool_calls: [{ index: 0 }] });
  for (const content of [WORD, tool, chunk({ reasoning_content: "hm" }), chunk({}, "stop")]) {
    const [state, kinds] = after(STREAMED, frame(ROLE), frame(content), { kind: "left" });
    assert.deepEqual([kinds.at(-1), state.left], ["stop", "spent"]);
  }
  for (const none of [ROLE, chunk({}), chunk({ content: "" })]) {
    const [state, kinds] = after(STREAMED, frame(none), { kind: "left" });
    assert.deepEqual([kinds.at(-1), state.left], ["nothing", "unfinished"]);
  }
  assert.deepEqual(after({ kind: "left" })[1], ["nothing"]);
});

test('the codes that mean "ask again" are those of the gateway, as a status and as a frame; all others are the answer', () => {
  assert.deepEqual(RETRY_CODES, GATEWAY_CODES);
  const errorFrame = (code: string | null): Input =>
    frame(JSON.stringify({ error: { message: "no", code } }));
  for (const code of RETRY_CODES) {
    assert.equal(nextOf(refused(503, code)), "wait");
    assert.equal(nextOf(STREAMED, frame(WORD), errorFrame(code)), "wait");
  }
  for (const code of ["upstream_interrupted", "answer_diverged", "model_unavailable", null]) {
    assert.equal(nextOf(refused(503, code)), "refuse");
    assert.equal(nextOf(STREAMED, frame(WORD), errorFrame(code)), "end");
  }
  for (const status of [400, 401, 404, 409, 410, 429])
    assert.equal(nextOf(refused(status, "some_code")), "refuse");
});

test("a proxy whose server is being started is no answer; in the middle of one only the gateway can refuse", () => {
  for (const status of [502, 503, 504]) assert.equal(nextOf(refused(status, undefined)), "wait");
  for (const status of [404, 500]) assert.equal(nextOf(refused(status, undefined)), "refuse");
  assert.equal(nextOf(STREAMED, frame(WORD), BROKEN, WAITED, refused(404, undefined)), "fail");
  assert.equal(nextOf(STREAMED, frame(WORD), BROKEN, WAITED, refused(404, "not_found")), "refuse");
});

test("it waits longer from break to break, never less than retry-after, and no longer than its patience since the gateway was heard", () => {
  const delays: number[] = [];
  let state = begin(PATIENCE_MS, 0);
  for (let count = 0; count < 9; count++) {
    const [next, wait] = step(state, { ...BROKEN, jitter: count === 0 ? 0 : 1 });
    state = next;
    if (wait.kind === "wait") delays.push(wait.delayMs);
  }
  assert.deepEqual(delays, [50, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
  const [, later] = step(begin(PATIENCE_MS, 0), refused(503, "overloaded", 7_000));
  assert.deepEqual(later, { kind: "wait", delayMs: 7_000 });
  const [given, last] = step(begin(PATIENCE_MS, 0), refused(503, "overloaded", PATIENCE_MS + 1));
  assert.deepEqual([given.left, last.kind], ["unfinished", "refuse"]);
  const late: Input = { kind: "broken", jitter: 1, nowMs: PATIENCE_MS };
  assert.equal(nextOf(late), "fail");
  assert.equal(nextOf(STREAMED, frame(WORD, "0:1", 1_000), late), "wait");
});

test("the same request again is a retry unless its key is spent", () => {
  const leftBy = (...inputs: readonly Input[]): State["left"] => after(...inputs)[0].left;
  assert.equal(leftBy(refused(500, "x")), "unfinished");
  assert.equal(leftBy(refused(429, "rate_limit_exceeded")), "unfinished");
  assert.equal(leftBy(refused(409, "idempotency_key_reused")), "spent");
  assert.equal(leftBy(refused(410, "answer_stopped")), "spent");
});

test("a stop is said again until a server has heard it, for about a minute", () => {
  assert.equal(stopAgainMs(0, 200, 1), undefined);
  assert.equal(stopAgainMs(0, 404, 1), undefined);
  let [tries, sumMs] = [0, 0];
  for (; ; tries++) {
    const delayMs = stopAgainMs(tries, tries % 2 === 0 ? undefined : 503, 1);
    if (delayMs === undefined) break;
    sumMs += delayMs;
  }
  assert.ok(sumMs > 50_000 && sumMs < 90_000, `${sumMs} ms`);
});

test("a key that was left is given once to the same request, while it is of use; two at once are two", () => {
  const keys = new Keys();
  const [one, other] = [requestName(["url", "body"]), requestName(["url", "body "])];
  const key = keys.take(one, 0);
  const second = keys.take(one, 0);
  assert.notEqual(second, key);
  assert.match(key, /^[0-9a-f]{32}$/);
  keys.leave(one, key, 10);
  assert.notEqual(keys.take(other, 0), key);
  assert.equal(keys.take(one, 9), key);
  assert.notEqual(keys.take(one, 9), key);
  keys.leave(one, key, 10);
  keys.leave(one, second, 20);
  assert.equal(keys.take(one, 10), second);
  for (let at = 0; at < 300; at++) keys.leave(`request ${at}`, `key ${at}`, 10);
  assert.notEqual(keys.take("request 0", 0), "key 0", "the oldest are forgotten");
  assert.equal(keys.take("request 299", 0), "key 299");
});
