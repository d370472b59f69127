/**
 * The part of the suite about commits and who may make them: compare-and-swap, epochs, leases.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { SealedBlob } from "../../src/store/blob-store.ts";
import { type Commit, sha256Hex } from "../../src/store/index.ts";
import {
  HOST,
  KEY_CHECK,
  OTHER_HOST,
  chunksFrom,
  created,
  eventsFrom,
  growth,
  grown,
  isCommitted,
  readAll,
  stateOf,
  streamName,
} from "./stream-fixtures.ts";
import type { Opened } from "./stream-fixtures.ts";

export function streamStoreCommits(storeName: string, opened: Opened): void {
  suite(`${storeName}: commits`, () => {
    test("a created stream is live, at host epoch 1, with empty logs", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      assert.deepEqual(await store.load(name), { kind: "absent" });
      const state = await created(store, name);
      assert.equal(state.hostEpoch, 1);
      assert.equal(state.nextSeqno, 0);
      assert.equal(state.eventHead, 0);
      assert.equal(state.eventFloor, 1);
      assert.deepEqual(state.keyCheck, KEY_CHECK);
      assert.deepEqual(await store.load(name), { kind: "live", state });
      assert.deepEqual(await store.look([name, streamName("absent"), name]), [
        { kind: "live", state, hostId: HOST.hostId },
        { kind: "absent" },
        { kind: "live", state, hostId: HOST.hostId },
      ]);
    });

    test("A4: the blobs of a commit are there with it, in its one write, and not at all when it is refused", async (t) => {
      const { store, blobs, appends, reopen, clock } = await opened(t);
      if (blobs === undefined) return t.diagnostic("this store has no blobs beside it");
      const name = streamName("s");
      const blob = (text: string): SealedBlob => {
        const sealed = new TextEncoder().encode(text);
        return { space: "of a conversation", id: sha256Hex(sealed), sealed, keepMs: 1_000 };
      };
      const [first, second, refused] = [blob("first"), blob("second"), blob("refused")];
      const events = eventsFrom(1, 1);
      const before = appends?.();
      const made = await store.create({
        name,
        keyCheck: KEY_CHECK,
        conversationCheck: KEY_CHECK,
        host: HOST,
        first: { chunks: chunksFrom(0, 1), events, change: {}, blobs: [first] },
      });
      assert.ok(made.kind === "committed");
      assert.deepEqual(made.state.conversationCheck, KEY_CHECK);
      const more = { ...growth(name, made.state, { events: 1 }), blobs: [second] };
      assert.ok(isCommitted(await store.commit(more)));
      if (before !== undefined) assert.equal(appends?.(), before + 2);
      const stale = { ...growth(name, made.state, { events: 1 }), blobs: [refused] };
      assert.equal((await store.commit(stale)).kind, "conflict");
      const found = (await reopen?.()) ?? store;
      assert.deepEqual((await stateOf(found, name)).conversationCheck, KEY_CHECK);
      for (const { sealed, ...named } of [first, second])
        assert.deepEqual(await blobs().get(named), { kind: "found", bytes: sealed });
      assert.deepEqual(await blobs().get(refused), { kind: "miss" });
      clock.advance(1_000);
      assert.equal(await blobs().sweepSpaces(10), 1, "the space has an end");
      assert.deepEqual(await blobs().get(first), { kind: "miss" });
    });

    test("A4: a stream is made together with its first commit, in one synced write, or not at all", async (t) => {
      const { store, appends, reopen } = await opened(t);
      const name = streamName("s");
      const writers = [{ journalId: "j", sinceSeqno: 0, sinceEvent: 0 }];
      const first = {
        chunks: chunksFrom(0, 2),
        events: eventsFrom(1, 3),
        change: { writer: { writers, writerEpoch: 4 } },
      };
      const before = appends?.();
      const made = await store.create({ name, keyCheck: KEY_CHECK, host: HOST, first });
      assert.ok(made.kind === "committed");
      if (before !== undefined) assert.equal(appends?.(), before + 1);
      assert.deepEqual([made.state.nextSeqno, made.state.eventHead], [2, 3]);
      assert.deepEqual([made.state.writers, made.state.writerEpoch], [writers, 4]);
      const again = await store.create({ name, keyCheck: KEY_CHECK, host: OTHER_HOST, first });
      assert.deepEqual(again, { kind: "live", state: made.state });
      const grownState = await grown(store, name, made.state, { chunks: 1, events: 1 });
      const found = (await reopen?.()) ?? store;
      assert.deepEqual(await stateOf(found, name), grownState);
      assert.deepEqual(
        (await readAll(0, (from) => found.readChunks(name, from, 10_000))).at(0)?.macs,
        first.chunks.macs,
      );
      assert.equal((await readAll(1, (from) => found.readEvents(name, from, 10_000))).at(-1)?.first, 4);
    });

    test("A4: a first commit that is its caller's mistake makes no stream", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const first = { chunks: chunksFrom(1, 1), events: undefined, change: {} };
      await assert.rejects(store.create({ name, keyCheck: KEY_CHECK, host: HOST, first }));
      assert.deepEqual(await store.load(name), { kind: "absent" });
    });

    test("D4: creating a stream that is there changes nothing and tells its state", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const state = await grown(store, name, await created(store, name), { events: 2 });
      const again = await store.create({ name, keyCheck: Uint8Array.of(9), host: OTHER_HOST });
      assert.deepEqual(again, { kind: "live", state });
      assert.deepEqual(await stateOf(store, name), state);
    });

    test("D4: of many that create the same stream at once, one makes it and the others find it", async (t) => {
      const { store, peer = store } = await opened(t);
      const creation = { name: streamName("s"), keyCheck: KEY_CHECK, host: HOST };
      const results = await Promise.all(
        Array.from({ length: 8 }, (_, at) => (at % 2 === 0 ? store : peer).create(creation)),
      );
      assert.deepEqual(results.map(({ kind }) => kind).toSorted(), [
        "committed",
        ...Array.from({ length: 7 }, () => "live"),
      ]);
    });

    test("D4: the same idempotency key of two principals is two streams", async (t) => {
      const { store } = await opened(t);
      // Written one after the other, these two names are the same text.
      const mine = streamName("bc", "a");
      const theirs = streamName("c", "ab");
      await grown(store, mine, await created(store, mine), { events: 3, label: "mine" });
      assert.deepEqual(await store.load(theirs), { kind: "absent" });
      await created(store, theirs);
      assert.equal((await stateOf(store, theirs)).eventHead, 0);
      assert.deepEqual(await store.readEvents(theirs, 1, 1000), []);
      const same = streamName("bc", "b");
      assert.deepEqual(await store.load(same), { kind: "absent" });
      assert.equal(await store.countOpen("a"), 1);
      assert.equal(await store.countOpen("b"), 0);
    });

    test("A4: chunks, their MACs, events and the state arrive together", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const before = await created(store, name);
      const writers = [{ journalId: "j", sinceSeqno: 0, sinceEvent: 0 }];
      const commit = growth(name, before, {
        chunks: 2,
        events: 3,
        change: { writer: { writers, writerEpoch: 1 }, closed: true },
      });
      const result = await store.commit(commit);
      assert.ok(isCommitted(result));
      assert.deepEqual(
        { ...result.state, activityMs: 0 },
        { ...before, writers, writerEpoch: 1, nextSeqno: 2, closed: true, eventHead: 3, activityMs: 0 },
      );
      assert.deepEqual(await stateOf(store, name), result.state);
      assert.deepEqual(await store.readChunks(name, 0, 10_000), [commit.chunks]);
      assert.deepEqual(await store.readEvents(name, 1, 10_000), [commit.events]);
    });

    const wrong: readonly { readonly what: string; readonly change: (commit: Commit) => Commit }[] = [
      { what: "host epoch", change: (c) => ({ ...c, expected: { ...c.expected, hostEpoch: 2 } }) },
      {
        what: "next seqno",
        change: (c) => ({ ...c, chunks: undefined, expected: { ...c.expected, nextSeqno: 7 } }),
      },
      {
        what: "event head",
        change: (c) => ({ ...c, events: eventsFrom(1, 1), expected: { ...c.expected, eventHead: 0 } }),
      },
    ];
    for (const { what, change } of wrong) {
      test(`A1: a commit that expects another ${what} is refused and leaves nothing behind`, async (t) => {
        const { store, appends } = await opened(t);
        const name = streamName("s");
        const state = await grown(store, name, await created(store, name), { chunks: 2, events: 2 });
        const before = appends?.();
        const result = await store.commit(change(growth(name, state, { chunks: 1, events: 1 })));
        assert.deepEqual(result, { kind: "conflict", state });
        assert.deepEqual(await stateOf(store, name), state);
        assert.equal((await store.readEvents(name, 1, 10_000)).length, 1);
        assert.deepEqual(await store.readEvents(name, 3, 10_000), []);
        assert.deepEqual(await store.readChunks(name, 2, 10_000), []);
        assert.equal(appends?.(), before, "a conflict touches no disk");
        await grown(store, name, state, { chunks: 1, events: 1 });
      });
    }

    test("a commit to a stream that is not there is a conflict without a state", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const state = await created(store, name);
      assert.deepEqual(await store.commit(growth(streamName("other"), state, { events: 1 })), {
        kind: "conflict",
        state: undefined,
      });
    });

    test("D1: of two hosts that commit from the same state, one wins", async (t) => {
      const { store, peer = store } = await opened(t);
      const name = streamName("s");
      const state = await created(store, name);
      const results = await Promise.all([
        store.commit(growth(name, state, { events: 1, label: "one" })),
        peer.commit(growth(name, state, { events: 1, label: "two" })),
      ]);
      assert.deepEqual(results.map(({ kind }) => kind).toSorted(), ["committed", "conflict"]);
      const winner = results.find(isCommitted);
      for (const result of results) assert.deepEqual(result.state, winner?.state);
      assert.equal((await store.readEvents(name, 1, 10_000)).length, 1);
      assert.equal((await stateOf(store, name)).eventHead, 1);
    });

    test("commits that follow each other need not wait for each other", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const state = await created(store, name);
      const commits = Array.from({ length: 20 }, (_, at) =>
        store.commit(growth(name, { ...state, eventHead: at }, { events: 1 })),
      );
      const heads = (await Promise.all(commits)).map((result) => result.state?.eventHead);
      assert.deepEqual(
        heads,
        Array.from({ length: 20 }, (_, at) => at + 1),
      );
    });

    test("commits of many streams share appends, where the store tells", async (t) => {
      const { store, appends } = await opened(t);
      const names = Array.from({ length: 50 }, (_, at) => streamName(`s${at}`));
      const states = await Promise.all(names.map((name) => created(store, name)));
      const before = appends?.();
      const results = await Promise.all(
        names.map((name, at) => store.commit(growth(name, states[at] ?? assert.fail(), { events: 1 }))),
      );
      assert.ok(results.every(isCommitted));
      if (appends === undefined || before === undefined) return;
      assert.ok(
        appends() - before < names.length,
        `${appends() - before} appends for ${names.length} streams`,
      );
    });

    test("D6: what has been recorded stays, and a later commit adds to it", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const aborted = await grown(store, name, await created(store, name), { change: { aborted: true } });
      assert.equal(aborted.aborted, true);
      const ended = await grown(store, name, aborted, { events: 1, change: { end: "aborted" } });
      assert.equal(ended.aborted, true);
      assert.equal(ended.end, "aborted");
      await assert.rejects(store.commit(growth(name, ended, { events: 1 })), /no event follows the end/);
      const open = streamName("open");
      const running = await created(store, open);
      const silent = growth(open, running, { chunks: 1, change: { end: "completed" } });
      await assert.rejects(store.commit(silent), /the end is an event/);
      assert.deepEqual(await stateOf(store, open), running);
      assert.deepEqual(await stateOf(store, name), ended);
    });
  });

  suite(`${storeName}: hosts`, () => {
    test("D1: a claim raises the host epoch, and the fenced host's commit is refused", async (t) => {
      const { store, peer = store, clock } = await opened(t);
      const name = streamName("s");
      const old = await grown(store, name, await created(store, name), { events: 1 });
      clock.advance(HOST.leaseMs);
      const claimed = await peer.claim(name, OTHER_HOST);
      assert.ok(claimed.kind === "live");
      assert.equal(claimed.state.hostEpoch, 2);
      const refused = await store.commit(growth(name, old, { events: 1 }));
      assert.deepEqual(refused, { kind: "conflict", state: claimed.state });
      await grown(peer, name, claimed.state, { events: 1 });
    });

    test("D7: a lease keeps other nodes away until the store's clock has passed it", async (t) => {
      const { store, peer = store, clock } = await opened(t);
      const name = streamName("s");
      await created(store, name);
      assert.deepEqual(await peer.claim(name, OTHER_HOST), {
        kind: "held",
        hostId: HOST.hostId,
        leaseLeftMs: HOST.leaseMs,
      });
      clock.advance(HOST.leaseMs - 1);
      assert.deepEqual(await peer.claim(name, OTHER_HOST), {
        kind: "held",
        hostId: HOST.hostId,
        leaseLeftMs: 1,
      });
      clock.advance(1);
      assert.equal((await peer.claim(name, OTHER_HOST)).kind, "live");
    });

    test("D1: the same node that claims again is a new host, because it has lost its memory", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      await created(store, name);
      const claimed = await store.claim(name, HOST);
      assert.ok(claimed.kind === "live");
      assert.equal(claimed.state.hostEpoch, 2);
    });

    test("D1: of two nodes that claim a free stream at once, one gets it", async (t) => {
      const { store, peer = store, clock } = await opened(t);
      const name = streamName("s");
      await created(store, name);
      clock.advance(HOST.leaseMs);
      const results = await Promise.all([
        store.claim(name, { hostId: "host-c", leaseMs: 5000 }),
        peer.claim(name, { hostId: "host-d", leaseMs: 5000 }),
      ]);
      assert.deepEqual(results.map(({ kind }) => kind).toSorted(), ["held", "live"]);
      assert.equal((await stateOf(store, name)).hostEpoch, 2);
    });

    test("a renewal and a commit prolong the lease, and neither shortens it", async (t) => {
      const { store, clock } = await opened(t);
      const name = streamName("s");
      const state = await created(store, name);
      clock.advance(6000);
      assert.equal(await store.renew(name, 1, 20_000), true);
      await grown(store, name, state, { events: 1 });
      const held = await store.claim(name, OTHER_HOST);
      assert.deepEqual(held, { kind: "held", hostId: HOST.hostId, leaseLeftMs: 20_000 });
      clock.advance(15_000);
      await grown(store, name, { ...state, eventHead: 1 }, { chunks: 1 });
      const longer = await store.claim(name, OTHER_HOST);
      assert.deepEqual(longer, { kind: "held", hostId: HOST.hostId, leaseLeftMs: HOST.leaseMs });
    });

    test("D1: a renewal by a fenced host is refused", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      await created(store, name);
      await store.claim(name, HOST);
      assert.equal(await store.renew(name, 1, 10_000), false);
      assert.equal(await store.renew(name, 2, 10_000), true);
      assert.equal(await store.renew(streamName("absent"), 1, 10_000), false);
    });

    test("a released lease may be taken at once; a fenced host's release does nothing", async (t) => {
      const { store, peer = store } = await opened(t);
      const name = streamName("s");
      await created(store, name);
      await store.release(name, 1);
      const claimed = await peer.claim(name, OTHER_HOST);
      assert.ok(claimed.kind === "live");
      await store.release(name, 1);
      assert.equal((await store.claim(name, HOST)).kind, "held");
    });

    test("a claim of a stream that is not there says so", async (t) => {
      const { store } = await opened(t);
      assert.deepEqual(await store.claim(streamName("s"), HOST), { kind: "absent" });
    });
  });
}
