/**
 * The answers that requests were given, as long as one of them can be asked for again: a list for each body.
 *
 *     gateway_responses  by body and answer, and by Idempotency-Key: which answer it is, and what became of it
 *
 * Memory decides, and the rows follow it: they are for the process after this one. Nearly all requests are new, so what is not in memory is
 * not looked for on the disk. What earlier processes left behind is known by its name from the start, and read when it is asked for.
 *
 * On tables that other nodes share the rows decide, and are read for each request. Memory has what becomes of the responses of this process, as long as its answer was not taken
 * elsewhere: each take counts, and a write over another count is not made.
 */
import { KeyedQueue } from "../async/keyed-queue.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { TableWrite } from "../store/table-store.ts";
import { afterRestart, type Delivery, together } from "./delivery.ts";
import { NAME_CHARS, type Names } from "./names.ts";
import { livesElsewhere, type Neighbours } from "./neighbours.ts";
import { NO_ROW, type SealedRows } from "./sealed-rows.ts";
import { decodeResponse, encodeResponse, type ResponseRecord } from "./session-record.ts";

export const RESPONSES = "gateway_responses";
/** Two are enough to make it doubtful which one a retry means. */
const CLOSED_PER_BODY_MAX = 16;
/** Rows that end by themselves soon; they go with a write that is made anyhow. */
const GONE_MAX = 256;
/** Clocks differ a little; a name that is kept for longer costs a look at the disk. */
const NAMES_KEPT_MS = 60 * 60_000;

/** A response with an answer, in progress or ended. */
interface GivenResponse {
  delivery: Delivery;
}

export class GivenAnswer {
  readonly key: string;
  /** The half of the key that is the body's. */
  readonly body: string;
  readonly record: ResponseRecord;
  isRetried: boolean;
  /** How often retries have asked for it. */
  takes: number;
  /** What an earlier process knew; undefined as soon as this one gives it. */
  before: Delivery | undefined;
  /** Since it was asked for last: what became of an earlier response does not matter any more. */
  responses = new Set<GivenResponse>();
  /** Not before its last response has ended. */
  expiresMs: number;

  constructor(key: string, record: ResponseRecord, expiresMs: number, before?: Delivery) {
    this.key = key;
    this.body = prefixOf(key);
    this.record = record;
    this.isRetried = record.isRetried;
    this.takes = record.takes;
    this.before = before;
    this.expiresMs = expiresMs;
  }

  get delivery(): Delivery | undefined {
    return together([...this.responses].map(({ delivery }) => delivery)) ?? this.before;
  }

  get isKeyed(): boolean {
    return this.record.isKeyed;
  }

  /** An answer that begins with its stream is another one for each request. */
  get isContinued(): boolean {
    return this.record.answer.fromEvent > 0;
  }
}

interface GivenAnswersOptions {
  readonly rows: SealedRows;
  readonly names: Names;
  readonly now: () => number;
  /** Of tables that other nodes share. */
  readonly neighbours?: Neighbours | undefined;
}

export class GivenAnswers {
  readonly #options: GivenAnswersOptions;
  /** Of each answer, one after the other. */
  readonly #writes = new KeyedQueue();
  readonly #byBody = new Map<string, GivenAnswer[]>();
  /** By the id of the response, which the answer keeps however often it is given. */
  readonly #byAnswer = new Map<string, GivenAnswer>();
  /** Those that nothing is open of, by the time at which they end. */
  readonly #settled = new Set<GivenAnswer>();
  /** Rows of earlier processes that were not read yet, by body. */
  readonly #unread = new Map<string, { readonly key: string; readonly expiresMs: number }[]>();
  /** Those that are being read, by body. */
  readonly #reading = new Map<string, Promise<void>>();
  #gone: string[] = [];
  /** On shared tables: what a request under an Idempotency-Key has found there, by its row. */
  readonly #looked = new Map<string, number>();

  constructor(options: GivenAnswersOptions) {
    this.#options = options;
  }

  /** Before the first request: what earlier processes left behind. */
  async learn(): Promise<void> {
    if (this.#options.neighbours !== undefined) return;
    for await (const { key, expiresMs = Infinity } of this.#options.rows.list(RESPONSES)) {
      const body = prefixOf(key);
      this.#unread.set(body, [...(this.#unread.get(body) ?? []), { key, expiresMs }]);
    }
  }

  /** What was answered to this body and can still be asked for, the oldest first. */
  async ofBody(body: string): Promise<readonly GivenAnswer[]> {
    const { now, neighbours } = this.#options;
    const prefix = prefixOf(body);
    if (neighbours !== undefined) await this.#readShared(prefix, neighbours);
    if (this.#unread.has(prefix)) {
      const reading = this.#read(prefix).finally(() => this.#reading.delete(prefix));
      this.#reading.set(prefix, reading);
    }
    await this.#reading.get(prefix);
    return (this.#byBody.get(prefix) ?? []).filter(({ expiresMs }) => expiresMs > now());
  }

  async #read(prefix: string): Promise<void> {
    const unread = this.#unread.get(prefix) ?? [];
    this.#unread.delete(prefix);
    for (const { key, expiresMs } of unread) {
      const record = await this.#options.rows.read(RESPONSES, key, decodeResponse);
      // A row by Idempotency-Key is read by its own name.
      if (record === undefined || key !== this.#keyOf(prefix, record)) continue;
      this.#add(new GivenAnswer(key, record, expiresMs, afterRestart(record.delivery)));
    }
  }

  /** All rows of the body, as they are now. What this process gives is as it knows it, unless another one took it. */
  async #readShared(prefix: string, neighbours: Neighbours): Promise<void> {
    const { rows } = this.#options;
    const found = new Set<string>();
    for await (const row of rows.list(RESPONSES, prefix)) {
      const { key, expiresMs = Infinity } = row;
      const record = await rows.open(RESPONSES, row, decodeResponse);
      if (record === undefined || key !== this.#keyOf(prefix, record)) continue;
      found.add(key);
      const known = this.#byAnswer.get(record.answer.responseId);
      if (known?.takes === record.takes && record.owner === neighbours.self) continue;
      if (known !== undefined) this.#drop(known);
      const isGiven = await livesElsewhere(neighbours, record.owner);
      const before = isGiven ? record.delivery : afterRestart(record.delivery);
      this.#add(new GivenAnswer(key, record, expiresMs, before));
    }
    for (const known of this.#byBody.get(prefix) ?? []) if (!found.has(known.key)) this.#drop(known);
  }

  #keyOf(body: string, { answer: { responseId } }: ResponseRecord): string {
    return prefixOf(body) + prefixOf(this.#options.names.row("answer", responseId));
  }

  /** The answer of a request under an Idempotency-Key. */
  async named(key: string): Promise<ResponseRecord | undefined> {
    const { row, version } = await this.#options.rows.look(RESPONSES, key, decodeResponse);
    if (this.#options.neighbours !== undefined) this.#looked.set(key, version);
    return row;
  }

  /** Undefined when its time is over: reading it does not make it one that a retry gets. */
  ofAnswer(responseId: string): GivenAnswer | undefined {
    const given = this.#byAnswer.get(responseId);
    return given !== undefined && given.expiresMs > this.#options.now() ? given : undefined;
  }

  /** An answer that is about to be given, with the write that makes it findable after a crash. */
  async begin(body: string, record: ResponseRecord, ttlMs: number): Promise<TableWrite> {
    const key = this.#keyOf(body, record);
    // A stream that a killed process had begun is begun again: its answer takes the place of the one that was lost with it.
    const lost = this.#byAnswer.get(record.answer.responseId);
    if (lost !== undefined) this.#drop(lost);
    this.#add(new GivenAnswer(key, record, this.#options.now() + ttlMs));
    return this.#options.rows.put(RESPONSES, key, this.#encoded(record), ttlMs);
  }

  /** Replaces the row that the request has read. Where two nodes write for the same key, the write of the second one is refused. */
  async namedWrite(key: string, record: ResponseRecord, ttlMs: number): Promise<TableWrite> {
    const { rows, neighbours } = this.#options;
    const put = await rows.put(RESPONSES, key, this.#encoded(record), ttlMs);
    if (neighbours === undefined) return put;
    const expectedVersion = this.#looked.get(key) ?? NO_ROW;
    this.#looked.delete(key);
    return { ...put, expectedVersion };
  }

  #encoded(record: ResponseRecord): Uint8Array {
    const { neighbours } = this.#options;
    return encodeResponse(neighbours === undefined ? record : { ...record, owner: neighbours.self });
  }

  /** Notes what became of it. A crash that loses this leaves an answer that counts as lost: its next request is a retry. */
  async note(given: GivenAnswer, ttlMs: number): Promise<void> {
    await this.#writes.run(given.key, () => this.#write(given, ttlMs, "behind"));
  }

  async #write(given: GivenAnswer, ttlMs: number, when: "now" | "behind"): Promise<void> {
    const { key, isRetried, takes, delivery = "open" } = given;
    const record = { ...given.record, isRetried, takes, delivery };
    const put = await this.#options.rows.put(RESPONSES, key, this.#encoded(record), ttlMs);
    // It may have come to its end meanwhile, and its row with it.
    if (this.#byAnswer.get(record.answer.responseId) !== given) return;
    if (this.#options.neighbours !== undefined) return this.#writeShared(put, takes);
    const writes = [put, ...this.#gone.splice(0).map(deletion)];
    if (when === "behind") this.#options.rows.behind(writes);
    else await this.#options.rows.batch(writes);
  }

  /** Not over what another node has taken. */
  async #writeShared(write: TableWrite, takes: number): Promise<void> {
    const { rows } = this.#options;
    const { row, version } = await rows.look(RESPONSES, write.key, decodeResponse);
    if (row?.takes === takes) await rows.batch([{ ...write, expectedVersion: version }]);
  }

  /** A retry asks for it: what became of the responses before does not matter any more. */
  async take(given: GivenAnswer, ttlMs: number): Promise<void> {
    if (this.#options.neighbours !== undefined) await this.#takeShared(given, ttlMs);
    given.isRetried = true;
    given.before = undefined;
    given.responses = new Set();
    given.expiresMs = this.#options.now() + ttlMs;
    await this.#writes.run(given.key, () => this.#write(given, ttlMs, "now"));
  }

  /** Rejects with `fenced` when another node takes it at the same time. */
  async #takeShared(given: GivenAnswer, ttlMs: number): Promise<void> {
    const { rows } = this.#options;
    const { row, version } = await rows.look(RESPONSES, given.key, decodeResponse);
    const takes = given.takes + 1;
    const taken = this.#encoded({ ...given.record, isRetried: true, takes, delivery: "open" });
    const write = await rows.put(RESPONSES, given.key, taken, ttlMs);
    if (row?.takes !== given.takes) throw new HoldfastError("fenced", "another node has taken this answer");
    await rows.batch([{ ...write, expectedVersion: version }]);
    given.takes = takes;
  }

  /** A response with it is in progress: it stays as long as that takes. */
  respond(given: GivenAnswer): GivenResponse {
    const response: GivenResponse = { delivery: "open" };
    given.responses.add(response);
    given.expiresMs = Infinity;
    this.#settled.delete(given);
    return response;
  }

  /** No response with it is in progress: it can be asked for again for a while. */
  settle(given: GivenAnswer, ttlMs: number): void {
    const nowMs = this.#options.now();
    given.expiresMs = nowMs + ttlMs;
    this.#settled.delete(given);
    this.#settled.add(given);
    for (const oldest of this.#settled) {
      if (oldest.expiresMs > nowMs) break;
      this.#drop(oldest);
    }
  }

  /** It arrived, as far as is known: only a few such answers are kept of a body. */
  closed(given: GivenAnswer): void {
    const all = this.#byBody.get(given.body) ?? [];
    const closed = all.filter(({ delivery }) => delivery === "closed");
    const [oldest] = closed.length > CLOSED_PER_BODY_MAX ? closed : [];
    if (oldest !== undefined) this.#drop(oldest);
  }

  /** It has arrived: it is not given again. */
  async end(given: GivenAnswer): Promise<void> {
    this.#drop(given);
    // Another node would give it again.
    if (this.#options.neighbours !== undefined) return this.#writeShared(deletion(given.key), given.takes);
    this.#gone.push(given.key);
    if (this.#gone.length > GONE_MAX) this.#gone.shift();
  }

  /** It cannot be given any more. Resolves when its row is gone as well. */
  async remove(given: GivenAnswer): Promise<void> {
    this.#drop(given);
    await this.#writes.run(given.key, () => this.#options.rows.batch([deletion(given.key)]));
  }

  /** Their rows are about to go. */
  forget(keys: readonly string[]): void {
    for (const key of keys) {
      const given = this.#byBody.get(prefixOf(key))?.find((one) => one.key === key);
      if (given !== undefined) this.#drop(given);
      const unread = this.#unread.get(prefixOf(key))?.filter((one) => one.key !== key);
      if (unread !== undefined) this.#unread.set(prefixOf(key), unread);
    }
  }

  /** The writes that remove these rows. */
  deletions(keys: readonly string[]): readonly TableWrite[] {
    return keys.map(deletion);
  }

  /** Drops answers that were begun and never given, and names of rows that have ended. Called with each clean-up. */
  forgetEnded(): void {
    const endedMs = this.#options.now() - NAMES_KEPT_MS;
    for (const given of this.#byAnswer.values()) if (given.expiresMs < endedMs) this.#drop(given);
    for (const [body, unread] of this.#unread) {
      const left = unread.filter(({ expiresMs }) => expiresMs >= endedMs);
      if (left.length === 0) this.#unread.delete(body);
      else this.#unread.set(body, left);
    }
  }

  #add(given: GivenAnswer): void {
    const { body } = given;
    this.#byBody.set(body, [...(this.#byBody.get(body) ?? []), given]);
    this.#byAnswer.set(given.record.answer.responseId, given);
  }

  #drop(given: GivenAnswer): void {
    const { body } = given;
    const left = (this.#byBody.get(body) ?? []).filter((other) => other !== given);
    if (left.length === 0) this.#byBody.delete(body);
    else this.#byBody.set(body, left);
    this.#byAnswer.delete(given.record.answer.responseId);
    this.#settled.delete(given);
  }
}

function deletion(key: string): TableWrite {
  return { kind: "delete", table: RESPONSES, key };
}

/** Half of a name is for the body, and half for the answer: 128 bits each. */
function prefixOf(name: string): string {
  return name.slice(0, NAME_CHARS / 2);
}
