/**
 * The part of the suite about the end of streams: idleness, expiry, tombstones, closing the store.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { HOST, KEY_CHECK, created, growth, grown, streamName } from "./stream-fixtures.ts";
import type { Opened } from "./stream-fixtures.ts";

export function streamStoreLife(storeName: string, opened: Opened): void {
  suite(`${storeName}: expiry`, () => {
    test("A7: an expired stream is gone, not new: it cannot be created, claimed, written or read", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const state = await grown(store, name, await created(store, name), { chunks: 1, events: 1 });
      const gone = await store.expire(name, state.hostEpoch);
      assert.ok(gone.kind === "gone");
      assert.deepEqual(gone.keyCheck, KEY_CHECK);
      assert.deepEqual(await store.load(name), gone);
      assert.deepEqual(await store.look([name]), [gone]);
      assert.deepEqual(await store.create({ name, keyCheck: KEY_CHECK, host: HOST }), gone);
      assert.deepEqual(await store.claim(name, HOST), gone);
      assert.deepEqual(await store.commit(growth(name, state, { events: 1 })), {
        kind: "conflict",
        state: undefined,
      });
      assert.equal(await store.renew(name, 1, 1000), false);
      assert.deepEqual(await store.readEvents(name, 1, 1000), []);
      assert.deepEqual(await store.readChunks(name, 0, 1000), []);
      assert.equal(await store.countOpen("alice"), 0);
      assert.deepEqual(await store.listIdle(Number.MAX_SAFE_INTEGER, 10), []);
    });

    test("A7: a tombstone is forgotten only when it is old enough, and then the name is free", async (t) => {
      const { store, clock } = await opened(t);
      const name = streamName("s");
      const state = await created(store, name);
      clock.advance(100);
      const gone = await store.expire(name, state.hostEpoch);
      assert.ok(gone.kind === "gone");
      assert.equal(gone.goneMs, state.activityMs + 100);
      assert.equal(await store.forgetGone(gone.goneMs), 0);
      assert.deepEqual(await store.load(name), gone);
      assert.equal(await store.forgetGone(gone.goneMs + 1), 1);
      assert.equal(await store.forgetGone(gone.goneMs + 1), 0);
      assert.deepEqual(await store.load(name), { kind: "absent" });
      await created(store, name);
    });

    test("D1: a stream is expired by its host, and not by one that was its host before", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const seen = await created(store, name);
      const claimed = await store.claim(name, HOST);
      assert.ok(claimed.kind === "live");
      assert.deepEqual(await store.expire(name, seen.hostEpoch), {
        kind: "conflict",
        state: claimed.state,
      });
      assert.deepEqual(await store.load(name), claimed);
      assert.equal((await store.expire(name, claimed.state.hostEpoch)).kind, "gone");
    });

    test("a commit without anything in it is activity", async (t) => {
      const { store, clock } = await opened(t);
      const name = streamName("s");
      const seen = await created(store, name);
      clock.advance(50);
      const touched = await grown(store, name, seen, {});
      assert.deepEqual(touched, { ...seen, activityMs: seen.activityMs + 50 });
      assert.deepEqual(await store.listIdle(touched.activityMs, 1), []);
    });

    test("expiring twice gives the same tombstone; expiring nothing is a conflict", async (t) => {
      const { store, clock } = await opened(t);
      const name = streamName("s");
      const state = await created(store, name);
      const gone = await store.expire(name, state.hostEpoch);
      clock.advance(10);
      assert.deepEqual(await store.expire(name, state.hostEpoch), gone);
      assert.deepEqual(await store.expire(streamName("other"), 0), { kind: "conflict", state: undefined });
    });

    test("A7: a commit that races with the expiry is either there or refused, never lost", async (t) => {
      const { store, peer = store } = await opened(t);
      for (let round = 0; round < 10; round++) {
        const name = streamName(`s${round}`);
        const state = await created(store, name);
        const [expired, committed] = await Promise.all([
          store.expire(name, state.hostEpoch),
          peer.commit(growth(name, state, { events: 1 })),
        ]);
        const after = await store.load(name);
        assert.equal(after.kind, expired.kind === "gone" ? "gone" : "live");
        if (committed.kind === "conflict") assert.equal(expired.kind, "gone");
      }
    });

    test("idle streams are listed oldest first, as many as asked for, and not the active ones", async (t) => {
      const { store, clock } = await opened(t);
      const names = ["c", "a", "d", "b"].map((key) => streamName(key));
      const states = [];
      for (const name of names) {
        states.push(await created(store, name));
        clock.advance(10);
      }
      const [first, second] = states;
      assert.ok(first !== undefined && second !== undefined);
      await grown(store, streamName("a"), second, { events: 1 });
      const keys = async (beforeMs: number, countMax: number): Promise<readonly string[]> =>
        (await store.listIdle(beforeMs, countMax)).map(({ idempotencyKey }) => idempotencyKey);
      assert.deepEqual(await keys(first.activityMs, 10), []);
      assert.deepEqual(await keys(first.activityMs + 1, 10), ["c"]);
      assert.deepEqual(await keys(first.activityMs + 40, 10), ["c", "d", "b"]);
      assert.deepEqual(await keys(first.activityMs + 41, 10), ["c", "d", "b", "a"]);
      assert.deepEqual(await keys(first.activityMs + 41, 2), ["c", "d"]);
    });

    test("E8: open streams are counted by principal; ended and expired ones do not count", async (t) => {
      const { store } = await opened(t);
      const [a, b, c] = ["a", "b", "c"].map((key) => streamName(key, "bob"));
      assert.ok(a !== undefined && b !== undefined && c !== undefined);
      const stateA = await created(store, a);
      const stateB = await created(store, b);
      await created(store, c);
      await created(store, streamName("a", "carol"));
      assert.equal(await store.countOpen("bob"), 3);
      await grown(store, a, stateA, { events: 1, change: { end: "completed" } });
      assert.equal(await store.countOpen("bob"), 2);
      await store.expire(b, stateB.hostEpoch);
      assert.equal(await store.countOpen("bob"), 1);
      assert.equal(await store.countOpen("carol"), 1);
      assert.equal(await store.countOpen("nobody"), 0);
    });

    test("A7: many streams expire and are forgotten together", async (t) => {
      const { store, clock } = await opened(t);
      const names = Array.from({ length: 40 }, (_, at) => streamName(`s${at}`));
      const states = await Promise.all(names.map((name) => created(store, name)));
      clock.advance(1000);
      const results = await Promise.all(
        names.map((name, at) => store.expire(name, states[at]?.hostEpoch ?? 0)),
      );
      assert.ok(results.every(({ kind }) => kind === "gone"));
      clock.advance(1);
      const counts = await Promise.all([1, 2].map(() => store.forgetGone(Number.MAX_SAFE_INTEGER)));
      assert.equal(
        counts.reduce((sum, count) => sum + count, 0),
        40,
      );
    });
  });

  suite(`${storeName}: closing`, () => {
    test("what was asked for before the close is still done, what comes after is refused", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const state = await created(store, name);
      const last = store.commit(growth(name, state, { events: 1 }));
      const closed = store.close();
      assert.equal((await last).kind, "committed");
      await closed;
      const isUnavailable = (error: unknown): boolean =>
        error instanceof HoldfastError && error.code === "unavailable";
      await assert.rejects(store.load(name), isUnavailable);
      await assert.rejects(store.commit(growth(name, state, { events: 1 })), isUnavailable);
      await assert.rejects(store.readEvents(name, 1, 100), isUnavailable);
      await assert.rejects(store.countOpen("alice"), isUnavailable);
      await store.close();
    });
  });
}
