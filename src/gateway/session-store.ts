/**
 * Sessions, durably: a record each, and the rows by which a request finds its own.
 *
 *     gateway_sessions   by stream: a session is one turn
 *     gateway_index      by tool call id, and by lineage: the stream of the session
 *     gateway_readers    by stream: another node reads its answer
 *
 * A record and its index rows change in one batch, so a request that finds a session finds it as it is. Rows end by
 * themselves, so a session without its client costs nothing for long.
 */
import type { TableWrite } from "../store/table-store.ts";
import type { GivenAnswers } from "./given-answers.ts";
import type { SessionLookup } from "./matching.ts";
import { NAME_CHARS, type Names } from "./names.ts";
import { type Looked, NO_ROW, type SealedRows } from "./sealed-rows.ts";
import { decodeSession, encodeSession, type SessionRecord } from "./session-record.ts";

export const SESSIONS = "gateway_sessions";
export const INDEX = "gateway_index";
export const READERS = "gateway_readers";
/** Said once a second. */
const READERS_MS = 5_000;

interface SessionStoreOptions {
  readonly rows: SealedRows;
  /** The answers that go with a session. */
  readonly given: GivenAnswers;
  readonly names: Names;
  /** How long a session waits. */
  readonly ttlMs: number;
  /** The record is gone. */
  readonly onRemoved?: ((record: SessionRecord) => void) | undefined;
}

/** The version of the record that its owner wrote last; every write of the record compares it. Undefined: no other node can write it. */
export type Claim = { version: number } | undefined;

interface SaveOptions {
  /** Begun when the write was handed over; on shared tables when it is durable. */
  readonly behind?: (() => Promise<unknown>) | undefined;
  readonly claim?: Claim;
}

interface RemoveOptions {
  /** Its answer is not to be had again either. */
  readonly withResponses: boolean;
  /** What belongs to the same moment. */
  readonly more?: readonly TableWrite[] | undefined;
  readonly claim?: Claim;
}

export class SessionStore implements SessionLookup {
  readonly #options: SessionStoreOptions;

  constructor(options: SessionStoreOptions) {
    this.#options = options;
  }

  /**
   * The record, the ways to find it, and what else belongs to the same moment. What `behind` writes to these tables is never durable without this. Rejects
   * with `fenced` when another node has written the record.
   */
  async save(
    record: SessionRecord,
    more: readonly TableWrite[] = [],
    { behind, claim }: SaveOptions = {},
  ): Promise<void> {
    const { rows } = this.#options;
    const writes = await this.#writesOf(record);
    if (claim === undefined) {
      const written = rows.batch([...writes, ...more]);
      await Promise.all([written, behind?.()]);
      return;
    }
    const [first, ...others] = writes;
    const claiming = first === undefined ? [] : [{ ...first, expectedVersion: claim.version }];
    claim.version = await rows.batch([...claiming, ...others, ...more]);
    await behind?.();
  }

  /** The same, some time later: see `SealedRows.behind`. */
  async note(record: SessionRecord): Promise<void> {
    this.#options.rows.behind(await this.#writesOf(record));
  }

  #writesOf(record: SessionRecord): Promise<readonly TableWrite[]> {
    const { ttlMs, rows } = this.#options;
    const value = new TextEncoder().encode(record.answer.streamId);
    return Promise.all([
      rows.put(SESSIONS, this.#sessionKey(record), encodeSession(record), ttlMs),
      ...this.#indexKeys(record).map((key) => rows.put(INDEX, key, value, ttlMs)),
    ]);
  }

  async write(writes: readonly TableWrite[] = []): Promise<void> {
    if (writes.length > 0) await this.#options.rows.batch(writes);
  }

  async remove(record: SessionRecord, { withResponses, more = [], claim }: RemoveOptions): Promise<void> {
    const gone = (table: string, key: string): TableWrite => ({ kind: "delete", table, key });
    const { rows, given, onRemoved } = this.#options;
    const responses = withResponses ? record.responses : [];
    given.forget(responses);
    await rows.batch([
      { ...gone(SESSIONS, this.#sessionKey(record)), expectedVersion: claim?.version },
      ...this.#indexKeys(record).map((key) => gone(INDEX, key)),
      ...given.deletions(responses),
      ...more,
    ]);
    if (claim !== undefined) claim.version = NO_ROW;
    onRemoved?.(record);
  }

  async byTool(principal: string, toolId: string): Promise<SessionRecord | undefined> {
    return this.#indexed(principal, this.#name("tool", principal, toolId));
  }

  async byLineage(
    principal: string,
    model: string,
    context: string,
    head: string,
  ): Promise<SessionRecord | undefined> {
    return this.#indexed(principal, this.#name("lineage", principal, model, context, head));
  }

  /** The session of a stream, while it is kept. */
  async byStream(principal: string, streamId: string): Promise<SessionRecord | undefined> {
    return this.#options.rows.read(SESSIONS, this.#keyOf(principal, streamId), decodeSession);
  }

  /** The same, with the version that a claim of it expects. */
  async look(principal: string, streamId: string): Promise<Looked<SessionRecord>> {
    return this.#options.rows.look(SESSIONS, this.#keyOf(principal, streamId), decodeSession);
  }

  async #indexed(principal: string, key: string): Promise<SessionRecord | undefined> {
    const streamId = await this.#options.rows.read(INDEX, key, (bytes) => new TextDecoder().decode(bytes));
    return streamId === undefined ? undefined : this.byStream(principal, streamId);
  }

  /** The stream's answer is read at a node that does not generate it. */
  async readElsewhere(principal: string, streamId: string): Promise<void> {
    const { rows, names } = this.#options;
    const key = names.row("readers", principal, streamId);
    await rows.batch([await rows.put(READERS, key, new Uint8Array(1), READERS_MS)]);
  }

  async isReadElsewhere(principal: string, streamId: string): Promise<boolean> {
    const { rows, names } = this.#options;
    return (await rows.read(READERS, names.row("readers", principal, streamId), () => true)) === true;
  }

  async list(): Promise<readonly SessionRecord[]> {
    const records: SessionRecord[] = [];
    const { rows } = this.#options;
    for await (const { key } of rows.list(SESSIONS)) {
      const record = await rows.read(SESSIONS, key, decodeSession);
      // Version 0.1.0 named its rows otherwise: what it left ends by itself.
      if (record !== undefined && key === this.#sessionKey(record)) records.push(record);
    }
    return records;
  }

  #sessionKey({ principal, answer }: Pick<SessionRecord, "principal" | "answer">): string {
    return this.#keyOf(principal, answer.streamId);
  }

  #keyOf(principal: string, streamId: string): string {
    return this.#name("session", principal, streamId);
  }

  /** A row and an index have it, so half of a name has to do: 128 bits. */
  #name(...parts: readonly string[]): string {
    return this.#options.names.row(...parts).slice(0, NAME_CHARS / 2);
  }

  /** By what the next request brings. */
  #indexKeys({ principal, model, context, head, pending }: SessionRecord): readonly string[] {
    const keys = pending.map(({ toolId }) => this.#name("tool", principal, toolId));
    return head === "" ? keys : [...keys, this.#name("lineage", principal, model, context, head)];
  }
}
