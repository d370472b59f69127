/** The three ways to wait: for a condition, for one's turn, and for the next of a queue. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BoundedQueue } from "../../src/async/bounded-queue.ts";
import { ChangeSignal } from "../../src/async/change-signal.ts";
import { KeyedQueue } from "../../src/async/keyed-queue.ts";

test("a condition is looked at before each wait and after each change, so no change is missed", async () => {
  const signal = new ChangeSignal();
  let count = 0;
  await signal.until(() => count === 0);
  const reached = Promise.all([signal.until(() => count >= 2), signal.until(() => count >= 3)]);
  for (; count < 3; signal.notify()) count++;
  await reached;
});

test("whoever waits for a condition is let go when its signal is aborted, before and during the wait", async () => {
  const signal = new ChangeSignal();
  const leaving = new AbortController();
  const left = signal.until(() => false, leaving.signal);
  leaving.abort();
  await left;
  await signal.until(() => false, leaving.signal);
});

test("work of one key runs one after the other, of two keys at once, and a failure stops nothing behind it", async () => {
  const queue = new KeyedQueue();
  const gate = Promise.withResolvers<void>();
  const ran: string[] = [];
  const first = queue.run("a", async () => {
    await gate.promise;
    ran.push("first");
    throw new Error("no");
  });
  const second = queue.run("a", async () => ran.push("second"));
  await queue.run("b", async () => ran.push("other"));
  assert.deepEqual(ran, ["other"]);
  const settled = queue.settled();
  gate.resolve();
  await assert.rejects(first, /no/);
  await second;
  await settled;
  assert.deepEqual(ran, ["other", "first", "second"]);
});

test("a queue keeps the order and the measure, says when it is drained, and ends behind what waits", async () => {
  let drained = 0;
  const queue = new BoundedQueue<{ readonly text: string }>({
    sizeOf: ({ text }) => text.length,
    onDrained: () => drained++,
  });
  queue.push({ text: "one" });
  queue.push({ text: "three" });
  assert.equal(queue.size, 8);
  assert.deepEqual(await queue.next(), { done: false, value: { text: "one" } });
  assert.deepEqual([queue.size, drained], [5, 0]);
  const rest = (async () => {
    const texts: string[] = [];
    for await (const { text } of queue) texts.push(text);
    return texts;
  })();
  queue.push({ text: "four" });
  queue.finish();
  assert.deepEqual(await rest, ["three", "four"]);
  assert.deepEqual([queue.size, drained], [0, 2]);
});

test("a queue that fails gives out what waits, and then the failure; each value goes to one reader", async () => {
  const queue = new BoundedQueue<{ readonly at: number }>({ sizeOf: () => 1 });
  const taken = Promise.all([queue.next(), queue.next()]);
  queue.push({ at: 1 });
  queue.push({ at: 2 });
  assert.deepEqual(
    (await taken).map(({ value }) => value?.at),
    [1, 2],
  );
  queue.finish(new Error("gone"));
  await assert.rejects(queue.next(), /gone/);
});
