/** One thread, one order: what a database was asked to write is durable in the order in which it was asked, whoever asked. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { Transferable, Worker } from "node:worker_threads";
import { DATABASE_FILE } from "../../src/store/index.ts";
import { lockPathOf } from "../../src/store/sqlite/database.ts";
import { startThread, type Thread } from "../../src/store/sqlite/thread.ts";
import { newFolder } from "./sqlite-fixtures.ts";

const WRITES = 120;
/** The second half is more than one transaction takes. */
const BYTES = 300_000;
const FAILS_AT = 80;

function open(folder: string): Promise<Thread> {
  const path = join(folder, DATABASE_FILE);
  return startThread({ path, lockPath: lockPathOf(path), mode: "own" });
}

/** Rows of a table, and rows of the log, by turns; what a batch expects that is not so concerns it alone. */
function write(thread: Thread, number: number): Promise<unknown> {
  const value = new Uint8Array(BYTES).fill(number);
  if (number % 2 === 0)
    return thread.call("append", { record: value, body: undefined, freed: [], blobs: [], nowMs: 0 });
  const put = { kind: "put", table: "t", value } as const;
  const refused = { ...put, key: "absent", expectedVersion: 99 };
  void thread.call("batch", { writes: [refused], nowMs: 0 }).catch(() => undefined);
  return thread.call("batch", { writes: [{ ...put, key: String(number) }], nowMs: 0 });
}

/** The numbers that a database holds. */
async function numbersIn(folder: string): Promise<readonly number[]> {
  const thread = await open(folder);
  const page = { after: undefined, countMax: 2 * WRITES };
  const rows = await thread.call("listRows", { table: "t", prefix: "", page, nowMs: 0 });
  const numbers = rows.map(({ value }) => value[0] ?? -1);
  for (let after = 0, isLast = false; !isLast;) {
    const found = await thread.call("scan", { after, bytesMax: 1_000_000 });
    numbers.push(...found.rows.map(({ record }) => record[0] ?? -1));
    after = found.rows.at(-1)?.row ?? after;
    isLast = found.isLast;
  }
  await thread.close();
  return numbers.toSorted((a, b) => a - b);
}

test("A5, F5: of writes that did not wait for each other a failure leaves the first ones, and none behind a missing one", async () => {
  const folder = newFolder();
  const thread = await open(folder);
  const answers: Promise<unknown>[] = [];
  for (let number = 0; number < WRITES; number++) {
    const part = { upload: 7, part: 0, bytes: new Uint8Array(1) };
    // A part that is there already cannot be written.
    if (number === 1 || number === FAILS_AT) answers.push(thread.call("putPart", part));
    else answers.push(write(thread, number));
  }
  const settled = await Promise.allSettled(answers);
  await thread.close();
  const answered = settled.flatMap(({ status }, number) => (status === "fulfilled" ? [number] : []));
  assert.ok(answered.length > 1 && answered.length <= FAILS_AT, `${answered.length} were answered`);
  assert.deepEqual(
    answered,
    Array.from(answered, (_, at) => at),
  );
  assert.deepEqual(
    await numbersIn(folder),
    answered.filter((number) => number !== 1),
  );
});

test("requests of one turn of the event loop are one message, and one that cannot be sent holds up none", async () => {
  const posts: number[] = [];
  process.once("worker", (worker: Worker) => {
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (message: readonly unknown[], transfer: readonly Transferable[] = []): void => {
      posts.push(message.length);
      post(message, transfer);
    };
  });
  const thread = await open(newFolder());
  const put = (key: string, value: Uint8Array) => ({ kind: "put", table: "t", key, value }) as const;
  const appended = async (): Promise<number> => {
    // However many promises lie between them.
    for (let hop = 0; hop < 50; hop++) await Promise.resolve();
    const record = Uint8Array.of(1);
    return thread.call("append", { record, body: undefined, freed: [], blobs: [], nowMs: 0 });
  };
  const batch = (value: Uint8Array) => thread.call("batch", { writes: [put("a", value)], nowMs: 0 });
  await Promise.all([batch(Uint8Array.of(1)), appended()]);
  assert.deepEqual(posts, [2]);
  const lent = new Uint8Array(8);
  structuredClone(lent, { transfer: [lent.buffer] });
  const unsendable = thread.call("copyTo", "x", [lent.buffer]);
  const [refused, written] = await Promise.allSettled([unsendable, batch(Uint8Array.of(2))]);
  assert.equal(refused.status, "rejected");
  assert.equal(written.status, "fulfilled");
  await thread.close();
});
