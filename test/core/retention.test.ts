/**
 * How long streams stay, and what a starting client does with the journals it finds.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect, isWithinWindow, WINDOW_MS } from "../../src/core/auto-resume.ts";
import { type JournalRecord, type Outcome, recover } from "../../src/core/journal.ts";
import * as retention from "../../src/core/retention.ts";

const options: retention.Options = { retentionMs: 1_000, tombstoneMs: 5_000 };

test("A7: a stream goes when nothing happened for longer than its time", () => {
  assert.equal(retention.isExpired(options, 500, false, 1_500), false);
  assert.equal(retention.isExpired(options, 500, false, 1_501), true);
});

test("F1: a stream with a writer attached never expires", () => {
  assert.equal(retention.isExpired(options, 500, true, 1e12), false);
});

test("D7: the time left counts from the last activity and is never negative", () => {
  assert.equal(retention.retentionLeftMs(options, 500, 600), 900);
  assert.equal(retention.retentionLeftMs(options, 500, 9_999), 0);
});

const opened: JournalRecord = { kind: "opened", journalId: "laptop", takesOver: false, createdMs: 0 };
const found = (...records: readonly JournalRecord[]): string => inspect(recover([opened, ...records])).kind;
const ended = (outcome: Outcome): JournalRecord => ({ kind: "ended", outcome });

test("a stream that was generating is resumed", () => {
  assert.equal(found({ kind: "attached", serverTimeMs: 5 }), "resume");
  assert.equal(found(), "resume");
});

test("D3: a stream whose abort was wanted and not yet confirmed is resumed, to say it again", () => {
  assert.equal(found({ kind: "abort" }), "resume");
});

test("orphaned and ended journals are cleared", () => {
  assert.equal(inspect(undefined).kind, "clear");
  for (const outcome of ["completed", "aborted", "failed"] as const)
    assert.equal(found(ended(outcome)), "clear");
});

test("damaged and fenced journals are evidence and are kept", () => {
  assert.equal(inspect("damaged").kind, "keep");
  assert.equal(found(ended("fenced")), "keep");
});

test("a lost journal is cleared when nothing in it is owed, and kept while something is", () => {
  const body = new Uint8Array(1);
  const said: JournalRecord = { kind: "said", seqno: 0, isClose: false, body, execId: undefined };
  const received: JournalRecord = {
    kind: "exec_received",
    execId: "e1",
    eventId: 1,
    argsHash: "a",
    repeatable: false,
    needsApproval: false,
    request: body,
  };
  const acked: JournalRecord = { kind: "acked", nextSeqno: 1 };
  const answer: JournalRecord = { kind: "said", seqno: 1, isClose: false, body, execId: "e1" };
  assert.equal(found(ended("lost")), "clear");
  assert.equal(found(said, acked, ended("lost")), "clear");
  assert.equal(found(said, acked, received, answer, { kind: "acked", nextSeqno: 2 }, ended("lost")), "clear");
  assert.equal(found(said, ended("lost")), "keep");
  assert.equal(found(said, acked, received, ended("lost")), "keep");
  assert.equal(found(said, acked, received, answer, ended("lost")), "keep");
});

test("D5: a degraded stream ended with its connection and must not be opened again", () => {
  assert.equal(found({ kind: "degraded" }), "mark_aborted");
});

test("D7: the window is judged by two times of the server's clock", () => {
  const welcome = (serverTimeMs: number, lastActivityMs = 0) => ({ serverTimeMs, lastActivityMs });
  assert.equal(isWithinWindow(100, welcome(100 + WINDOW_MS), WINDOW_MS), true);
  assert.equal(isWithinWindow(100, welcome(101 + WINDOW_MS), WINDOW_MS), false);
  assert.equal(isWithinWindow(100, welcome(101 + WINDOW_MS, 101), WINDOW_MS), true);
  assert.equal(isWithinWindow(undefined, welcome(1e15), WINDOW_MS), true);
});
