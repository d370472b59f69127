/**
 * What API keys have spent of the tokens that they may spend in a day, as models reported them.
 *
 *     spent_tokens   by API key and day of UTC
 *     stream_payers  by stream: which API key pays for its model calls, and the calls that were counted already
 *
 * A call is counted when its model says what it cost, before its step is complete. Count and the call's name are one batch, so a call that another
 * process reads again from the line counts once. Tables are shared by all nodes, and so are the counts.
 *
 * Invariant: a model call that is complete in a log is counted, once, if an API key with a limit pays for it.
 */
import { hash } from "node:crypto";
import * as z from "zod/mini";
import { KeyedQueue } from "../async/keyed-queue.ts";
import type { StreamName } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { parsedJson } from "../protocol/fields.ts";
import {
  NO_ROW,
  rowsOf,
  type TableKey,
  type TableRow,
  type TableStore,
  type TableWrite,
} from "../store/table-store.ts";
import type { Payer } from "../transport/transport.ts";
import { nameText } from "./entries.ts";

const SPENT = "spent_tokens";
export const PAYERS = "stream_payers";

const DAY_MS = 24 * 60 * 60_000;
/** Long enough to look back at a month. */
const SPENT_KEPT_MS = 35 * DAY_MS;
/** A held call is read again by the run that follows; none is older than a few calls. */
const COUNTED_MAX = 8;
/** Each attempt that fails is a call of the same API key that was counted elsewhere in between. */
const ATTEMPTS_MAX = 1_000;

const SPENT_ROW = z.object({ tokens: z.number() });
const PAYER_ROW = z.object({ apiKeyId: z.string(), tokensPerDay: z.number(), counted: z.array(z.string()) });

interface SpendingOptions {
  readonly tables: TableStore;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** How long a stream may rest and still call a model. */
  readonly retentionMs: number;
  /** Other nodes write the same tables. */
  readonly isShared: boolean;
}

/** A model call that is complete. */
interface SpentCall {
  readonly stream: StreamName;
  /** The same when it is read again; undefined: it never is. */
  readonly name: string | undefined;
  readonly tokens: number;
}

export class Spending {
  readonly #options: SpendingOptions;
  /** False while no stream of this store has a payer: then nothing is looked up. */
  #hasPayers: boolean;
  /** Changes of this process happen one after the other: they would only meet each other. */
  readonly #changes = new KeyedQueue();
  /** What this process has counted and refused, by API key; for metrics. */
  readonly #counted = new Map<string, { tokens: number; refusals: number }>();

  private constructor(options: SpendingOptions, hasPayers: boolean) {
    this.#options = options;
    this.#hasPayers = hasPayers;
  }

  static async open(options: SpendingOptions): Promise<Spending> {
    const first = await options.tables.list(PAYERS, "", { after: undefined, countMax: 1 });
    return new Spending(options, options.isShared || first.length > 0);
  }

  /** Whether a stream may have a payer. */
  get mayCount(): boolean {
    return this.#hasPayers;
  }

  /** What the API key has spent since the day began. */
  async today(apiKeyId: string): Promise<number> {
    return tokensIn(await this.#options.tables.get(this.#spentAt(apiKeyId)));
  }

  /** How long it is until the API key may spend again; undefined: it may now. */
  async waitMs({ apiKeyId, tokensPerDay }: Payer): Promise<number | undefined> {
    if ((await this.today(apiKeyId)) < tokensPerDay) return undefined;
    this.#countedOf(apiKeyId).refusals++;
    return DAY_MS - (this.#options.now() % DAY_MS);
  }

  /** Lets a stream be opened whose model calls this API key pays for. Rejects when it has spent what it may. */
  async admit(stream: StreamName, payer: Payer): Promise<void> {
    const waitMs = await this.waitMs(payer);
    if (waitMs === undefined) return this.charge(stream, payer);
    const message = `this API key has used its ${payer.tokensPerDay} tokens of today (UTC); retry tomorrow, or use another API key`;
    // Not `overloaded`: a client would wait for hours, and its user in front of it.
    throw new HoldfastError("too_large", message, { retryAfterMs: waitMs });
  }

  /** From now on this API key pays for the stream's model calls; undefined: one without a limit does. */
  async charge(stream: StreamName, payer: Payer | undefined): Promise<void> {
    if (payer === undefined && !this.#hasPayers) return;
    const { tables } = this.#options;
    if (payer === undefined) {
      // Where no API key has a limit there is no row: looking costs no commit.
      const row = await tables.get(payerAt(stream));
      if (row !== undefined) await tables.delete(payerAt(stream));
      return;
    }
    this.#hasPayers = true;
    await this.#change(async () => {
      const row = await tables.get(payerAt(stream));
      return [this.#putPayer(stream, row, { ...payer, counted: payerIn(row)?.counted ?? [] })];
    });
  }

  /** Counts a call for the API key that pays for its stream, if one with a limit does. */
  async count({ stream, name, tokens }: SpentCall): Promise<void> {
    if (tokens === 0 || !this.#hasPayers) return;
    const { tables } = this.#options;
    let apiKeyId = "";
    const isCounted = await this.#change(async () => {
      const row = await tables.get(payerAt(stream));
      const paid = payerIn(row);
      if (paid === undefined || (name !== undefined && paid.counted.includes(name))) return undefined;
      ({ apiKeyId } = paid);
      const counted = name === undefined ? paid.counted : [...paid.counted, name].slice(-COUNTED_MAX);
      return [this.#putPayer(stream, row, { ...paid, counted }), await this.#more(apiKeyId, tokens)];
    });
    if (isCounted) this.#countedOf(apiKeyId).tokens += tokens;
  }

  /** Counts what belongs to no stream. */
  async spend(apiKeyId: string, tokens: number): Promise<void> {
    if (tokens === 0) return;
    await this.#change(async () => [await this.#more(apiKeyId, tokens)]);
    this.#countedOf(apiKeyId).tokens += tokens;
  }

  /** The rows of who paid for a principal's streams, and of what these API keys have spent. */
  async rowsOf(principal: string, apiKeyIds: readonly string[]): Promise<readonly TableKey[]> {
    const { tables } = this.#options;
    const found: TableKey[] = [];
    const prefixes = apiKeyIds.map((id) => [SPENT, `${id}/`] as const);
    for (const [table, prefix] of [[PAYERS, payerPrefix(principal)] as const, ...prefixes])
      for await (const { key } of rowsOf(tables, table, prefix)) found.push({ table, key });
    return found;
  }

  /** As Prometheus reads them: what this process has counted since its start. */
  metrics(): string {
    const lines = (metric: string, of: (one: { tokens: number; refusals: number }) => number): string[] =>
      [...this.#counted].map(([apiKeyId, one]) => `${metric}{key="${apiKeyId}"} ${of(one)}`);
    return `${[
      "# HELP holdfast_api_key_tokens_total Tokens that models reported for API keys with a limit a day.",
      "# TYPE holdfast_api_key_tokens_total counter",
      ...lines("holdfast_api_key_tokens_total", ({ tokens }) => tokens),
      "# HELP holdfast_api_key_tokens_refused_total Requests refused because their API key had used its tokens of the day.",
      "# TYPE holdfast_api_key_tokens_refused_total counter",
      ...lines("holdfast_api_key_tokens_refused_total", ({ refusals }) => refusals),
    ].join("\n")}\n`;
  }

  #countedOf(apiKeyId: string): { tokens: number; refusals: number } {
    const known = this.#counted.get(apiKeyId) ?? { tokens: 0, refusals: 0 };
    this.#counted.set(apiKeyId, known);
    return known;
  }

  #spentAt(apiKeyId: string) {
    const day = new Date(this.#options.now()).toISOString().slice(0, 10);
    return { table: SPENT, key: `${apiKeyId}/${day}` };
  }

  async #more(apiKeyId: string, tokens: number): Promise<TableWrite> {
    const at = this.#spentAt(apiKeyId);
    const row = await this.#options.tables.get(at);
    const value = bytesOf({ tokens: tokensIn(row) + tokens });
    return { kind: "put", ...at, value, ttlMs: SPENT_KEPT_MS, expectedVersion: row?.version ?? NO_ROW };
  }

  #putPayer(stream: StreamName, row: TableRow | undefined, paid: z.output<typeof PAYER_ROW>): TableWrite {
    const ttlMs = this.#options.retentionMs + DAY_MS;
    const value = bytesOf(paid);
    return { kind: "put", ...payerAt(stream), value, ttlMs, expectedVersion: row?.version ?? NO_ROW };
  }

  /** Writes what the look at the tables gives, and looks again when another node was first. False when it gives nothing. */
  #change(look: () => Promise<readonly TableWrite[] | undefined>): Promise<boolean> {
    return this.#changes.run(SPENT, async () => {
      for (let left = ATTEMPTS_MAX; left > 0; left--) {
        const writes = await look();
        if (writes === undefined) return false;
        if ((await this.#options.tables.batch(writes)).kind === "written") return true;
      }
      throw new HoldfastError("unavailable", "other nodes count for the same API key all the time; retry");
    });
  }
}

/** By principal first: all that one pays for can be found together. No name is in it (E4). */
function payerAt(stream: StreamName) {
  return { table: PAYERS, key: `${payerPrefix(stream.principal)}${digest(nameText(stream))}` };
}

/** Of the rows of a principal's streams. */
export function payerPrefix(principal: string): string {
  return `${digest(principal)}/`;
}

function digest(text: string): string {
  return hash("sha256", text).slice(0, 32);
}

function bytesOf(row: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(row));
}

function tokensIn(row: TableRow | undefined): number {
  return row === undefined ? 0 : read(SPENT_ROW, row).tokens;
}

function payerIn(row: TableRow | undefined): z.output<typeof PAYER_ROW> | undefined {
  return row === undefined ? undefined : read(PAYER_ROW, row);
}

/** A count that cannot be read is no zero. */
function read<Schema extends z.core.$ZodType>(schema: Schema, { value }: TableRow): z.output<Schema> {
  const { data, success } = z.safeParse(schema, parsedJson(new TextDecoder().decode(value)));
  if (success) return data;
  throw new HoldfastError(
    "stream_failed",
    "a count of tokens is damaged; restore the database from a backup",
  );
}
