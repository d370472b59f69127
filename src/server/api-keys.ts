/**
 * API keys: who may speak to the server, and as which principal.
 *
 * An API key is `hf_`, a public id, `_`, and 32 random bytes. It is shown once, when it is made; the
 * table keeps its SHA-256. A slow password hash would protect nothing here: there is no dictionary
 * of 256-bit random numbers to try, and the hash is computed on every request. The id lets `list` and
 * `revoke` name an API key and lets a lookup find its row, so that no comparison runs over a secret
 * except the one in constant time.
 *
 * An API key that is absent, malformed, unknown, wrong or revoked is one and the same `unauthenticated`
 * (E2), after the same work.
 *
 * Rows are kept in memory for a moment, because every connection asks. A revocation in this process
 * counts at once, one by another process after that moment. While the store is down, an API key that was
 * good stays good: no process could have revoked it, and new streams may open degraded (D5).
 */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import { given } from "../protocol/given.ts";
import { NO_ROW, rowsOf, type TableRow, type TableStore } from "../store/table-store.ts";
import { type ApiKeyLimits, checkLimits, isLimited } from "./api-key-limits.ts";
import {
  type ApiKeyRecord,
  checkLabel,
  checkPrincipal,
  decodeApiKey,
  encodeApiKey,
} from "./api-key-record.ts";

export type { ApiKeyRecord } from "./api-key-record.ts";

export interface ApiKeysOptions {
  readonly tables: TableStore;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** How long a row is believed without reading it again. Short, because a revocation elsewhere waits for it. */
  readonly cacheMs?: number;
  /** One more API key, of principal `default`, that is in no table (`HOLDFAST_API_KEY`). */
  readonly environmentKey?: string | undefined;
  /** For every API key that has no such limit of its own. Default: none. */
  readonly tokensPerDay?: number | undefined;
}

export interface CreatedApiKey {
  /** The only time that it is seen. */
  readonly apiKey: string;
  readonly record: ApiKeyRecord;
}

interface Authenticated {
  readonly principal: string;
  /** What is counted by API key is counted by this. */
  readonly apiKeyId: string;
  readonly limits: ApiKeyLimits | undefined;
}

export const DEFAULT_PRINCIPAL = "default";

/** No id of a row looks like it. */
const ENVIRONMENT_ID = "environment";

const TABLE = "api_keys";
const SHAPE = /^hf_(?<id>[0-9a-f]{10})_[A-Za-z0-9_-]{43}$/;
const ID_BYTES = 5;
const SECRET_BYTES = 32;
const CACHE_MS = 2_000;
/** More rows than this are more clients than one node has. */
const CACHED_MAX = 10_000;
/** Coarse, so that reading stays reading: an API key in use writes once an hour. */
const LAST_USED_MS = 3_600_000;
/** What an unknown API key is compared with: its preimage is not known. */
const NOBODY = new Uint8Array(32);

interface Known {
  readonly record: ApiKeyRecord;
  readonly version: number;
}

interface Cached {
  readonly readMs: number;
  readonly known: Known;
}

export class ApiKeys {
  readonly #tables: TableStore;
  readonly #now: () => number;
  readonly #cacheMs: number;
  readonly #environmentHash: Uint8Array | undefined;
  /** Of every API key, unless its own say otherwise. */
  readonly #limits: ApiKeyLimits;
  readonly #cache = new Map<string, Cached>();
  readonly #reading = new Map<string, Promise<Known | undefined>>();
  /** When each was last written as used, so that many requests at once write once. */
  readonly #usedMs = new Map<string, number>();

  constructor(options: ApiKeysOptions) {
    this.#tables = options.tables;
    this.#now = options.now;
    this.#cacheMs = options.cacheMs ?? CACHE_MS;
    this.#limits = given({ tokensPerDay: options.tokensPerDay });
    this.#environmentHash = options.environmentKey === undefined ? undefined : hashOf(options.environmentKey);
  }

  async create(principal: string, label: string, limits: ApiKeyLimits = {}): Promise<CreatedApiKey> {
    checkPrincipal(principal);
    checkLabel(label);
    checkLimits(limits);
    for (;;) {
      const id = randomBytes(ID_BYTES).toString("hex");
      const apiKey = `hf_${id}_${randomBytes(SECRET_BYTES).toString("base64url")}`;
      const record: ApiKeyRecord = {
        id,
        principal,
        label,
        hash: hashOf(apiKey),
        createdMs: this.#now(),
        ...(isLimited(limits) ? { limits } : {}),
      };
      const result = await this.#tables.compareAndSwap(
        { table: TABLE, key: id },
        NO_ROW,
        encodeApiKey(record),
      );
      if (result.kind === "written") return { apiKey, record };
    }
  }

  /**
   * Rejects with `unauthenticated`, and with nothing that tells why. What the table says of an API key goes before the
   * environment: one that was made for another principal, or revoked, is not `default` by being set there too.
   */
  async authenticate(presented: string | undefined): Promise<Authenticated> {
    const hash = hashOf(presented ?? "");
    const id = SHAPE.exec(presented ?? "")?.groups?.["id"];
    const isEnvironment = timingSafeEqual(hash, this.#environmentHash ?? NOBODY);
    const known = id === undefined ? undefined : await this.#find(id, isEnvironment);
    const isRight = timingSafeEqual(hash, known?.record.hash ?? NOBODY);
    if (known !== undefined && isRight) {
      if (known.record.revokedMs !== undefined) throw unauthenticated();
      this.#used(known.record);
      const { principal, limits } = known.record;
      return { principal, apiKeyId: known.record.id, limits: this.#limited(limits) };
    }
    if (isEnvironment) {
      return { principal: DEFAULT_PRINCIPAL, apiKeyId: ENVIRONMENT_ID, limits: this.#limited(undefined) };
    }
    throw unauthenticated();
  }

  /** All that were ever made, in the order of their making, revoked ones as well. */
  async list(): Promise<readonly ApiKeyRecord[]> {
    const rows = await Array.fromAsync(rowsOf(this.#tables, TABLE));
    return rows.map(decodeApiKey).toSorted((a, b) => a.createdMs - b.createdMs);
  }

  /** False when there is no such API key. Revoking twice keeps the first time. */
  async revoke(id: string): Promise<boolean> {
    for (;;) {
      const known = await this.#read(id);
      if (known === undefined) return false;
      const { record, version } = known;
      const revoked = { ...record, revokedMs: record.revokedMs ?? this.#now() };
      const written = await this.#swap(version, revoked);
      if (written === undefined) continue;
      this.#keep(id, { record: revoked, version: written });
      return true;
    }
  }

  /** Deletes the rows of a principal's API keys, which counts at once; returns their ids. */
  async removeOf(principal: string): Promise<readonly string[]> {
    const own = (await this.list()).filter((record) => record.principal === principal);
    for (const { id } of own) {
      await this.#tables.delete({ table: TABLE, key: id });
      this.#cache.delete(id);
    }
    return own.map(({ id }) => id);
  }

  /** Whether there is an API key that lets a client in. */
  async hasAny(): Promise<boolean> {
    if (this.#environmentHash !== undefined) return true;
    return (await this.list()).some(({ revokedMs }) => revokedMs === undefined);
  }

  #limited(own: ApiKeyLimits | undefined): ApiKeyLimits | undefined {
    const limits = { ...this.#limits, ...own };
    return isLimited(limits) ? limits : undefined;
  }

  async #find(id: string, mayBeAbsent: boolean): Promise<Known | undefined> {
    const cached = this.#cache.get(id);
    if (cached !== undefined && this.#now() - cached.readMs < this.#cacheMs) return cached.known;
    try {
      return await this.#readOnce(id);
    } catch (cause) {
      if (cached !== undefined || mayBeAbsent) return cached?.known;
      throw cause;
    }
  }

  /** Callers that ask for a row that is being read share that read. */
  #readOnce(id: string): Promise<Known | undefined> {
    const reading =
      this.#reading.get(id) ??
      this.#read(id)
        .then((known) => {
          // Unknown ids are not kept: a client that invents them would fill the memory.
          if (known !== undefined) this.#keep(id, known);
          return known;
        })
        .finally(() => this.#reading.delete(id));
    this.#reading.set(id, reading);
    return reading;
  }

  /** A read that began before a revocation and ends after it does not take it back. */
  #keep(id: string, known: Known): void {
    const newer = this.#cache.get(id)?.known.version ?? NO_ROW;
    if (newer > known.version) return;
    if (this.#cache.size >= CACHED_MAX) this.#cache.clear();
    this.#cache.set(id, { readMs: this.#now(), known });
  }

  async #read(id: string): Promise<Known | undefined> {
    const row: TableRow | undefined = await this.#tables.get({ table: TABLE, key: id });
    return row === undefined ? undefined : { record: decodeApiKey(row), version: row.version };
  }

  /** The new version, or undefined when another writer was faster. */
  async #swap(version: number, record: ApiKeyRecord): Promise<number | undefined> {
    const at = { table: TABLE, key: record.id };
    const result = await this.#tables.compareAndSwap(at, version, encodeApiKey(record));
    return result.kind === "written" ? result.version : undefined;
  }

  #used({ id, lastUsedMs }: ApiKeyRecord): void {
    const nowMs = this.#now();
    if (nowMs - Math.max(lastUsedMs ?? 0, this.#usedMs.get(id) ?? 0) < LAST_USED_MS) return;
    if (this.#usedMs.size >= CACHED_MAX) this.#usedMs.clear();
    this.#usedMs.set(id, nowMs);
    // No request waits for it, and a store that cannot write shows elsewhere.
    this.#writeUsed(id, nowMs).catch(() => undefined);
  }

  /** Over the version it read, so that it never takes a revocation back. */
  async #writeUsed(id: string, nowMs: number): Promise<void> {
    const known = await this.#read(id);
    if (known !== undefined) await this.#swap(known.version, { ...known.record, lastUsedMs: nowMs });
  }
}

function hashOf(apiKey: string): Uint8Array {
  return hash("sha256", apiKey, "buffer");
}

function unauthenticated(): HoldfastError {
  return new HoldfastError(
    "unauthenticated",
    "the API key is missing or not valid; send one as `authorization: Bearer <API key>`",
  );
}
