/**
 * Every machine refuses an input that it does not know, loudly: silence would be a lost order.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as clientStream from "../../src/core/client-stream.ts";
import * as cursor from "../../src/core/cursor.ts";
import * as followedStream from "../../src/core/followed-stream.ts";
import * as hostedStream from "../../src/core/hosted-stream.ts";
import * as inbox from "../../src/core/inbox.ts";
import { recover } from "../../src/core/journal.ts";
import * as life from "../../src/core/life.ts";
import * as outbox from "../../src/core/outbox.ts";
import * as retry from "../../src/core/retry.ts";
import * as sender from "../../src/core/sender.ts";
import * as stall from "../../src/core/stall.ts";
import * as stop from "../../src/core/stop.ts";
import * as storeLife from "../../src/core/store-life.ts";
import * as toolJournal from "../../src/core/tool-journal.ts";
import * as turnStall from "../../src/core/turn-stall.ts";
import { attached, client, OPTIONS, tick } from "./client.ts";
import { host, OPTIONS as HOST_OPTIONS } from "./host.ts";
import { run } from "./run.ts";

const machines = {
  "client-stream": [clientStream.step, client()],
  cursor: [cursor.step, cursor.init(0)],
  "followed-stream": [
    followedStream.step,
    followedStream.init(followedStream.DEFAULTS, HOST_OPTIONS, "fsync", host().durable, []),
  ],
  "hosted-stream": [hostedStream.step, host()],
  inbox: [inbox.step, inbox.init(0, [], false)],
  life: [life.step, life.init(false, undefined)],
  outbox: [outbox.step, outbox.init({ numbered: true, acked: 0, unackedBytes: [] })],
  retry: [retry.step, retry.init(OPTIONS.retry, 0)],
  sender: [sender.step, sender.init(sender.DEFAULTS, 0, 0)[0]],
  stall: [stall.step, stall.init(stall.DEFAULTS)],
  stop: [stop.step, stop.init(false)],
  "store-life": [storeLife.step, storeLife.init(storeLife.DEFAULTS, 0)],
  "tool-journal": [toolJournal.step, toolJournal.init([], false)],
  "turn-stall": [turnStall.step, turnStall.init(turnStall.DEFAULTS)],
} as const;

for (const [name, [step, state]] of Object.entries(machines)) {
  test(`${name} refuses an input it does not know`, () => {
    // Reflection is the one way past the types that would forbid this.
    const act = (): void => void Reflect.apply(step, undefined, [state, { kind: "nonsense" }]);
    assert.throws(act, AssertionFailed);
  });
}

test("a host refuses a letter that says what nobody knows", () => {
  const input = { kind: "letter", said: { kind: "nonsense" }, nowMs: 0 };
  assert.throws(() => void Reflect.apply(hostedStream.step, undefined, [host(), input]), AssertionFailed);
});

test("a journal with a record nobody knows is damaged, never skipped", () => {
  const opened = { kind: "opened", journalId: "laptop", takesOver: false, createdMs: 0 };
  assert.throws(
    () => void Reflect.apply(recover, undefined, [[opened, { kind: "nonsense" }]]),
    AssertionFailed,
  );
});

test("a client refuses a frame or a phase that nobody knows", () => {
  const input = { kind: "frame", connection: 1, frame: { kind: "nonsense" }, nowMs: 0, random: 0 };
  assert.throws(() => void Reflect.apply(clientStream.step, undefined, [attached(), input]), AssertionFailed);
  const lost = { ...client(), phase: "nonsense" };
  assert.throws(() => void Reflect.apply(clientStream.step, undefined, [lost, tick()]), AssertionFailed);
});

test("what is unreachable names what reached it", () => {
  assert.throws(
    () => void Reflect.apply(run, undefined, [stop.step, stop.init(false), [{ kind: "nonsense" }]]),
    /nonsense/,
  );
});
