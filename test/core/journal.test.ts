/**
 * What a client's records add up to, and that compaction changes nothing.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import { compact, type JournalRecord, recover, type Recovered } from "../../src/core/journal.ts";

const opened: JournalRecord = { kind: "opened", journalId: "laptop", takesOver: false, createdMs: 7 };
const takingOver: JournalRecord = { ...opened, takesOver: true };
const body = Uint8Array.of(1, 2, 3);
const said = (seqno: number, execId?: string, isClose = false): JournalRecord => {
  return { kind: "said", seqno, isClose, body, execId };
};
const acked = (nextSeqno: number): JournalRecord => ({ kind: "acked", nextSeqno });
const received = (execId: string, eventId = 1): JournalRecord => ({
  kind: "exec_received",
  execId,
  eventId,
  argsHash: "h",
  repeatable: false,
  needsApproval: true,
  request: body,
});
const approved = (execId: string): JournalRecord => ({
  kind: "exec_approved",
  execId,
  argsHash: "h",
  untilMs: 50,
});
const started = (execId: string): JournalRecord => ({ kind: "exec_started", execId });
const snapshot = (cursor: number): JournalRecord => ({ kind: "snapshot", cursor, state: body });

function recovering(...records: readonly JournalRecord[]): Recovered {
  const journal = recover([opened, ...records]);
  assert.ok(journal !== undefined);
  return journal;
}
const phaseOf = (journal: Recovered, execId: string): string | undefined =>
  journal.execs.get(execId)?.entry.phase;

test("a journal without records is none", () => {
  assert.equal(recover([]), undefined);
});

test("A5: what was said and not acknowledged is what a restarted client plays back", () => {
  const journal = recovering(said(0), said(1), said(2), acked(2));
  assert.deepEqual([journal.acked, journal.unacked.map(({ seqno }) => seqno)], [2, [2]]);
});

test("A6: an older ack that was recorded late takes nothing back", () => {
  const journal = recovering(said(0), said(1), acked(2), acked(1));
  assert.deepEqual([journal.acked, journal.unacked], [2, []]);
});

test("D2: after a takeover numbering begins with the first chunk said, wherever that is", () => {
  assert.equal(recover([takingOver])?.numbered, false);
  const journal = recover([takingOver, said(7), said(8)]);
  assert.deepEqual([journal?.numbered, journal?.acked, journal?.unacked.length], [true, 7, 2]);
});

test("C2: the phases of an exec are found as they were written", () => {
  const records = [received("x"), approved("x"), started("x"), said(0, "x"), acked(1)];
  const phases = records.map((_, at) => phaseOf(recovering(...records.slice(0, at + 1)), "x"));
  assert.deepEqual(phases, ["received", "approved", "started", "done", "acked"]);
});

test("C2: the result and its done are one record, so the same result goes out under the same seqno", () => {
  const journal = recovering(received("x"), started("x"), said(0), said(1, "x"));
  assert.equal(journal.execs.get("x")?.entry.resultSeqno, 1);
  assert.equal(
    phaseOf(recovering(received("x"), started("x"), said(0), said(1, "x"), acked(1)), "x"),
    "done",
  );
});

test("C4: a snapshot is found with the requests it covers", () => {
  const journal = recovering(received("x", 3), snapshot(3));
  assert.equal(journal.snapshot?.cursor, 3);
  assert.deepEqual(journal.execs.get("x")?.request, body);
});

test("D7: the newest server time counts, and a clock that went back does not", () => {
  const at = (serverTimeMs: number): JournalRecord => ({ kind: "attached", serverTimeMs });
  assert.equal(recovering().serverTimeMs, undefined);
  assert.equal(recovering(at(10), at(30), at(20)).serverTimeMs, 30);
});

test("D6: the first outcome stays", () => {
  const journal = recovering({ kind: "ended", outcome: "fenced" }, { kind: "ended", outcome: "completed" });
  assert.equal(journal.outcome, "fenced");
});

test("C5: a conflict is remembered and changes nothing about the exec", () => {
  const conflict: JournalRecord = { kind: "exec_conflict", execId: "x", argsHash: "other" };
  const journal = recovering(received("x"), conflict);
  assert.deepEqual(journal.conflicts, [{ execId: "x", argsHash: "other" }]);
  assert.deepEqual(journal.execs, recovering(received("x")).execs);
});

const damaged: Readonly<Record<string, readonly JournalRecord[]>> = {
  "a record before the opening": [said(0)],
  "a second opening": [opened, opened],
  "a gap in what was said": [opened, said(0), said(2)],
  "a first chunk that is not number 0": [opened, said(1)],
  "a gap after everything was acknowledged": [opened, said(0), acked(1), said(2)],
  "a seqno used twice": [opened, said(0), said(0)],
  "an ack of what was not said": [opened, said(0), acked(2)],
  "an ack before the numbering is known": [takingOver, acked(0)],
  "a snapshot that goes back": [opened, snapshot(5), snapshot(4)],
  "an exec received twice": [opened, received("x"), received("x")],
  "an exec that was never received": [opened, started("x")],
  "a base after something was said": [opened, said(0), { kind: "base", nextSeqno: 5, isClosed: false }],
};
for (const [what, records] of Object.entries(damaged)) {
  test(`${what} is damage and refused, never skipped`, () => {
    assert.throws(() => recover(records), AssertionFailed);
  });
}

/** Any history a client can have: choices, made possible by what came before. */
const history = fc
  .record({
    takesOver: fc.boolean(),
    base: fc.nat(9),
    choices: fc.array(fc.record({ what: fc.nat(12), which: fc.nat(9) }), { maxLength: 60, size: "max" }),
  })
  .map(({ takesOver, base, choices }) => {
    const records: JournalRecord[] = [{ ...opened, takesOver }];
    let next = takesOver ? base : 0;
    let first = next;
    let cursor = 0;
    let hasSaid = false;
    let isClosed = false;
    const phases = new Map<string, "received" | "approved" | "started" | "done">();
    for (const { what, which } of choices) {
      const execId = `x${String(which % 2)}`;
      const phase = phases.get(execId);
      if (what <= 1 && !isClosed) {
        const answers = what === 1 && phase !== undefined && phase !== "done";
        isClosed = what === 0 && which === 0;
        records.push(said(next++, answers ? execId : undefined, isClosed));
        hasSaid = true;
        if (answers) phases.set(execId, "done");
      }
      if (what === 2 && hasSaid) records.push(acked((first = Math.min(next, first + which))));
      if (what === 3) records.push({ kind: "attached", serverTimeMs: 100 * which });
      if (what === 4) records.push(snapshot((cursor += which)));
      if (what === 5 && phase === undefined) {
        records.push(received(execId, cursor + 1));
        phases.set(execId, "received");
      }
      if (what === 6 && phase === "received") {
        records.push(approved(execId));
        phases.set(execId, "approved");
      }
      if (what === 7 && phase === "approved") {
        records.push(started(execId));
        phases.set(execId, "started");
      }
      if (what === 8 && which === 0) records.push({ kind: "abort" });
      if (what === 9 && which === 0) records.push({ kind: "degraded" });
      if (what === 10 && which === 0) records.push({ kind: "ended", outcome: "completed" });
      if (what === 11 && phase !== undefined)
        records.push({ kind: "exec_conflict", execId, argsHash: "other" });
      if (what === 12 && phase !== undefined && phase !== "done")
        records.push({ kind: "exec_aborted", execId });
    }
    return records;
  });

/** Of an exec whose result is acknowledged only its identity is still needed (C6). */
function withoutAckedDetails(journal: Recovered): Recovered {
  const execs = [...journal.execs].map(([execId, exec]) => {
    const isAcked = exec.entry.phase === "acked";
    const entry = isAcked ? { ...exec.entry, approvedUntilMs: 0, isAborted: false } : exec.entry;
    return [execId, { entry, request: isAcked ? new Uint8Array() : exec.request }] as const;
  });
  return { ...journal, execs: new Map(execs) };
}

test("C6: compaction keeps everything a restarted client needs, wherever in a history it happens", () => {
  fc.assert(
    fc.property(history, (records) => {
      const journal = recover(records);
      assert.ok(journal !== undefined);
      assert.deepEqual(recover(compact(journal)), withoutAckedDetails(journal));
    }),
    { numRuns: 500 },
  );
});

test("A5, C2: a history that goes on after a compaction adds up to the same as one without", () => {
  fc.assert(
    fc.property(history, fc.nat(60), (records, at) => {
      const before = recover(records.slice(0, 1 + at));
      assert.ok(before !== undefined);
      const whole = recover(records);
      assert.ok(whole !== undefined);
      const resumed = recover([...compact(before), ...records.slice(1 + at)]);
      assert.ok(resumed !== undefined);
      assert.deepEqual(withoutAckedDetails(resumed), withoutAckedDetails(whole));
    }),
    { numRuns: 500 },
  );
});

test("C6: after a compaction an exec whose result is acknowledged is still known, its request is not", () => {
  const journal = recovering(received("x"), approved("x"), started("x"), said(0, "x"), acked(1));
  const compacted = recover(compact(journal))?.execs.get("x");
  assert.deepEqual([compacted?.entry.phase, compacted?.entry.resultSeqno], ["acked", 0]);
  assert.equal(compacted?.request.length, 0);
});

test("C2: after a compaction an exec that was started and has no result is still started", () => {
  const journal = recovering(received("x"), approved("x"), started("x"));
  assert.deepEqual(recover(compact(journal)), journal);
});

test("compaction writes as many records as there are things to remember, not as things that happened", () => {
  const chatter = Array.from({ length: 500 }, (_, seqno) => [said(seqno), acked(seqno + 1)]).flat();
  assert.equal(compact(recovering(...chatter)).length, 2);
});
