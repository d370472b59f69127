/**
 * A server whose store fails under it and is opened anew: a real store over a log in memory, real clients, one process.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Client } from "../../src/client/index.ts";
import { retry, type storeLife } from "../../src/core/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import {
  type Application,
  createServer,
  LastingServer,
  type Standing,
  type StoreNews,
} from "../../src/server/index.ts";
import { type CommitLog, MemoryLog, openLogStreamStore, type StreamStore } from "../../src/store/index.ts";
import { type Environment, memoryTransport, systemEnvironment } from "../../src/transport/index.ts";
import { bytes, HOME_KEY, PRINCIPAL, rest, text, turn, until, words } from "../e2e/rig.ts";

const SOON = { ...retry.DEFAULTS, baseMs: 2, capMs: 10, budget: { burst: 10_000, refillMs: 1 } };

interface TestStanding extends Standing {
  readonly store: StreamStore;
}

/** A disk: rows that outlive every handle, and whether it takes any more. */
class Disk {
  #log = new MemoryLog({ durability: "fsync" });
  isFull = false;
  /** How many handles are open; more than one would be two owners (D1). */
  handles = 0;
  closing: Promise<void> = Promise.resolve();

  open(): CommitLog {
    const log = this.#log.reopened();
    this.#log = log;
    this.handles++;
    assert.equal(this.handles, 1, "one owner at a time");
    let isOpen = true;
    return {
      durability: log.durability,
      scan: () => log.scan(),
      read: (row) => log.read(row),
      readBody: (row) => log.readBody(row),
      append: (...row) => this.#write(() => log.append(...row)),
      drop: (rows) => this.#write(() => log.drop(rows)),
      close: async () => {
        await this.closing;
        if (isOpen) this.handles--;
        isOpen = false;
        await log.close();
      },
    };
  }

  async #write<Done>(write: () => Promise<Done>): Promise<Done> {
    if (this.isFull) throw new HoldfastError("unavailable", "the disk is full");
    return write();
  }
}

interface Rig {
  readonly disk: Disk;
  readonly lasting: LastingServer<TestStanding>;
  readonly news: StoreNews[];
  readonly client: Client;
}

async function start(
  t: TestContext,
  application: Application,
  { life = {}, environment = systemEnvironment() }: Partial<Pick<Started, "life" | "environment">> = {},
): Promise<Rig> {
  const disk = new Disk();
  const news: StoreNews[] = [];
  const bugs: unknown[] = [];
  const onBug = (bug: unknown): void => void bugs.push(bug);
  const lasting = await LastingServer.open<TestStanding>({
    open: async () => {
      const { promise: failed, resolve: onFailed } = Promise.withResolvers<Error>();
      const log = disk.open();
      const store = await openLogStreamStore(log, { now: Date.now, onFailed }).catch(
        async (cause: unknown) => {
          await log.close();
          throw cause;
        },
      );
      if (disk.isFull) {
        await log.close();
        throw new HoldfastError("unavailable", "the disk is full");
      }
      const server = createServer({ store, sealing: nodeSealing(), application, onBug });
      return { server, store, failed, close: () => store.close() };
    },
    environment,
    life: { pauseMs: 5, ...life },
    onNews: (told) => news.push(told),
  });
  const transport = memoryTransport((meta, wire) => lasting.accept(meta, wire), {
    principalOf: (credentials) => credentials ?? PRINCIPAL,
  });
  const client = new Client<Uint8Array>({
    connect: transport.connect,
    sealing: nodeSealing(),
    homeKey: HOME_KEY,
    stream: { retry: SOON },
    onBug,
  });
  t.after(async () => {
    await client.close();
    await lasting.shutdown();
    await lasting.close();
    assert.deepEqual(bugs, []);
    assert.equal(disk.handles, 0);
  });
  return { disk, lasting, news, client };
}

interface Started {
  readonly life: Partial<storeLife.Options>;
  readonly environment: Environment;
}

/** Repeats each chunk, and ends with the client. */
const echo: Application = async (stream) => {
  let answered = 0;
  for await (const _ of stream.past()) answered++;
  for await (const input of stream.inputs) {
    if (input.kind === "close") break;
    if (input.kind === "chunk" && input.seqno >= answered)
      await stream.emit(bytes(`echo ${text(input.body)}`));
  }
  await stream.end(bytes("over"));
};

const kindsOf = (news: readonly StoreNews[]): readonly string[] => news.map(({ kind }) => kind);

test("F5: streams go on over a store that was opened anew, from what is on the disk and nothing else", async (t) => {
  const { disk, lasting, news, client } = await start(t, echo);
  const stream = await client.open({ first: bytes("one") });
  const first = await stream.events.next();
  assert.ok(first.done !== true);
  assert.equal(text(first.value.body), "echo one");
  const before = lasting.standing;
  disk.isFull = true;
  await stream.send(bytes("two"));
  await until(() => news.length > 0, "the store has failed");
  await assert.rejects(lasting.probe(), { code: "unavailable" });
  disk.isFull = false;
  await until(() => kindsOf(news).includes("back"), "the store is back");
  assert.notEqual(lasting.standing, before);
  await stream.send(bytes("three"));
  await stream.close();
  assert.deepEqual(words(await rest(stream)), ["echo two", "echo three", "over"]);
  const stored = await lasting.standing.store.load({
    principal: PRINCIPAL,
    idempotencyKey: stream.idempotencyKey,
  });
  assert.ok(stored.kind === "live" && stored.state.hostEpoch > 1, "it was claimed anew");
});

test("D5: a stream with nothing to commit stops as well when the store fails", async (t) => {
  const { disk, lasting, news, client } = await start(t, echo, { life: { pauseMs: 100_000 } });
  const idle = await client.open({ first: bytes("one") });
  await idle.events.next();
  assert.equal(lasting.hostedCount, 1);
  disk.isFull = true;
  await assert.rejects(failWrite(lasting));
  await until(() => news.length > 0, "the store has failed");
  await until(() => idle.status.trouble?.code === "unavailable", "its client was told");
  assert.equal(lasting.hostedCount, 0);
});

test("D5: a new stream runs without durability as soon as the store has failed, though a part of the store still answers", async (t) => {
  const { lasting, client } = await start(t, echo);
  lasting.standing.server.loseStore();
  const degraded = await client.open({ first: bytes("one") });
  await until(() => degraded.status.durability === "none", "it has a welcome that promises nothing");
  const first = await degraded.events.next();
  assert.ok(first.done !== true);
  assert.equal(text(first.value.body), "echo one");
});

/** A write of somebody else. */
async function failWrite({ standing }: LastingServer<TestStanding>): Promise<void> {
  const name = { principal: "bob", idempotencyKey: "other" };
  await standing.store.create({ name, keyCheck: new Uint8Array(32), host: { hostId: "x", leaseMs: 1 } });
}

/** The real one, and how many of its timers have rung. */
function countedTimers(): { readonly environment: Environment; rung: number } {
  const system = systemEnvironment();
  const counted = {
    rung: 0,
    environment: {
      ...system,
      after: (delayMs: number, run: () => void) =>
        system.after(delayMs, () => {
          counted.rung++;
          run();
        }),
    },
  };
  return counted;
}

test("D1: the store is opened only when the one that failed is closed", async (t) => {
  const timers = countedTimers();
  const { disk, lasting, news } = await start(t, echo, timers);
  const { promise, resolve } = Promise.withResolvers<void>();
  disk.closing = promise;
  disk.isFull = true;
  await assert.rejects(failWrite(lasting));
  disk.isFull = false;
  await until(() => timers.rung > 0, "the pause is over");
  await turn();
  resolve();
  await until(() => kindsOf(news).length > 1, "more news");
  assert.deepEqual(kindsOf(news), ["failed", "back"], "no opening was refused for its owner");
});

test("F5: three openings in a row that fail are the end, and every one is told", async (t) => {
  const { disk, lasting, news } = await start(t, echo);
  disk.isFull = true;
  await assert.rejects(failWrite(lasting));
  assert.match((await lasting.givenUp).message, /the disk is full/);
  assert.deepEqual(kindsOf(news), ["failed", "refused", "refused", "refused", "given_up"]);
});

test("what stands on a store that is down says when to come again", async (t) => {
  const { disk, lasting } = await start(t, echo, { life: { pauseMs: 100_000 } });
  disk.isFull = true;
  await assert.rejects(failWrite(lasting));
  await until(() => isDown(lasting), "the store has failed");
  const refusal = { code: "unavailable", retryAfterMs: 5_000, message: /being opened anew/ };
  assert.throws(() => lasting.usable, refusal);
  await assert.rejects(
    lasting.ask(({ store }) => store.countOpen(PRINCIPAL)),
    refusal,
  );
  await assert.rejects(
    lasting.ask(() => Promise.reject(new HoldfastError("not_found", "no"))),
    {
      code: "not_found",
    },
  );
});

function isDown(lasting: LastingServer<TestStanding>): boolean {
  try {
    return lasting.usable === undefined;
  } catch {
    return true;
  }
}

test("a store that has been down for a minute makes the process ill", async (t) => {
  let laterMs = 0;
  const system = systemEnvironment();
  const environment: Environment = { ...system, monotonic: () => system.monotonic() + laterMs };
  const { disk, lasting } = await start(t, echo, { life: { pauseMs: 100_000 }, environment });
  laterMs += 1e7;
  assert.equal(lasting.illness, undefined);
  disk.isFull = true;
  await assert.rejects(failWrite(lasting));
  await until(() => isDown(lasting), "the store has failed");
  assert.equal(lasting.illness, undefined);
  laterMs += 61_000;
  assert.match(lasting.illness ?? "", /^the store has been down for 6\d s$/);
});

test("a server that shuts down while the store is being opened closes it", async (t) => {
  const timers = countedTimers();
  const { disk, lasting, news } = await start(t, echo, timers);
  const { promise, resolve } = Promise.withResolvers<void>();
  disk.closing = promise;
  disk.isFull = true;
  await assert.rejects(failWrite(lasting));
  disk.isFull = false;
  await until(() => timers.rung > 0, "the pause is over");
  await lasting.shutdown();
  resolve();
  await lasting.close();
  assert.equal(disk.handles, 0);
  assert.deepEqual(kindsOf(news), ["failed"]);
});
