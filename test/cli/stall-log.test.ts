/**
 * What `holdfast serve` writes into its log about stalls.
 */
import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { pino } from "pino";
import { logStall } from "../../src/node/stall-log.ts";
import type { StallNews } from "../../src/core/standstill.ts";
import { streamHash } from "../../src/server/http/access-log.ts";

const STREAM = { principal: "alice", idempotencyKey: "a-secret-name" };

function lineOf(news: StallNews): {
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
} {
  let text = "";
  const into = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString();
      done();
    },
  });
  logStall(pino(into), "server", STREAM, news);
  const fields: unknown = JSON.parse(text);
  assert.ok(typeof fields === "object" && fields !== null);
  return { text, fields: { ...fields } };
}

const about = { side: "server", principal: "alice", stream: streamHash("alice", "a-secret-name") };
const unanswered = [{ request: "exec 1.0", ageMs: 31_000 }];

test("a stall is a warning that says what stands still, for how long, and which requests are unanswered", () => {
  const news = { clock: "unanswered", stuck: "exec 1.0", stillMs: 31_000, unanswered } as const;
  const { fields } = lineOf({ kind: "stalled", ...news });
  const { level, time: _, pid: _pid, hostname: _host, msg, ...rest } = fields;
  assert.deepEqual([level, msg], [pino.levels.values["warn"], "stall detected"]);
  assert.deepEqual(rest, { ...about, ...news });
});

test("that activity has resumed is no warning, and says how long the stall was", () => {
  const { fields } = lineOf({ kind: "resumed", clock: "no_progress", stuck: "the turn", stillMs: 90_000 });
  assert.deepEqual(
    [fields["level"], fields["msg"], fields["stillMs"]],
    [pino.levels.values["info"], "activity resumed after a stall", 90_000],
  );
});

test("a stream that ends during a stall leaves a line too", () => {
  const { fields } = lineOf({ kind: "ended", clock: "no_progress", stuck: "the turn" });
  assert.equal(fields["msg"], "the stream ended during a stall");
});

test("E4: no line has the name of a stream", () => {
  const { text } = lineOf({ kind: "ended", clock: "no_progress", stuck: "the turn" });
  assert.ok(!text.includes(STREAM.idempotencyKey));
});
