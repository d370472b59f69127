/** When a start looks at the log of a session that sleeps. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { ChangeSignal } from "../../src/async/change-signal.ts";
import type { State } from "../../src/gateway/session.ts";
import { SleepingLog } from "../../src/gateway/sleeping-log.ts";

/** A session that a start found asleep. Its log is asked for, and not given. */
class Asleep {
  readonly changes = new ChangeSignal();
  readonly record = { principal: "alice", answer: { streamId: "stream", fromEvent: 0 } };
  readonly memory = { isBehind: false };
  readonly look: SleepingLog;
  at: State["at"] = "sleeping";
  reads = 0;
  passTime = (): void => assert.fail("it waits for nothing");

  constructor({ held }: { readonly held?: object } = {}) {
    const { promise } = Promise.withResolvers<never>();
    const follow = (): Promise<never> => {
      this.reads++;
      return promise;
    };
    const environment = {
      after: (_: number, run: () => void) => {
        this.passTime = run;
        return () => undefined;
      },
    };
    const { signal: closing } = new AbortController();
    this.look = new SleepingLog(
      { clientOf: () => ({ follow }), environment, held, closing },
      this,
      this.changes,
    );
  }

  get state(): { readonly at: State["at"]; readonly record: Asleep["record"] } {
    return { at: this.at, record: this.record };
  }

  async wanted(): Promise<void> {
    this.at = "resuming";
    this.changes.notify();
    return Promise.resolve();
  }
}

test("where calls may be held, what they wake reads its log, and the look does not", async () => {
  const session = new Asleep({ held: {} });
  await session.wanted();
  await setImmediate();
  assert.equal(session.reads, 0);
  await session.look.looked;
});

test("a session that was woken is looked at when its log is read back", async () => {
  const session = new Asleep({ held: {} });
  session.memory.isBehind = true;
  await session.wanted();
  let isLooked = false;
  void session.look.looked.then(() => (isLooked = true));
  await setImmediate();
  assert.equal(isLooked, false);
  session.memory.isBehind = false;
  session.changes.notify();
  await session.look.looked;
});

test("a session that nothing wakes is looked at a second later, and at once when a request waits for it or no call can be held", async () => {
  const later = new Asleep({ held: {} });
  await setImmediate();
  assert.equal(later.reads, 0);
  later.passTime();
  await setImmediate();
  assert.equal(later.reads, 1);

  const asked = new Asleep({ held: {} });
  void asked.look.hurry();
  await setImmediate();
  assert.equal(asked.reads, 1);

  const atOnce = new Asleep();
  await setImmediate();
  assert.equal(atOnce.reads, 1);
});
