/**
 * The part of the suite about reading: both logs dense and byte-identical, what a restart finds.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { StreamState } from "../../src/core/stream-state.ts";
import type { Batch, StreamStore } from "../../src/store/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  HOST,
  OTHER_HOST,
  chunksFrom,
  created,
  eventsFrom,
  growth,
  grown,
  readAll,
  stateOf,
  streamName,
} from "./stream-fixtures.ts";
import type { Opened } from "./stream-fixtures.ts";

export function streamStoreReads(storeName: string, opened: Opened): void {
  suite(`${storeName}: reading`, () => {
    test("B4: events come back dense and byte-identical over many batches, in pages of any size", async (t) => {
      const { store, reopen } = await opened(t);
      const name = streamName("s");
      const noise = streamName("noise");
      let state = await created(store, name);
      let other = await created(store, noise);
      const written: Batch[] = [];
      for (let at = 0; at < 300; at++) {
        written.push(eventsFrom(state.eventHead + 1, (at % 5) + 1));
        const [next, nextOther] = await Promise.all([
          grown(store, name, state, { events: (at % 5) + 1 }),
          grown(store, noise, other, { events: 1, label: "noise" }),
        ]);
        state = next;
        other = nextOther;
      }
      const check = async (reading: StreamStore): Promise<void> => {
        for (const bytesMax of [1, 100, 4096, 1_000_000]) {
          const all = await readAll(1, (from) => reading.readEvents(name, from, bytesMax));
          assert.deepEqual(all, written);
        }
      };
      await check(store);
      if (reopen === undefined) return;
      const again = await reopen();
      t.after(() => again.close());
      await check(again);
    });

    test("a page holds at most about bytesMax, and at least one batch", async (t) => {
      const { store, reopen } = await opened(t);
      const name = streamName("s");
      let state = await created(store, name);
      for (let at = 0; at < 9; at++) state = await grown(store, name, state, { chunks: 1, events: 1 });
      const size = eventsFrom(1, 1).sealed.byteLength;
      const check = async (reading: StreamStore): Promise<void> => {
        assert.equal((await reading.readEvents(name, 1, 3 * size)).length, 3);
        assert.equal((await reading.readEvents(name, 1, 3 * size + 1)).length, 3);
        assert.equal((await reading.readEvents(name, 1, 1)).length, 1);
        assert.equal((await reading.readChunks(name, 0, 3 * size + 1)).length, 3);
        assert.equal((await reading.readChunks(name, 0, 1)).length, 1);
      };
      await check(store);
      if (reopen === undefined) return;
      const again = await reopen();
      t.after(() => again.close());
      await check(again);
    });

    test("B8: reading from the middle of a batch gives the batch that holds the event", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      const first = await grown(store, name, await created(store, name), { events: 5 });
      await grown(store, name, first, { events: 5 });
      const batches = await store.readEvents(name, 4, 10_000);
      assert.deepEqual(batches, [eventsFrom(1, 5), eventsFrom(6, 5)]);
      assert.deepEqual(await store.readEvents(name, 6, 10_000), [eventsFrom(6, 5)]);
    });

    test("B5: at the head there is nothing yet, below the floor the events are gone", async (t) => {
      const { store } = await opened(t);
      const name = streamName("s");
      let state = await grown(store, name, await created(store, name), { events: 2 });
      state = await grown(store, name, state, { events: 2 });
      state = await grown(store, name, state, { events: 2, change: { eventFloor: 4 } });
      assert.deepEqual(await store.readEvents(name, 7, 10_000), []);
      await assert.rejects(
        store.readEvents(name, 3, 10_000),
        (error) => error instanceof HoldfastError && error.code === "events_gone",
      );
      assert.deepEqual(await store.readEvents(name, 4, 10_000), [eventsFrom(3, 2), eventsFrom(5, 2)]);
    });

    test("A2: chunks come back with their MACs, from any seqno", async (t) => {
      const { store, reopen } = await opened(t);
      const name = streamName("s");
      let state = await created(store, name);
      for (const chunks of [1, 3, 2]) state = await grown(store, name, state, { chunks, events: 1 });
      const written = [chunksFrom(0, 1), chunksFrom(1, 3), chunksFrom(4, 2)];
      assert.deepEqual(await store.readChunks(name, 0, 10_000), written);
      assert.deepEqual(await store.readChunks(name, 2, 10_000), written.slice(1));
      assert.deepEqual(await store.readChunks(name, 6, 10_000), []);
      if (reopen === undefined) return;
      const again = await reopen();
      t.after(() => again.close());
      assert.deepEqual(await again.readChunks(name, 0, 10_000), written);
    });

    test("a stream that is not there has nothing to read", async (t) => {
      const { store } = await opened(t);
      assert.deepEqual(await store.readEvents(streamName("s"), 1, 100), []);
      assert.deepEqual(await store.readChunks(streamName("s"), 0, 100), []);
    });

    test("bodies of any size and content come back unchanged", async (t) => {
      const { store, reopen } = await opened(t);
      const name = streamName("ключ 🗝", "Ælfred 🙂");
      const state = await created(store, name);
      const sealed = Uint8Array.from({ length: 1_000_000 }, (_, at) => (at * 7919) % 256);
      const commit = growth(name, state, { chunks: 1 });
      await store.commit({ ...commit, events: { first: 1, count: 1, sealed } });
      const check = async (reading: StreamStore): Promise<void> => {
        const [batch] = await reading.readEvents(name, 1, 100);
        assert.ok(batch !== undefined && Buffer.compare(batch.sealed, sealed) === 0);
      };
      await check(store);
      if (reopen === undefined) return;
      const again = await reopen();
      t.after(() => again.close());
      await check(again);
    });
  });

  suite(`${storeName}: a restart`, () => {
    test("A3: what was committed is found again: states, logs, leases, tombstones, counts", async (t) => {
      const { store, reopen, clock } = await opened(t);
      if (reopen === undefined) return t.diagnostic("this store does not outlive its process");
      const names = ["a", "b", "c", "d", "e"].map((key) => streamName(key));
      const states = new Map<string, StreamState>();
      for (const [at, name] of names.entries()) {
        let state = await created(store, name);
        for (let turn = 0; turn <= at; turn++) {
          clock.advance(10);
          state = await grown(store, name, state, { chunks: 1, events: turn + 1 });
        }
        states.set(name.idempotencyKey, state);
      }
      const [a, b, c, d] = names;
      assert.ok(a !== undefined && b !== undefined && c !== undefined && d !== undefined);
      states.set(
        "b",
        await grown(store, b, states.get("b") ?? assert.fail(), { events: 1, change: { end: "completed" } }),
      );
      clock.advance(HOST.leaseMs);
      const claimed = await store.claim(c, OTHER_HOST);
      assert.ok(claimed.kind === "live");
      states.set("c", claimed.state);
      const gone = await store.expire(d, states.get("d")?.hostEpoch ?? 0);
      assert.equal(gone.kind, "gone");

      const again = await reopen();
      t.after(() => again.close());
      for (const name of names) {
        const state = states.get(name.idempotencyKey);
        assert.deepEqual(await again.load(name), name === d ? gone : { kind: "live", state });
      }
      assert.equal(await again.countOpen("alice"), 3);
      assert.equal((await again.claim(c, HOST)).kind, "held");
      const five = await stateOf(again, streamName("e"));
      assert.equal((await again.readEvents(streamName("e"), 1, 10_000)).length, 5);
      await grown(again, streamName("e"), five, { events: 1, chunks: 1 });
      assert.equal((await again.readEvents(streamName("e"), 1, 10_000)).length, 6);
    });

    test("B4: tidying changes nothing that can be seen, before a restart or after it", async (t) => {
      const { store, reopen, clock } = await opened(t);
      const [ended, running] = [streamName("ended"), streamName("running")];
      const states = await Promise.all([created(store, ended), created(store, running)]);
      let [one, two] = states;
      for (let at = 0; at < 12; at++) {
        [one, two] = await Promise.all([
          grown(store, ended, one, { events: 3, chunks: at % 3 }),
          grown(store, running, two, { events: 2, chunks: 1 }),
        ]);
      }
      one = await grown(store, ended, one, { events: 1, change: { end: "completed" } });
      clock.advance(100_000);
      const look = async (from: StreamStore, name: typeof ended): Promise<unknown> => [
        await from.load(name),
        await readAll(1, (event) => from.readEvents(name, event, 100)),
        await readAll(0, (seqno) => from.readChunks(name, seqno, 100)),
      ];
      const before = [await look(store, ended), await look(store, running)];
      await store.tidy(Number.MAX_SAFE_INTEGER);
      assert.deepEqual([await look(store, ended), await look(store, running)], before);
      await store.tidy(Number.MAX_SAFE_INTEGER);
      const again = await reopen?.();
      if (again === undefined) return;
      t.after(() => again.close());
      assert.deepEqual([await look(again, ended), await look(again, running)], before);
      await grown(again, running, two, { events: 1, chunks: 1 });
      assert.equal((await again.expire(ended, one.hostEpoch)).kind, "gone");
    });

    test("A7: tombstones and their absence survive a restart", async (t) => {
      const { store, reopen, clock } = await opened(t);
      if (reopen === undefined) return t.diagnostic("this store does not outlive its process");
      const kept = streamName("kept");
      const keptState = await created(store, kept);
      const name = streamName("s");
      // Both streams in the same groups, so that the rows of the one are needed by the other.
      const [state] = await Promise.all([
        created(store, name).then((state) => grown(store, name, state, { events: 1 })),
        grown(store, kept, keptState, { events: 1 }),
      ]);
      await store.expire(name, state.hostEpoch);
      clock.advance(1000);
      assert.equal(await store.forgetGone(Number.MAX_SAFE_INTEGER), 1);
      const again = await reopen();
      t.after(() => again.close());
      assert.deepEqual(await again.load(name), { kind: "absent" });
      const anew = await created(again, name);
      assert.equal(anew.eventHead, 0);
      assert.deepEqual(await again.readEvents(name, 1, 1000), []);
      assert.deepEqual(await again.readEvents(kept, 1, 1000), [eventsFrom(1, 1)]);
    });
  });
}
