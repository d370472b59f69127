/**
 * Random histories against the naive store, with restarts in between: every answer must be the same.
 *
 * Operations of one round are submitted together and share group commits; the naive store takes them
 * one by one in the same order, and knows nothing of tidying.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { StateChange, StreamName } from "../../src/core/stream-state.ts";
import type { HostLease, StreamStore } from "../../src/store/index.ts";
import { KEY_CHECK, chunksFrom, eventsFrom, readAll } from "../conformance/stream-fixtures.ts";
import { NaiveStreamStore } from "./naive-stream-store.ts";

const NAMES: readonly StreamName[] = [
  { principal: "a", idempotencyKey: "bc" },
  { principal: "ab", idempotencyKey: "c" },
  { principal: "a", idempotencyKey: "d" },
];

type Operation =
  | {
      readonly kind: "create";
      readonly name: StreamName;
      readonly host: HostLease;
      readonly chunks: number;
      readonly events: number;
      readonly change: StateChange;
    }
  | { readonly kind: "claim"; readonly name: StreamName; readonly host: HostLease }
  | { readonly kind: "renew"; readonly name: StreamName; readonly epoch: number; readonly leaseMs: number }
  | { readonly kind: "release"; readonly name: StreamName; readonly epoch: number }
  | {
      readonly kind: "commit";
      readonly name: StreamName;
      readonly chunks: number;
      readonly events: number;
      readonly floorBack: number | undefined;
      readonly change: StateChange;
      readonly off: number;
    };

export type Round =
  | { readonly kind: "work"; readonly operations: readonly Operation[] }
  | { readonly kind: "advance"; readonly ms: number }
  | { readonly kind: "expire"; readonly name: StreamName; readonly late: boolean }
  | { readonly kind: "forget"; readonly backMs: number }
  | { readonly kind: "tidy"; readonly backMs: number; readonly meanwhile: readonly Operation[] }
  | { readonly kind: "restart"; readonly dropsLost: boolean };

const name = fc.constantFrom(...NAMES);
const host = fc.record({ hostId: fc.constantFrom("h", "i"), leaseMs: fc.nat(50) });
const epoch = fc.integer({ min: 1, max: 4 });
const change: fc.Arbitrary<StateChange> = fc.oneof(
  { weight: 12, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.constant({ closed: true }) },
  { weight: 1, arbitrary: fc.constant({ aborted: true }) },
  { weight: 1, arbitrary: fc.constant({ end: "completed" }) },
);

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("create"),
      name,
      host,
      chunks: fc.nat(2),
      events: fc.nat(2),
      change,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("claim"), name, host }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("renew"), name, epoch, leaseMs: fc.nat(80) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("release"), name, epoch }) },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("commit"),
      name,
      chunks: fc.nat(2),
      events: fc.nat(3),
      floorBack: fc.option(fc.nat(4), { nil: undefined, freq: 8 }),
      change,
      off: fc.oneof(
        { weight: 9, arbitrary: fc.constant(0) },
        { weight: 1, arbitrary: fc.integer({ min: 1, max: 3 }) },
      ),
    }),
  },
);

export const round: fc.Arbitrary<Round> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("work"),
      operations: fc.array(operation, { minLength: 1, maxLength: 6 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("advance"), ms: fc.integer({ min: -5, max: 40 }) }) },
  // Long enough that rows are told apart by their age.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("advance"), ms: fc.constant(12_000) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("tidy"),
      backMs: fc.integer({ min: -20, max: 20 }),
      meanwhile: fc.array(operation, { maxLength: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("expire"), name, late: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("forget"), backMs: fc.nat(30) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("restart"), dropsLost: fc.boolean() }) },
);

function refused(error: unknown): string {
  if (error instanceof Error && error.name === "AssertionFailed") return "refused";
  throw error;
}

/** What the history is played on. */
export interface ModelWorld {
  /** The store as a start finds it. With `dropsLost`, everything that was dropped is there again, where the store can lose such a thing. */
  open(now: () => number, dropsLost: boolean): Promise<StreamStore>;
  /** Told whenever the time has changed. */
  onTime?(nowMs: number): void;
  /** True where a stream is looked up outside of the queue: then operations of one stream wait for each other. */
  readonly isOrderedByStream?: boolean;
}

export class Run {
  readonly #world: ModelWorld;
  readonly #naive = new NaiveStreamStore();
  #store: StreamStore | undefined;

  constructor(world: ModelWorld) {
    this.#world = world;
  }

  async play(rounds: readonly Round[]): Promise<void> {
    this.#setTime(1000);
    await this.#restart(false);
    for (const next of rounds) {
      await this.#round(next);
      await this.#compare();
    }
    await this.#restart(false);
    await this.#compare();
    await this.#store?.close();
  }

  #setTime(nowMs: number): void {
    this.#naive.nowMs = nowMs;
    this.#world.onTime?.(nowMs);
  }

  async #round(next: Round): Promise<void> {
    switch (next.kind) {
      case "work":
        await this.#work(next.operations);
        break;
      case "advance":
        this.#setTime(this.#naive.nowMs + next.ms);
        break;
      case "expire": {
        const found = this.#naive.load(next.name);
        const hostEpoch = (found.kind === "live" ? found.state.hostEpoch : 0) - (next.late ? 1 : 0);
        const expected = this.#naive.expire(next.name, hostEpoch);
        assert.deepEqual(await this.#opened().expire(next.name, hostEpoch), expected);
        break;
      }
      case "forget": {
        const beforeMs = this.#naive.nowMs - next.backMs;
        const expected = this.#naive.forgetGone(beforeMs);
        assert.equal(await this.#opened().forgetGone(beforeMs), expected);
        break;
      }
      case "tidy": {
        const tidied = this.#opened().tidy(this.#naive.nowMs - next.backMs);
        await this.#work(next.meanwhile);
        await tidied;
        break;
      }
      case "restart":
        await this.#restart(next.dropsLost);
        break;
    }
  }

  async #work(operations: readonly Operation[]): Promise<void> {
    const expected: unknown[] = [];
    const calls: Promise<unknown>[] = [];
    const last = new Map<StreamName, Promise<unknown>>();
    for (const operation of operations) {
      const [answer, ask] = this.#submit(this.#opened(), operation);
      expected.push(answer);
      const before = this.#world.isOrderedByStream === true ? last.get(operation.name) : undefined;
      const call = before === undefined ? ask() : before.then(ask);
      last.set(operation.name, call);
      calls.push(call);
    }
    assert.deepEqual(await Promise.all(calls), expected);
  }

  /** What the naive store answers, and how the real one is asked for the same. */
  #submit(store: StreamStore, op: Operation): [unknown, () => Promise<unknown>] {
    const naive = this.#naive;
    switch (op.kind) {
      case "create": {
        const chunks = op.chunks === 0 ? undefined : chunksFrom(0, op.chunks);
        const events = op.events === 0 ? undefined : eventsFrom(1, op.events);
        const first = { chunks, events, change: op.change };
        const creation = { name: op.name, keyCheck: KEY_CHECK, host: op.host, first };
        return [naive.create(creation), () => store.create(creation).catch(refused)];
      }
      case "claim":
        return [naive.claim(op.name, op.host), () => store.claim(op.name, op.host)];
      case "renew":
        return [naive.renew(op.name, op.epoch, op.leaseMs), () => store.renew(op.name, op.epoch, op.leaseMs)];
      case "release":
        return [naive.release(op.name, op.epoch), () => store.release(op.name, op.epoch)];
      case "commit": {
        const found = naive.load(op.name);
        const known = found.kind === "live" ? found.state : { hostEpoch: 1, nextSeqno: 0, eventHead: 0 };
        const expected = {
          hostEpoch: known.hostEpoch + (op.off === 1 ? 1 : 0),
          nextSeqno: known.nextSeqno + (op.off === 2 ? 1 : 0),
          eventHead: known.eventHead + (op.off === 3 ? 1 : 0),
        };
        const floor =
          op.floorBack === undefined ? {} : { eventFloor: Math.max(1, known.eventHead - op.floorBack) };
        const commit = {
          name: op.name,
          expected,
          chunks: op.chunks === 0 ? undefined : chunksFrom(expected.nextSeqno, op.chunks),
          events: op.events === 0 ? undefined : eventsFrom(expected.eventHead + 1, op.events),
          change: { ...op.change, ...floor },
        };
        return [naive.commit(commit), () => store.commit(commit).catch(refused)];
      }
    }
  }

  async #compare(): Promise<void> {
    const store = this.#opened();
    const naive = this.#naive;
    for (const name of NAMES) {
      const found = await store.load(name);
      assert.deepEqual(found, naive.load(name));
      if (found.kind !== "live") continue;
      const { eventFloor } = found.state;
      assert.deepEqual(
        await readAll(eventFloor, (from) => store.readEvents(name, from, 60)),
        naive.readEvents(name, eventFloor),
      );
      assert.deepEqual(await readAll(0, (from) => store.readChunks(name, from, 60)), naive.readChunks(name));
    }
    for (const principal of ["a", "ab"]) {
      assert.equal(await store.countOpen(principal), naive.countOpen(principal));
    }
    const idle = await store.listIdle(naive.nowMs - 10, 100);
    const activities = idle.map((name) => {
      const found = naive.load(name);
      return found.kind === "live" ? found.state.activityMs : assert.fail("an idle stream is live");
    });
    assert.deepEqual(activities, naive.idleActivities(naive.nowMs - 10));
  }

  async #restart(dropsLost: boolean): Promise<void> {
    await this.#store?.close();
    this.#store = await this.#world.open(() => this.#naive.nowMs, dropsLost);
  }

  #opened(): StreamStore {
    return this.#store ?? assert.fail("the store is open");
  }
}
