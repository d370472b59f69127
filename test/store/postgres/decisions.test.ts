/** What the PostgreSQL store decides without a database: what shares a group, what became of it, what each act is answered. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { newStreamState, type StreamState } from "../../../src/core/stream-state.ts";
import { ANYTHING, hintOf, newsOf, payloadOf } from "../../../src/store/postgres/bell-payload.ts";
import type { Act, ClaimAct, CommitAct, CreateAct, WriteAct } from "../../../src/store/postgres/acts.ts";
import { fateOf, hasHappened } from "../../../src/store/postgres/group-fate.ts";
import { chainsOf, groupLength, needsRowsBefore } from "../../../src/store/postgres/plan.ts";
import type { StoredStream } from "../../../src/store/postgres/stream-rows.ts";
import {
  claimReadBack,
  claimVerdict,
  commitReadBack,
  commitVerdict,
  createReadBack,
  createVerdict,
  expireReadBack,
  leaseReadBack,
  type Outcome,
  type ReadBack,
  rowKey,
  writeReadBack,
} from "../../../src/store/postgres/verdicts.ts";
import { nameKey } from "../../../src/store/stream-index.ts";
import { NO_ROW } from "../../../src/store/table-store.ts";
import {
  growth,
  type Growth,
  HOST,
  KEY_CHECK,
  OTHER_HOST,
  streamName,
} from "../../conformance/stream-fixtures.ts";

const STATE = newStreamState(KEY_CHECK, 1_000, 1);
const ORIGIN = { keyCheck: KEY_CHECK, conversationCheck: undefined, createdMs: 1_000 };
const PLACE = { id: 7, period: 0, origin: ORIGIN };
const NAME = streamName("s");

function commitAct(state: StreamState, grow: Growth, key = "s", id = 7): CommitAct {
  const name = streamName(key);
  return { kind: "commit", name, place: { ...PLACE, id }, commit: growth(name, state, grow) };
}

function writeAct(...keys: readonly string[]): WriteAct {
  const value = Uint8Array.of(1);
  return {
    kind: "write",
    writes: keys.map((key) => ({ kind: "put", table: "t", key, value, expectedVersion: NO_ROW })),
  };
}

const STATEMENT: Act = { kind: "statement", statement: { text: "SELECT 1" } };
const CLAIM: ClaimAct = { kind: "claim", name: NAME, place: PLACE, host: OTHER_HOST };

suite("what shares a group", () => {
  const cases: readonly (readonly [string, readonly Act[], number])[] = [
    ["nothing", [], 0],
    [
      "commits of different streams",
      [commitAct(STATE, { events: 1 }, "a", 1), commitAct(STATE, { events: 1 }, "b", 2)],
      2,
    ],
    [
      "commits that follow each other on one stream",
      [0, 1, 2].map((head) => commitAct({ ...STATE, eventHead: head }, { events: 1 })),
      3,
    ],
    [
      "a commit that does not follow the one before it waits",
      [commitAct(STATE, { events: 1 }), commitAct(STATE, { events: 1 })],
      1,
    ],
    [
      "nothing follows a commit that changes the state",
      [
        commitAct(STATE, { events: 1, change: { end: "completed" } }),
        commitAct({ ...STATE, eventHead: 1 }, { events: 1 }),
      ],
      1,
    ],
    [
      "a change may end a chain, and being touched changes nothing",
      [
        commitAct(STATE, { events: 1, change: { touched: true } }),
        commitAct({ ...STATE, eventHead: 1 }, { events: 1, change: { aborted: true } }),
      ],
      2,
    ],
    ["a claim waits for a commit of the same stream", [commitAct(STATE, { events: 1 }), CLAIM], 1],
    [
      "a renewal does not",
      [
        commitAct(STATE, { events: 1 }),
        { kind: "renew", name: NAME, place: PLACE, hostEpoch: 1, leaseMs: 1 },
      ],
      2,
    ],
    ["batches of different rows", [writeAct("a", "b"), writeAct("c")], 2],
    ["a row that is written twice waits", [writeAct("a", "b"), writeAct("b")], 1],
    ["nothing passes a statement but statements", [STATEMENT, STATEMENT, writeAct("a")], 2],
    [
      "nothing is taken from behind an act that waits",
      [writeAct("a"), writeAct("a"), writeAct("b"), CLAIM],
      1,
    ],
  ];
  for (const [what, queue, taken] of cases) {
    test(what, () => assert.equal(groupLength(queue), taken));
  }

  test("a group has at most 1,024 acts and about 8 MiB, and one act that is larger goes alone", () => {
    const many = Array.from({ length: 2_000 }, (_, at) => writeAct(String(at)));
    assert.equal(groupLength(many), 1_024);
    const large = (key: string): WriteAct => ({
      kind: "write",
      writes: [{ kind: "put", table: "t", key, value: new Uint8Array(5 * 1024 * 1024) }],
    });
    assert.equal(groupLength([large("a"), large("b")]), 1);
    const huge: WriteAct = {
      kind: "write",
      writes: [{ kind: "put", table: "t", key: "k", value: new Uint8Array(9 * 1024 * 1024) }],
    };
    assert.equal(groupLength([huge, writeAct("a")]), 1);
  });

  test("rows are locked in the order of their ids, whoever asked first", () => {
    const acts = [9, 3, 5].map((id) => commitAct(STATE, { events: 1 }, `s${id}`, id));
    assert.deepEqual(
      chainsOf(acts).map(([{ place }]) => place.id),
      [3, 5, 9],
    );
  });

  test("rows are locked before a group that does not only commit, or that changes a state behind another commit", () => {
    const isNeeded = (...acts: readonly Act[]): boolean => needsRowsBefore(acts, chainsOf(acts));
    const plain = commitAct(STATE, { events: 1 });
    const behind = (grow: Growth): Act => commitAct({ ...STATE, eventHead: 1 }, grow);
    const abort = { events: 1, change: { aborted: true } } as const;
    assert.equal(isNeeded(plain, behind({ events: 1 }), writeAct("a"), STATEMENT), false);
    assert.equal(isNeeded(commitAct(STATE, abort)), false);
    assert.equal(isNeeded(plain, behind(abort)), true);
    assert.equal(isNeeded(CLAIM), true);
  });
});

suite("what became of a group", () => {
  const done = (command: string): PromiseSettledResult<{ command: string; rows: readonly never[] }> => ({
    status: "fulfilled",
    value: { command, rows: [] },
  });
  const failed = (code?: string): PromiseRejectedResult => ({
    status: "rejected",
    reason: Object.assign(new Error("failed"), code === undefined ? {} : { code }),
  });

  test("A3: only a commit without a warning is one", () => {
    assert.equal(fateOf([done("BEGIN"), done("COMMIT")], false).kind, "committed");
    assert.equal(fateOf([done("BEGIN"), done("COMMIT")], true).kind, "unknown");
    assert.equal(fateOf([done("BEGIN"), done("ROLLBACK")], false).kind, "undone");
  });

  test("a lost connection says nothing about what was sent, whatever the system calls it", () => {
    for (const code of [undefined, "ECONNRESET", "EPIPE", "57P01", "57P02", "08006"]) {
      assert.equal(fateOf([done("BEGIN"), failed(code), failed()], false).kind, "unknown", code);
    }
  });

  test("an answer of the server says that it was undone, and why", () => {
    const meaningOf = (code: string): string => {
      const fate = fateOf([done("BEGIN"), failed(code), failed("25P02"), done("ROLLBACK")], false);
      return fate.kind === "undone" ? fate.meaning : fate.kind;
    };
    assert.equal(meaningOf("40P01"), "again");
    assert.equal(meaningOf("40001"), "again");
    assert.equal(meaningOf("53100"), "full");
    assert.equal(meaningOf("23505"), "refused");
    assert.equal(meaningOf("54000"), "refused");
  });

  test("the receipt says whether a group has happened", () => {
    assert.equal(hasHappened(5, { groupNumber: 4 }), false);
    assert.equal(hasHappened(5, { groupNumber: 5 }), true);
  });
});

const STORED: StoredStream = {
  ...PLACE,
  birth: 1,
  state: STATE,
  lease: { hostId: HOST.hostId, leaseMs: 10_000, untilMs: 20_000 },
};
const NOTHING: ReadonlySet<number> = new Set();

function outcome(
  applied: readonly number[],
  acts: readonly Act[],
  stored: StoredStream | undefined = STORED,
): Outcome {
  return {
    nowMs: 5_000,
    rowVersion: 3,
    before: new Map(stored === undefined ? [] : [[stored.id, stored]]),
    after: new Map(),
    chains: new Map(chainsOf(acts).map((chain) => [chain[0].place.id, chain])),
    applied: {
      commit: new Set(applied),
      claim: new Set(applied),
      renew: NOTHING,
      release: NOTHING,
      expire: NOTHING,
    },
    made: new Map(),
    failedWrites: new Map(),
  };
}

suite("what an act is answered", () => {
  test("each commit of a chain has its own state, and only the last one the change", () => {
    const one = commitAct(STATE, { events: 2 });
    const two = commitAct({ ...STATE, eventHead: 2 }, { chunks: 1, events: 1, change: { aborted: true } });
    const found = outcome([7], [one, two]);
    const [first, second] = [commitVerdict(one, found), commitVerdict(two, found)];
    assert.ok(first.kind === "answer" && second.kind === "answer");
    assert.deepEqual(first.answer, {
      kind: "committed",
      state: { ...STATE, activityMs: 5_000, eventHead: 2 },
    });
    assert.deepEqual(second.answer, {
      kind: "committed",
      state: { ...STATE, activityMs: 5_000, nextSeqno: 1, eventHead: 3, aborted: true },
    });
  });

  test("a commit of a group that locked no row first is told its state from the row behind it", () => {
    const one = commitAct(STATE, { events: 2 });
    const two = commitAct({ ...STATE, eventHead: 2 }, { chunks: 1, events: 1 });
    const writers = [{ journalId: "j", sinceSeqno: 0, sinceEvent: 0 }];
    const row = { ...STATE, activityMs: 6_000, writers, writerEpoch: 3, closed: true };
    const { keyCheck: _, ...changed } = row;
    const found = { ...outcome([7], [one, two], undefined), after: new Map([[7, changed]]) };
    const told = [commitVerdict(one, found), commitVerdict(two, found)];
    assert.deepEqual(
      told.map((verdict) => verdict.kind === "answer" && verdict.answer),
      [
        { kind: "committed", state: { ...row, eventHead: 2 } },
        { kind: "committed", state: { ...row, nextSeqno: 1, eventHead: 3 } },
      ],
    );
  });

  test("a chain whose first commit does not fit: that one is a conflict, the others are judged anew", () => {
    const one = commitAct({ ...STATE, eventHead: 4 }, { events: 1 });
    const two = commitAct({ ...STATE, eventHead: 5 }, { events: 1 });
    const found = outcome([], [one, two]);
    assert.deepEqual(commitVerdict(one, found), {
      kind: "answer",
      answer: { kind: "conflict", state: STATE },
    });
    assert.deepEqual(commitVerdict(two, found), { kind: "again" });
  });

  test("a chain with a caller's mistake in it: the mistake is refused, the others are judged anew", () => {
    const one = commitAct(STATE, { events: 1 });
    const two = commitAct({ ...STATE, eventHead: 1 }, { events: 1, change: { eventFloor: 9 } });
    const found = outcome([], [one, two]);
    assert.deepEqual(commitVerdict(one, found), { kind: "again" });
    const refused = commitVerdict(two, found);
    assert.ok(refused.kind === "refuse");
    assert.match(refused.error.message, /a floor rises/);
  });

  test("a stream whose row has vanished is a conflict for a commit, and looked up again for a claim", () => {
    const act = commitAct(STATE, { events: 1 });
    const found: Outcome = { ...outcome([], [act]), before: new Map() };
    assert.deepEqual(commitVerdict(act, found), {
      kind: "answer",
      answer: { kind: "conflict", state: undefined },
    });
    assert.deepEqual(claimVerdict(CLAIM, found), { kind: "answer", answer: { kind: "vanished" } });
  });

  test("D7: a claim that was left out is told who holds the stream, and for how long", () => {
    assert.deepEqual(claimVerdict(CLAIM, outcome([], [])), {
      kind: "answer",
      answer: { kind: "held", hostId: HOST.hostId, leaseLeftMs: 15_000 },
    });
    const taken = claimVerdict(CLAIM, outcome([7], []));
    assert.deepEqual(taken, { kind: "answer", answer: { kind: "live", state: { ...STATE, hostEpoch: 2 } } });
  });
});

function back(stored: StoredStream | undefined, acts: readonly Act[] = []): ReadBack {
  return {
    nowMs: 5_000,
    rowVersion: 3,
    chains: new Map(chainsOf(acts).map((chain) => [chain[0].place.id, chain])),
    streams: new Map(stored === undefined ? [] : [[nameKey(NAME), stored]]),
    rows: new Map(),
  };
}

suite("what is read back when an answer was lost", () => {
  const one = commitAct(STATE, { events: 2 });
  const two = commitAct({ ...STATE, eventHead: 2 }, { events: 1 });
  const at = (change: Partial<StreamState>): StoredStream => ({ ...STORED, state: { ...STATE, ...change } });

  test("A3: heads that stand behind the chain say that it was taken", () => {
    const found = back(at({ eventHead: 3 }), [one, two]);
    assert.deepEqual(commitReadBack(one, found), {
      kind: "answer",
      answer: { kind: "committed", state: { ...STATE, eventHead: 2 } },
    });
    assert.deepEqual(commitReadBack(two, found), {
      kind: "answer",
      answer: { kind: "committed", state: { ...STATE, eventHead: 3 } },
    });
  });

  test("D1: heads that stand elsewhere, another epoch or another stream of the name are a conflict", () => {
    for (const stored of [at({ eventHead: 0 }), at({ eventHead: 3, hostEpoch: 2 })]) {
      const verdict = commitReadBack(one, back(stored, [one, two]));
      assert.deepEqual(verdict, { kind: "answer", answer: { kind: "conflict", state: stored.state } });
    }
    for (const stored of [undefined, { ...at({ eventHead: 3 }), id: 8 }]) {
      const verdict = commitReadBack(one, back(stored, [one, two]));
      assert.deepEqual(verdict, { kind: "answer", answer: { kind: "conflict", state: undefined } });
    }
  });

  test("a stream is this node's own creation when its birth says so", () => {
    const act: CreateAct = {
      kind: "create",
      name: NAME,
      birth: 1,
      creation: { name: NAME, keyCheck: KEY_CHECK, host: HOST },
    };
    const kindOf = (verdict: ReturnType<typeof createVerdict>): string =>
      verdict.kind === "answer" ? verdict.answer.result.kind : verdict.kind;
    assert.equal(kindOf(createReadBack(act, back(STORED))), "committed");
    assert.equal(kindOf(createReadBack({ ...act, birth: 2 }, back(STORED))), "live");
    assert.equal(kindOf(createReadBack(act, back(undefined))), "refuse");
    assert.equal(kindOf(createVerdict(act, { made: new Map() })), "again");
  });

  test("a claim was carried out when the stream has this host", () => {
    const own = { ...CLAIM, host: HOST };
    assert.deepEqual(claimReadBack(own, back(STORED)), {
      kind: "answer",
      answer: { kind: "live", state: STATE },
    });
    const other = claimReadBack(CLAIM, back(STORED));
    assert.ok(other.kind === "answer" && other.answer.kind === "held");
    const renewal = { kind: "renew", name: NAME, place: PLACE, hostEpoch: 1, leaseMs: 1 } as const;
    assert.deepEqual(leaseReadBack(renewal, back(STORED)), { kind: "answer", answer: true });
    assert.deepEqual(leaseReadBack({ ...renewal, hostEpoch: 2 }, back(STORED)), {
      kind: "answer",
      answer: false,
    });
    const expiry = { kind: "expire", name: NAME, place: PLACE, hostEpoch: 1 } as const;
    const left = expireReadBack(expiry, back(STORED));
    assert.ok(left.kind === "answer" && left.answer.kind === "conflict");
  });

  test("a batch of rows happened when one of its rows has the group's version; when none has, nobody can tell", () => {
    const act = writeAct("a", "b");
    const rows = new Map([[rowKey({ table: "t", key: "b" }), 3]]);
    assert.deepEqual(writeReadBack(act, { ...back(undefined), rows }), {
      kind: "answer",
      answer: { kind: "written", version: 3 },
    });
    assert.equal(writeReadBack(act, back(undefined)).kind, "refuse");
    const free: WriteAct = { kind: "write", writes: [{ kind: "delete", table: "t", key: "a" }] };
    assert.equal(writeReadBack(free, back(undefined)).kind, "answer");
  });
});

test("a payload names what a group did, below 8,000 bytes; what does not fit says that anything may have changed", () => {
  const act = (id: number): Act => ({
    kind: "release",
    name: { principal: "p", idempotencyKey: String(id) },
    place: { ...PLACE, id },
    hostEpoch: 1,
  });
  const tells: Act = { kind: "statement", statement: { text: "" }, tells: "node 1" };
  const silent: Act = { kind: "statement", statement: { text: "" } };
  const placeOf = ({ idempotencyKey }: { readonly idempotencyKey: string }) =>
    idempotencyKey === "unknown" ? undefined : { ...PLACE, id: Number(idempotencyKey) };
  const hint = hintOf(payloadOf(new Set(newsOf([act(3), act(99), tells, silent]))), placeOf);
  const has = (idempotencyKey: string): boolean => hint.has({ principal: "p", idempotencyKey });
  assert.deepEqual(["3", "99", "4", "unknown"].map(has), [true, true, false, true]);
  assert.deepEqual(
    ["node 1", "node 2"].map((node) => hint.isFor(node)),
    [true, false],
  );
  const many = payloadOf(new Set(newsOf(Array.from({ length: 5_000 }, (_, id) => act(id + 1e9)))));
  assert.equal(many, ANYTHING);
  const all = hintOf(many, placeOf);
  assert.ok(all.has({ principal: "p", idempotencyKey: "4" }) && all.isFor("anybody"));
});
