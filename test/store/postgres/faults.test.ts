/** What the PostgreSQL store does when answers are lost, the server dies, or one of many acts is bad. */
import assert from "node:assert/strict";
import { after, before, suite, test, type TestContext } from "node:test";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import {
  openPostgresStore,
  type PostgresOptions,
  type PostgresStore,
} from "../../../src/store/postgres/index.ts";
import { NO_ROW } from "../../../src/store/index.ts";
import { parseAddress } from "../../../src/store/postgres/address.ts";
import { Bell } from "../../../src/store/postgres/bell.ts";
import {
  created,
  growth,
  grown,
  HOST,
  KEY_CHECK,
  OTHER_HOST,
  readAll,
  stateOf,
  streamName,
} from "../../conformance/stream-fixtures.ts";
import { type Loss, type Proxy, type ProxyOptions, startProxy } from "./proxy.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server.close());

async function opened(t: TestContext, url: string, options?: PostgresOptions): Promise<PostgresStore> {
  const store = await openPostgresStore(url, options);
  t.after(() => store.close());
  return store;
}

interface Behind {
  readonly url: string;
  readonly proxy: Proxy;
  /** Reaches the server through the proxy. */
  readonly store: PostgresStore;
  /** Reaches it directly. */
  readonly witness: PostgresStore;
}

async function behindProxy(t: TestContext, options?: PostgresOptions & ProxyOptions): Promise<Behind> {
  const url = await server.emptyDatabase();
  const proxy = await startProxy(server.port, options);
  t.after(() => proxy.close());
  const store = await opened(t, url.replace(`:${server.port}`, `:${proxy.port}`), options);
  return { url, proxy, store, witness: await opened(t, url) };
}

async function eventCount(store: PostgresStore, key: string): Promise<number> {
  const name = streamName(key);
  const batches = await readAll(1, (from) => store.streams.readEvents(name, from, 10_000));
  return batches.reduce((sum, { count }) => sum + count, 0);
}

suite("a lost answer", () => {
  for (const loss of ["request", "answer", "late"] satisfies Loss[]) {
    test(`A3: of a commit (${loss}) is resolved by the receipt: it happened once, and is told once`, async (t) => {
      const { proxy, store, witness } = await behindProxy(t, { isPooler: loss === "late" });
      const name = streamName("s");
      const state = await created(store.streams, name);
      const lost = proxy.lose(loss);
      const committed = store.streams.commit(growth(name, state, { chunks: 1, events: 2 }));
      await lost;
      const result = await committed;
      assert.ok(result.kind === "committed");
      assert.deepEqual([result.state.nextSeqno, result.state.eventHead], [1, 2]);
      // The term is over, so the transaction is undone as a whole.
      if (loss === "late") assert.match(await proxy.deliver(), /division by zero[^]*ROLLBACK/);
      assert.deepEqual(await stateOf(witness.streams, name), result.state);
      assert.equal(await eventCount(witness, "s"), 2);
      await grown(store.streams, name, result.state, { events: 1 });
      assert.equal(await eventCount(witness, "s"), 3);
    });

    test(`A4: of a creation, a batch and a claim together (${loss})`, async (t) => {
      const { proxy, store, witness } = await behindProxy(t, { isPooler: loss === "late" });
      const old = streamName("old");
      await created(witness.streams, old);
      await witness.streams.release(old, 1);
      await store.streams.load(old);
      const name = streamName("s");
      const value = Uint8Array.of(1);
      const lost = proxy.lose(loss);
      const all = Promise.all([
        store.streams.claim(old, OTHER_HOST),
        store.streams.create({ name, keyCheck: KEY_CHECK, host: HOST }),
        store.tables.batch([{ kind: "put", table: "t", key: "k", value, expectedVersion: NO_ROW }]),
      ]);
      await lost;
      const [claimed, made, written] = await all;
      assert.ok(claimed.kind === "live" && claimed.state.hostEpoch === 2);
      assert.equal(made.kind, "committed");
      assert.ok(written.kind === "written");
      // The term is over, so the transaction is undone as a whole.
      if (loss === "late") assert.match(await proxy.deliver(), /division by zero[^]*ROLLBACK/);
      assert.equal((await witness.tables.get({ table: "t", key: "k" }))?.version, written.version);
      assert.equal((await stateOf(witness.streams, old)).hostEpoch, 2);
    });
  }

  test("A3: a connection that falls silent counts as lost after a while", async (t) => {
    const { proxy, store, witness } = await behindProxy(t, { answerMsMax: 300 });
    const name = streamName("s");
    const state = await created(store.streams, name);
    const lost = proxy.lose("silence");
    const committed = store.streams.commit(growth(name, state, { events: 1 }));
    await lost;
    assert.equal((await committed).kind, "committed");
    assert.equal(await eventCount(witness, "s"), 1);
  });

  test("D1: a host that lost its answer and its stream is told that it does not have it", async (t) => {
    const { proxy, store, witness } = await behindProxy(t);
    const name = streamName("s");
    const state = await created(store.streams, name);
    await store.streams.release(name, 1);
    const lost = proxy.lose("request");
    const committed = store.streams.commit(growth(name, state, { events: 1 }));
    await lost;
    const claimed = await witness.streams.claim(name, OTHER_HOST);
    assert.ok(claimed.kind === "live");
    const result = await committed;
    // Whichever of the two came first, there is one truth.
    const now = await stateOf(witness.streams, name);
    if (result.kind === "committed") assert.equal(now.eventHead, 1);
    else assert.deepEqual([result.state?.hostEpoch, now.eventHead], [2, 0]);
  });
});

test("F1: a store that slept until another node tidied its receipt away gets another one, and goes on", async (t) => {
  const url = await server.emptyDatabase();
  const store = await opened(t, url);
  const state = await created(store.streams, streamName("s"));
  await asked(url, "DELETE FROM holdfast.receipts");
  await grown(store.streams, streamName("s"), state, { events: 1 });
  assert.equal(await eventCount(store, "s"), 1);
});

suite("synchronous standbys", () => {
  /** The processes of a store that wait for a standby. */
  async function waiting(url: string, not = 0): Promise<number> {
    for (;;) {
      const rows = await asked(
        url,
        `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'holdfast %' AND pid <> ${not}`,
      );
      if (rows.length > 0) return Number(rows[0]?.["pid"]);
    }
  }

  /** Each process of the server takes new settings up in its own time: a write of the test's shows when commits wait. */
  async function untilCommitsWait(url: string): Promise<void> {
    for (let isWaiting = false; !isWaiting;) {
      const write = asked(url, "SELECT pg_logical_emit_message(true, 'write', '')").then(() => "over");
      while (!isWaiting && (await Promise.race([write, Promise.resolve("under way")])) !== "over") {
        const cancelled = await asked(
          url,
          "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name NOT LIKE 'holdfast %'",
        );
        isWaiting = cancelled.length > 0;
      }
      await write;
    }
  }

  test("A3: a commit that stopped waiting for its standby is told only when a later one did not", async (t) => {
    const url = await server.emptyDatabase();
    const store = await opened(t, url, { patienceMs: 60_000 });
    const name = streamName("s");
    const state = await created(store.streams, name);
    const setStandbys = async (value: string): Promise<void> => {
      await asked(url, `ALTER SYSTEM SET synchronous_standby_names = '${value}'`);
      await asked(url, "SELECT pg_reload_conf()");
    };
    await setStandbys("nobody");
    t.after(() => setStandbys(""));
    await untilCommitsWait(url);
    let isTold = false;
    const committed = store.streams.commit(growth(name, state, { events: 1 })).finally(() => (isTold = true));
    const first = await waiting(url);
    await asked(url, `SELECT pg_cancel_backend(${first})`);
    await waiting(url, first);
    assert.equal(isTold, false);
    const quorum = await openPostgresStore(url, { patienceMs: 300 }).catch(() => undefined);
    assert.equal(quorum, undefined, "a store that cannot have a receipt does not open");
    await setStandbys("");
    assert.equal((await committed).kind, "committed");
    assert.equal(await eventCount(store, "s"), 1);
  });
});

suite("one of many", () => {
  const names = Array.from({ length: 100 }, (_, at) => streamName(`s${at}`));

  async function hundred(t: TestContext) {
    const url = await server.emptyDatabase();
    const store = await opened(t, url);
    const states = await Promise.all(names.map((name) => created(store.streams, name)));
    const groups = async (): Promise<number> => {
      const rows = await asked(url, "SELECT max(group_number) AS number FROM holdfast.receipts");
      return Number(rows[0]?.["number"]);
    };
    const before = await groups();
    /** One commit for each stream, the 50th made by `bad`. */
    const commits = (bad: (index: number) => ReturnType<PostgresStore["streams"]["commit"]>) =>
      Promise.allSettled(
        names.map((name, at) =>
          at === 50
            ? bad(at)
            : store.streams.commit(growth(name, states[at] ?? assert.fail(), { events: 1 })),
        ),
      );
    return { url, store, states, commits, groups: async () => (await groups()) - before };
  }

  function assertOthers(results: readonly PromiseSettledResult<{ readonly kind: string }>[]): void {
    for (const [at, result] of results.entries()) {
      if (at !== 50) assert.equal(result.status === "fulfilled" && result.value.kind, "committed", `s${at}`);
    }
  }

  test("a conflict is left out, and the others commit in one group", async (t) => {
    const { store, states, commits, groups } = await hundred(t);
    const results = await commits((at) => {
      const state = { ...(states[at] ?? assert.fail()), eventHead: 4 };
      return store.streams.commit(growth(streamName("s50"), state, { events: 1 }));
    });
    assertOthers(results);
    const bad = results[50];
    assert.deepEqual(bad?.status === "fulfilled" && bad.value, { kind: "conflict", state: states[50] });
    assert.equal(await groups(), 1);
    assert.equal(await eventCount(store, "s50"), 0);
  });

  test("what the database refuses fails alone", async (t) => {
    const { url, store, states, commits } = await hundred(t);
    await asked(url, "ALTER TABLE holdfast.log ADD CONSTRAINT small CHECK (octet_length(sealed) < 1000)");
    t.after(() => asked(url, "ALTER TABLE holdfast.log DROP CONSTRAINT small"));
    const results = await commits((at) => {
      const commit = growth(streamName("s50"), states[at] ?? assert.fail(), {});
      return store.streams.commit({
        ...commit,
        events: { first: 1, count: 1, sealed: new Uint8Array(2000) },
      });
    });
    assertOthers(results);
    const bad = results[50];
    assert.ok(bad?.status === "rejected");
    assert.ok(bad.reason instanceof HoldfastError && bad.reason.message.includes("23514"));
    assert.deepEqual(await stateOf(store.streams, streamName("s50")), states[50]);
  });

  test("B1: a number that the log has is not given a second time, though the stream's row says that it is free", async (t) => {
    const { url, store, states, commits } = await hundred(t);
    await asked(
      url,
      `INSERT INTO holdfast.log (period, stream, log, first, count, sealed)
        SELECT period, id, 1, 1, 1, 'there' FROM holdfast.streams WHERE idempotency_key = 's50'`,
    );
    const results = await commits((at) =>
      store.streams.commit(growth(streamName("s50"), states[at] ?? assert.fail(), { events: 1 })),
    );
    assertOthers(results);
    const bad = results[50];
    assert.ok(bad?.status === "rejected");
    assert.ok(bad.reason instanceof HoldfastError && bad.reason.message.includes("23505"));
    assert.deepEqual(await stateOf(store.streams, streamName("s50")), states[50]);
  });

  test("A3: each transaction says for itself how durable it is, whatever its connection is set to", async (t) => {
    const { url, commits, states, store } = await hundred(t);
    // A setting that the transaction made has the source "session"; one of the connection comes from the server's files.
    await asked(
      url,
      `CREATE TABLE seen (source text, value text);
      CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
        INSERT INTO seen SELECT source, setting FROM pg_settings WHERE name = ''synchronous_commit''; RETURN NEW; END';
      CREATE TRIGGER see BEFORE UPDATE ON holdfast.receipts FOR EACH ROW EXECUTE FUNCTION see()`,
    );
    t.after(() => asked(url, "DROP TRIGGER see ON holdfast.receipts; DROP FUNCTION see; DROP TABLE seen"));
    await commits((at) =>
      store.streams.commit(growth(streamName("s50"), states[at] ?? assert.fail(), { events: 1 })),
    );
    assert.deepEqual(await asked(url, "SELECT DISTINCT source, value FROM seen"), [
      { source: "session", value: "on" },
    ]);
  });

  test("a caller's mistake fails alone", async (t) => {
    const { store, states, commits } = await hundred(t);
    const results = await commits((at) =>
      store.streams.commit(
        growth(streamName("s50"), states[at] ?? assert.fail(), { change: { eventFloor: 9 } }),
      ),
    );
    assertOthers(results);
    assert.equal(results[50]?.status, "rejected");
  });

  test("D1: two nodes that write the same streams and rows at once do not wait for each other in a circle", async (t) => {
    const { url, store, states } = await hundred(t);
    const peer = await opened(t, url);
    await Promise.all(names.map((name) => peer.streams.load(name)));
    const value = Uint8Array.of(1);
    const write = (by: PostgresStore, order: readonly number[]) =>
      Promise.all(
        order.flatMap((at) => [
          by.streams.commit(growth(streamName(`s${at}`), states[at] ?? assert.fail(), { events: 1 })),
          by.streams.create({ name: streamName(`new${at}`), keyCheck: KEY_CHECK, host: HOST }),
          by.tables.compareAndSwap({ table: "t", key: `k${at}` }, NO_ROW, value),
        ]),
      );
    const order = [...names.keys()];
    const [mine, theirs] = await Promise.all([write(store, order), write(peer, order.toReversed())]);
    const won = (results: readonly { readonly kind: string }[]): number =>
      results.filter(({ kind }) => kind === "committed" || kind === "written").length;
    assert.equal(won(mine) + won(theirs), 300);
    const [row] = await asked(
      url,
      "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
    );
    assert.equal(Number(row?.["deadlocks"]), 0);
  });
});

suite("a server that dies", () => {
  test("A3: is waited for, and nothing acknowledged is lost", async (t) => {
    const url = await server.emptyDatabase();
    const store = await opened(t, url, { patienceMs: 60_000 });
    const name = streamName("s");
    let state = await created(store.streams, name);
    for (let round = 0; round < 3; round++) {
      state = await grown(store.streams, name, state, { events: 1 });
      const under = store.streams.commit(growth(name, state, { events: 1 }));
      await server.kill();
      await server.start();
      const result = await under;
      assert.ok(result.kind === "committed");
      ({ state } = result);
    }
    assert.deepEqual(await stateOf(store.streams, name), state);
    assert.equal(await eventCount(store, "s"), 6);
  });

  test("F5: for too long fails the store: everything is refused, and a new one finds what was acknowledged", async (t) => {
    const url = await server.emptyDatabase();
    const store = await openPostgresStore(url, { patienceMs: 200 });
    const name = streamName("s");
    const state = await created(store.streams, name);
    await server.kill();
    const isUnavailable = (error: unknown): boolean => HoldfastError.codeOf(error) === "unavailable";
    await assert.rejects(store.streams.commit(growth(name, state, { events: 1 })), isUnavailable);
    await store.failed;
    await assert.rejects(store.streams.load(name), isUnavailable);
    await assert.rejects(store.tables.put({ table: "t", key: "k" }, Uint8Array.of(1)), isUnavailable);
    await assert.rejects(openPostgresStore(url), isUnavailable);
    await store.close();
    await server.start();
    const again = await opened(t, url);
    assert.deepEqual(await stateOf(again.streams, name), state);
  });
});

test(
  "F1: a store that is closed while its bell begins to listen is closed all the same",
  { timeout: 30_000 },
  async (t) => {
    const url = await server.emptyDatabase();
    const proxy = await startProxy(server.port);
    t.after(() => proxy.close());
    const listening = proxy.lose("listening");
    const through = url.replace(`:${server.port}`, `:${proxy.port}`);
    const bell = new Bell(parseAddress(through, {}, ""), "holdfast bell");
    await listening;
    await bell.close();
  },
);
