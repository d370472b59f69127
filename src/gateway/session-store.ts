/**
 * Sessions, durably: a record each, and the rows by which a request finds its own.
 *
 *     gateway_sessions   by session
 *     gateway_index      by tool call id, and by lineage: which session it is
 *
 * A record and its index rows change in one batch, so a request that finds a session finds it as it is. Rows end by
 * themselves, so a session without its client costs nothing for long.
 */
import type { TableWrite } from "../store/table-store.ts";
import type { GivenAnswers } from "./given-answers.ts";
import type { SessionLookup } from "./matching.ts";
import type { Names } from "./names.ts";
import type { SealedRows } from "./sealed-rows.ts";
import { decodeSession, encodeRow, type SessionRecord } from "./session-record.ts";

const SESSIONS = "gateway_sessions";
const INDEX = "gateway_index";

export interface SessionStoreOptions {
  readonly rows: SealedRows;
  /** The answers that go with a session. */
  readonly given: GivenAnswers;
  readonly names: Names;
  /** How long a session waits. */
  readonly ttlMs: number;
}

export class SessionStore implements SessionLookup {
  readonly #options: SessionStoreOptions;

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
    const { ttlMs, rows } = this.#options;
    const value = new TextEncoder().encode(record.sessionId);
    const writes = await Promise.all([
      rows.put(SESSIONS, this.#sessionKey(record), encodeRow(record), ttlMs),
      ...this.#indexKeys(record).map((key) => rows.put(INDEX, key, value, ttlMs)),
    ]);
    const written = rows.batch([...writes, ...more]);
    await Promise.all([written, behind?.()]);
  }

  async write(writes: readonly TableWrite[] = []): Promise<void> {
    if (writes.length > 0) await this.#options.rows.batch(writes);
  }

  /** `withResponses`: its answer is not to be had again either. `more`: what belongs to the same moment. */
  async remove(
    record: SessionRecord,
    {
      withResponses,
      more = [],
    }: { readonly withResponses: boolean; readonly more?: readonly TableWrite[] | undefined },
  ): Promise<void> {
    const gone = (table: string, key: string): TableWrite => ({ kind: "delete", table, key });
    const { rows, given } = this.#options;
    const responses = withResponses ? record.responses : [];
    given.forget(responses);
    await rows.batch([
      gone(SESSIONS, this.#sessionKey(record)),
      ...this.#indexKeys(record).map((key) => gone(INDEX, key)),
      ...given.deletions(responses),
      ...more,
    ]);
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
    const sessionId = await this.#options.rows.read(INDEX, key, (bytes) => new TextDecoder().decode(bytes));
    return sessionId === undefined ? undefined : this.get(principal, sessionId);
  }

  async get(principal: string, sessionId: string): Promise<SessionRecord | undefined> {
    return this.#options.rows.read(SESSIONS, this.#sessionKey({ principal, sessionId }), decodeSession);
  }

  async list(): Promise<readonly SessionRecord[]> {
    const records: SessionRecord[] = [];
    const { rows } = this.#options;
    for await (const { key } of rows.list(SESSIONS)) {
      const record = await rows.read(SESSIONS, key, decodeSession);
      if (record !== undefined) records.push(record);
    }
    return records;
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
}
