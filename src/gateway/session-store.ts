/**
 * Sessions, durably: a record each, and the rows by which a request finds its own.
 *
 *     gateway_sessions   by session
 *     gateway_index      by tool call id, and by lineage: which session it is
 *     gateway_responses  by request: which answer it got
 *
 * A record and its index rows change in one batch, so a request that finds a session finds it as it is. Rows end by
 * themselves; a session that nobody comes back for costs nothing for long.
 */
import type { Sealer } from "../sealing/index.ts";
import type { TableRow, TableStore, TableWrite } from "../store/table-store.ts";
import type { SessionLookup } from "./matching.ts";
import type { Names } from "./names.ts";
import {
  type AnswerRef,
  decodeResponse,
  decodeSession,
  encodeRow,
  type ResponseRecord,
  type SessionRecord,
} from "./session-record.ts";

const SESSIONS = "gateway_sessions";
const INDEX = "gateway_index";
const RESPONSES = "gateway_responses";
const PAGE_ROWS = 256;

export interface SessionStoreOptions {
  readonly tables: TableStore;
  readonly sealer: Sealer;
  readonly names: Names;
  /** How long a session waits. */
  readonly ttlMs: number;
  /** A row that cannot be read is as good as none: whoever it was for begins anew. */
  readonly onDamaged: (cause: unknown) => void;
  readonly now: () => number;
}

/** Clocks differ a little; a name that is kept for longer costs a look at the disk. */
const NAMES_KEPT_MS = 60 * 60_000;

/** A row that may be on the disk. */
interface KnownResponse {
  readonly expiresMs: number;
  /** As this process wrote it last; undefined: an earlier one did. */
  readonly response: ResponseRecord | undefined;
}

/** The request that a response row is found by. */
export type RequestName =
  | { readonly kind: "body"; readonly principal: string; readonly bodyHash: string }
  | { readonly kind: "idempotency"; readonly principal: string; readonly key: string };

export class SessionStore implements SessionLookup {
  readonly #options: SessionStoreOptions;
  /** Every row of a request's body is here: nearly all requests are new, and need not ask the disk. */
  readonly #known = new Map<string, KnownResponse>();

  constructor(options: SessionStoreOptions) {
    this.#options = options;
  }

  /**
   * The record, the ways to find it, and what else belongs to the same moment. `behind` is begun when the write was handed over: what it
   * writes to these tables is never durable without this.
   */
  async save(
    record: SessionRecord,
    more: readonly TableWrite[] = [],
    behind?: () => Promise<unknown>,
  ): Promise<void> {
    const { ttlMs } = this.#options;
    const value = new TextEncoder().encode(record.sessionId);
    const writes = await Promise.all([
      this.#sealed(SESSIONS, this.#sessionKey(record), encodeRow(record), ttlMs),
      ...this.#indexKeys(record).map((key) => this.#sealed(INDEX, key, value, ttlMs)),
    ]);
    const written = this.#options.tables.batch([...writes, ...more]);
    await Promise.all([written, behind?.()]);
  }

  /** `withResponses`: its answer is not to be had again either. */
  async remove(record: SessionRecord, { withResponses }: { readonly withResponses: boolean }): Promise<void> {
    const gone = (table: string, key: string): TableWrite => ({ kind: "delete", table, key });
    const responses = withResponses ? record.responses.filter((key) => this.#isOf(key, record.answer)) : [];
    await this.#options.tables.batch([
      gone(SESSIONS, this.#sessionKey(record)),
      ...this.#indexKeys(record).map((key) => gone(INDEX, key)),
      ...responses.map((key) => gone(RESPONSES, key)),
    ]);
    for (const key of responses) this.#unlearn(key, record.answer);
  }

  async byTool(principal: string, toolId: string): Promise<SessionRecord | undefined> {
    return this.#indexed(principal, this.#options.names.row("tool", principal, toolId));
  }

  async byLineage(
    principal: string,
    model: string,
    context: string,
    head: string,
  ): Promise<SessionRecord | undefined> {
    return this.#indexed(principal, this.#options.names.row("lineage", principal, model, context, head));
  }

  /** The session of a stream, while it is kept. */
  async byStream(principal: string, streamId: string): Promise<SessionRecord | undefined> {
    return this.#indexed(principal, this.#options.names.row("stream", principal, streamId));
  }

  async #indexed(principal: string, key: string): Promise<SessionRecord | undefined> {
    const opened = await this.#opened(INDEX, key);
    return opened === undefined ? undefined : this.get(principal, new TextDecoder().decode(opened));
  }

  async get(principal: string, sessionId: string): Promise<SessionRecord | undefined> {
    return this.#decoded(SESSIONS, this.#sessionKey({ principal, sessionId }), decodeSession);
  }

  async list(): Promise<readonly SessionRecord[]> {
    const records: SessionRecord[] = [];
    for await (const { key } of this.#rows(SESSIONS)) {
      const record = await this.#decoded(SESSIONS, key, decodeSession);
      if (record !== undefined) records.push(record);
    }
    return records;
  }

  async *#rows(table: string): AsyncGenerator<TableRow> {
    for (let after: string | undefined; ;) {
      const page = await this.#options.tables.list(table, "", { after, countMax: PAGE_ROWS });
      yield* page;
      after = page.at(-1)?.key;
      if (page.length < PAGE_ROWS || after === undefined) return;
    }
  }

  /** Before the first request: what earlier processes left behind. */
  async learnResponses(): Promise<void> {
    for await (const { key, expiresMs = Infinity } of this.#rows(RESPONSES)) {
      this.#known.set(key, { expiresMs, response: undefined });
    }
  }

  /** Rows end by themselves, and so do their names here. */
  forgetEnded(): void {
    const endedMs = this.#options.now() - NAMES_KEPT_MS;
    for (const [key, { expiresMs }] of this.#known) if (expiresMs < endedMs) this.#known.delete(key);
  }

  /** As a write of a batch: it is durable with the session that it belongs to. */
  async responseWrite(name: RequestName, response: ResponseRecord, ttlMs: number): Promise<TableWrite> {
    const key = this.requestKey(name);
    // From before it is written: no row is ever unknown.
    if (name.kind === "body") this.#known.set(key, { expiresMs: this.#options.now() + ttlMs, response });
    return this.#sealed(RESPONSES, key, encodeRow(response), ttlMs);
  }

  async response(name: RequestName): Promise<ResponseRecord | undefined> {
    const key = this.requestKey(name);
    if (name.kind === "body" && !this.#known.has(key)) return undefined;
    return this.#decoded(RESPONSES, key, decodeResponse);
  }

  /** As this process wrote it last, whether or not its time is over. */
  async writtenResponse(name: RequestName): Promise<ResponseRecord | undefined> {
    return this.#known.get(this.requestKey(name))?.response ?? this.response(name);
  }

  async saveResponse(name: RequestName, response: ResponseRecord, ttlMs: number): Promise<void> {
    await this.#options.tables.batch([await this.responseWrite(name, response, ttlMs)]);
  }

  async removeResponse(name: RequestName, { answer }: ResponseRecord): Promise<void> {
    const key = this.requestKey(name);
    await this.#options.tables.delete({ table: RESPONSES, key });
    this.#unlearn(key, answer);
  }

  /** Of two identical requests side by side the later one has the row: it is not the earlier one's to remove. */
  #isOf(key: string, { responseId }: AnswerRef): boolean {
    const known = this.#known.get(key)?.response?.answer.responseId;
    return known === undefined || known === responseId;
  }

  /** The row of this answer is gone; that of another one may have come meanwhile. */
  #unlearn(key: string, { responseId }: AnswerRef): void {
    if (this.#known.get(key)?.response?.answer.responseId === responseId) this.#known.delete(key);
  }

  #sessionKey({ principal, sessionId }: Pick<SessionRecord, "principal" | "sessionId">): string {
    return this.#options.names.row("session", principal, sessionId);
  }

  #indexKeys({ principal, model, context, head, pending, answer }: SessionRecord): readonly string[] {
    const { names } = this.#options;
    const tools = pending.map(({ toolId }) => names.row("tool", principal, toolId));
    const keys = [names.row("stream", principal, answer.streamId), ...tools];
    return head === "" ? keys : [...keys, names.row("lineage", principal, model, context, head)];
  }

  /** The name of a response's row. */
  requestKey(name: RequestName): string {
    const { names } = this.#options;
    return name.kind === "body"
      ? names.row("body", name.principal, name.bodyHash)
      : names.row("idempotency", name.principal, name.key);
  }

  async #sealed(table: string, key: string, value: Uint8Array, ttlMs: number): Promise<TableWrite> {
    const sealed = await this.#options.sealer.seal(labelOf(table, key), value);
    return { kind: "put", table, key, value: new Uint8Array(sealed), ttlMs };
  }

  async #opened(table: string, key: string): Promise<Uint8Array | undefined> {
    return this.#decoded(table, key, (bytes) => bytes);
  }

  async #decoded<Row>(
    table: string,
    key: string,
    decode: (bytes: Uint8Array) => Row,
  ): Promise<Row | undefined> {
    const row = await this.#options.tables.get({ table, key });
    if (row === undefined) return undefined;
    try {
      return decode(await this.#options.sealer.open(labelOf(table, key), row.value));
    } catch (cause) {
      this.#options.onDamaged(cause);
      return undefined;
    }
  }
}

/** A row that is moved elsewhere does not open. */
function labelOf(table: string, key: string) {
  return { stream: `${table}/${key}`, direction: "journal", first: 0, count: 1, kind: "gateway" } as const;
}
