/**
 * How long an answer can be had again: what the rows of retries say, and when they end.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerRef } from "../../src/gateway/answer-ref.ts";
import { BackgroundTasks } from "../../src/gateway/background-tasks.ts";
import { GivenAnswers } from "../../src/gateway/given-answers.ts";
import { KeptResponses } from "../../src/gateway/kept-responses.ts";
import { Names } from "../../src/gateway/names.ts";
import { Retries } from "../../src/gateway/retries.ts";
import { SealedRows } from "../../src/gateway/sealed-rows.ts";
import { Stops } from "../../src/gateway/stops.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { systemEnvironment } from "../../src/transport/index.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const LIMITS = {
  graceMs: 60_000,
  sessionTtlMs: 600_000,
  idempotencyTtlMs: 3_600_000,
  responseTtlMs: 3_600_000,
  backgroundMs: 3_600_000,
};
const ANSWER = {
  responseId: "chatcmpl-1",
  createdSeconds: 0,
  fromEvent: 0,
  streamId: "stream",
  model: "sim/one",
  includeUsage: false,
  door: "chat",
} as const;
const NAMES = new Names(new Uint8Array(32).fill(8));
const ROW = NAMES.row("body", "ada", "hash");
const REQUEST = {
  principal: "ada",
  bodyHash: "hash",
  idempotencyKey: undefined,
  retrySign: "none" as const,
  names: { asker: ROW, body: ROW, key: undefined },
};

/** The retries of processes over one disk, with one answer in its rows. */
class Rig {
  nowMs = 0;
  readonly #tables = memoryTableStore({ now: () => this.nowMs });
  readonly #failed = (bug: unknown): void => assert.fail(String(bug));
  readonly tasks = new BackgroundTasks(this.#failed);
  #rows: SealedRows | undefined;

  /** The process before has ended in good order. */
  async start(): Promise<Retries> {
    await this.#rows?.flush();
    const sealer = nodeSealing().homeSealer(new Uint8Array(32).fill(7));
    const rows = new SealedRows({
      tables: this.#tables,
      sealer,
      onDamaged: this.#failed,
      environment: systemEnvironment(),
    });
    this.#rows = rows;
    const now = (): number => this.nowMs;
    const names = NAMES;
    const given = new GivenAnswers({ rows, names, now });
    await given.learn();
    return new Retries({
      given,
      kept: new KeptResponses({ rows, names, now, limits: LIMITS }),
      conversations: { append: () => assert.fail(), inTurn: () => assert.fail() },
      stops: new Stops(rows, LIMITS.idempotencyTtlMs),
      left: { stop: async () => undefined },
      names,
      limits: LIMITS,
      tasks: this.tasks,
      environment: systemEnvironment(),
    });
  }

  async answered(retries: Retries, answer: AnswerRef = ANSWER): Promise<void> {
    const { writes } = await retries.rows(REQUEST, answer);
    await this.#tables.batch(writes);
  }
}

test("an answer that one response closed with, while another one broke, ends with the grace period", async () => {
  const rig = new Rig();
  const retries = await rig.start();
  await rig.answered(retries);
  const [broken, closed] = [retries.responding(ANSWER), retries.responding(ANSWER)];
  closed.delivered(true);
  closed.arrived("closed");
  broken.delivered(false);
  await rig.tasks.done();
  assert.equal(await retries.earlier(REQUEST), undefined, "it has reached its client");
  const counted = { ...REQUEST, retrySign: "counted" as const };
  rig.nowMs += LIMITS.graceMs;
  assert.equal(await retries.earlier(counted), undefined, "its time is over");
});

test("an answer that one response closed with has reached its client for the next process as well", async () => {
  const rig = new Rig();
  const retries = await rig.start();
  await rig.answered(retries);
  const [broken, closed] = [retries.responding(ANSWER), retries.responding(ANSWER)];
  closed.delivered(true);
  closed.arrived("closed");
  broken.delivered(false);
  await rig.tasks.done();
  assert.equal(await (await rig.start()).earlier(REQUEST), undefined);
});

test("an answer whose stream is gone is in no retry's way, in the next process either", async () => {
  const rig = new Rig();
  await rig.answered(await rig.start());
  const retries = await rig.start();
  assert.equal((await retries.earlier(REQUEST))?.responseId, ANSWER.responseId);
  await retries.cannotBeHad(ANSWER);
  await rig.answered(retries, { ...ANSWER, responseId: "chatcmpl-2" });
  const given = await (await rig.start()).earlier(REQUEST);
  assert.equal(given?.responseId, "chatcmpl-2");
});

test("a row that a start has seen, and that is over when it is asked for, is in no retry's way", async () => {
  const rig = new Rig();
  await rig.answered(await rig.start());
  const retries = await rig.start();
  rig.nowMs += LIMITS.sessionTtlMs;
  assert.equal(await retries.earlier(REQUEST), undefined);
});
