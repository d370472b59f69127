/**
 * Journals in a `TableStore`, shared by all processes that use the same scope.
 *
 * An append is one batch: the records, and a head that says how many there are now. The head is
 * written only over the version that was last seen, so a process that lost a journal to another one
 * cannot add to it any more: it is told `fenced`, and nothing was written. That is what keeps a journal
 * whole. Who may take one is a matter of `owner`: the head names the process that writes, and another
 * one takes over only when that process is gone. A process that has the tables alone remembers every head that
 * it wrote, and reads none back.
 *
 * Invariant: a head of n records stands beside exactly the rows 0 to n - 1, since both change in one
 * batch. Anything else is damage, and refuses the whole journal: a skipped record would run tools again.
 */
import { KeyedQueue } from "../async/keyed-queue.ts";
import type { HandedOver, JournalStore } from "../client/journal-store.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { NO_ROW, rowsOf, type TableRow, type TableStore, type TableWrite } from "../store/table-store.ts";
import {
  damaged,
  decodeHead,
  decodeRecord,
  encodeHead,
  encodeRecord,
  type Head,
  headKey,
  HEADS,
  idempotencyKeyOf,
  recordKey,
  recordPrefix,
  RECORDS,
} from "./journal-rows.ts";

/** This process among those that share the journals. */
export interface Owner {
  readonly id: string;
  /** Whether the process of that id may still write. */
  isAlive(id: string): boolean;
  /** How people know the process of that id. */
  nameOf(id: string): string;
}

interface TableJournalStoreOptions {
  readonly tables: TableStore;
  /** Left out where one process alone has the tables: then nobody owns a journal. */
  readonly owner?: Owner;
  /**
   * Only for a client whose server runs in this process and keeps its logs in the database of `tables`, which commits in the order in
   * which it is asked (decision 33): then chunks need not wait for their journal's sync.
   */
  readonly isOnServersDisk?: boolean;
  /** The server that this client talks to. Left out: streams of any server are taken for its own. */
  readonly server?: string;
}

/** A journal of a stream that lies at another server. */
interface ForeignJournal {
  readonly idempotencyKey: string;
  readonly server: string;
}

/** A head as this process saw it last. */
interface SeenHead extends Head {
  readonly version: number;
}

export type Claim =
  | { readonly kind: "claimed" }
  /** Another process writes this journal; `holder` is how people know it. */
  | { readonly kind: "held"; readonly holder: string };

const NO_HEAD: SeenHead = { records: 0, owner: "", server: "", version: NO_ROW };

export class TableJournalStore implements JournalStore {
  readonly #tables: TableStore;
  readonly #owner: Owner | undefined;
  readonly #server: string;
  readonly handOver: JournalStore["handOver"];
  /** The heads of journals that this process has claimed; where nobody owns any, of those that it has looked at or written. */
  readonly #claimed = new Map<string, SeenHead>();
  /** The last thing that happens to each journal: one at a time, in order. */
  readonly #queues = new KeyedQueue();

  constructor({ tables, owner, isOnServersDisk = false, server = "" }: TableJournalStoreOptions) {
    this.#tables = tables;
    this.#owner = owner;
    this.#server = server;
    // A server has its database alone: with an owner beside it, it cannot be that one.
    this.handOver =
      isOnServersDisk && owner === undefined ? (name, records) => this.#handOver(name, records) : undefined;
  }

  async list(): Promise<readonly string[]> {
    const listed = await this.#list();
    return listed
      .filter(({ server }) => !this.#isForeign(server))
      .map(({ idempotencyKey }) => idempotencyKey);
  }

  /**
   * The journals that `list` leaves out. Another server does not know their streams, and would have them
   * closed as lost; claiming one makes it this server's.
   */
  async listForeign(): Promise<readonly ForeignJournal[]> {
    return (await this.#list()).filter(({ server }) => this.#isForeign(server));
  }

  read(idempotencyKey: string): Promise<readonly Uint8Array[]> {
    return this.#queues.run(idempotencyKey, () => this.#read(idempotencyKey));
  }

  append(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void> {
    if (records.length === 0) return Promise.resolve();
    return this.#handOver(idempotencyKey, records).synced;
  }

  #handOver(idempotencyKey: string, records: readonly Uint8Array[]): HandedOver {
    // Encoding copies: from here on the caller may do with its bytes what it likes.
    const values = records.map(encodeRecord);
    const { promise: handedOver, resolve, reject } = Promise.withResolvers<void>();
    // Most callers only care for the sync.
    handedOver.catch(() => undefined);
    const add = (head: SeenHead): Promise<void> =>
      this.#write(idempotencyKey, head, head.records + values.length, puts(idempotencyKey, head, values));
    const synced = this.#queues.run(idempotencyKey, async () => {
      if (await this.#isNew(idempotencyKey, add)) return;
      const written = add(await this.#ownHead(idempotencyKey));
      // A batch is handed over within the call; from now on nothing stands in its way but the disk itself.
      resolve();
      await written;
    });
    synced.then(resolve, reject);
    return { handedOver, synced };
  }

  /** Whoever has the tables alone, and has not met a journal yet, takes it for a new one. False when it was none. */
  async #isNew(idempotencyKey: string, add: (head: SeenHead) => Promise<void>): Promise<boolean> {
    if (this.#owner !== undefined || this.#claimed.has(idempotencyKey)) return false;
    try {
      await add(NO_HEAD);
      return true;
    } catch (cause) {
      if (HoldfastError.codeOf(cause) === "fenced") return false;
      throw cause;
    }
  }

  replace(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void> {
    const values = records.map(encodeRecord);
    return this.#queues.run(idempotencyKey, async () => {
      const head = await this.#ownHead(idempotencyKey);
      if (values.length === 0 && head.version === NO_ROW) return;
      const writes = puts(idempotencyKey, { records: 0 }, values);
      for (let place = values.length; place < head.records; place++) {
        writes.push({ kind: "delete", ...recordKey(idempotencyKey, place) });
      }
      await this.#write(idempotencyKey, head, values.length, writes);
    });
  }

  async remove(idempotencyKey: string): Promise<void> {
    try {
      await this.replace(idempotencyKey, []);
    } catch (cause) {
      if (HoldfastError.codeOf(cause) !== "stream_failed") throw cause;
      await this.#queues.run(idempotencyKey, () => this.#removeRows(idempotencyKey));
    }
  }

  /** The head cannot be read, so it does not say how many rows there are: all that are there go. */
  async #removeRows(idempotencyKey: string): Promise<void> {
    const head = await this.#tables.get(headKey(idempotencyKey));
    const writes: TableWrite[] = [];
    for await (const { key } of rowsOf(this.#tables, RECORDS, recordPrefix(idempotencyKey))) {
      writes.push({ kind: "delete", table: RECORDS, key });
    }
    await this.#write(idempotencyKey, { ...NO_HEAD, version: head?.version ?? NO_ROW }, 0, writes);
  }

  /**
   * Takes a journal for this process. One that does not exist costs no write: the first append makes
   * it, and of two processes that make it at the same time one is told `fenced`.
   */
  claim(idempotencyKey: string): Promise<Claim> {
    return this.#queues.run(idempotencyKey, async () => {
      for (;;) {
        const head = await this.#headIfWhole(idempotencyKey);
        // There is nothing to write over: whatever reads it next says so, and it can only be removed.
        if (head === undefined) return { kind: "claimed" };
        const holder = this.#holderOf(head);
        if (holder !== undefined) return { kind: "held", holder };
        if (await this.#claim(idempotencyKey, head)) return { kind: "claimed" };
        // Another process was faster: its name is in the head now.
      }
    });
  }

  /** Lets other processes have the journal. What cannot be written is free when this process ends. */
  release(idempotencyKey: string): Promise<void> {
    return this.#queues.run(idempotencyKey, async () => {
      const head = this.#claimed.get(idempotencyKey);
      this.#claimed.delete(idempotencyKey);
      if (head === undefined || head.owner === "") return;
      const value = encodeHead({ ...head, owner: "" });
      await this.#tables.compareAndSwap(headKey(idempotencyKey), head.version, value);
    });
  }

  /** False when the head is no longer as it was seen. */
  async #claim(idempotencyKey: string, seen: SeenHead): Promise<boolean> {
    this.#claimed.set(idempotencyKey, seen);
    if (this.#owner === undefined || seen.records === 0) return true;
    try {
      await this.#write(idempotencyKey, seen, seen.records, []);
      return true;
    } catch (cause) {
      this.#claimed.delete(idempotencyKey);
      if (HoldfastError.codeOf(cause) === "fenced") return false;
      throw cause;
    }
  }

  /** Resolves when nothing that was asked for before is still under way. */
  async quiet(): Promise<void> {
    await this.#queues.settled();
  }

  async #list(): Promise<readonly ForeignJournal[]> {
    await this.quiet();
    const listed: ForeignJournal[] = [];
    for await (const row of rowsOf(this.#tables, HEADS)) {
      const idempotencyKey = idempotencyKeyOf(row.key);
      const head = tryDecodeHead(idempotencyKey, row);
      // A damaged head is listed as well: somebody should look.
      if (head === undefined || head.records > 0) listed.push({ idempotencyKey, server: head?.server ?? "" });
    }
    return listed;
  }

  #isForeign(server: string): boolean {
    return server !== "" && this.#server !== "" && server !== this.#server;
  }

  async #read(idempotencyKey: string): Promise<readonly Uint8Array[]> {
    for (;;) {
      const isAlone = this.#owner === undefined;
      const before = isAlone ? await this.#ownHead(idempotencyKey) : await this.#head(idempotencyKey);
      const rows = await Array.fromAsync(rowsOf(this.#tables, RECORDS, recordPrefix(idempotencyKey)));
      // Another process wrote between two pages: what was read is no journal.
      if (!isAlone && before.version !== (await this.#head(idempotencyKey)).version) continue;
      if (
        rows.length !== before.records ||
        rows.some(({ key }, place) => !isAt(idempotencyKey, place, key))
      ) {
        throw damaged(idempotencyKey, `its ${before.records} records are not all there`);
      }
      return rows.map(({ value }) => decodeRecord(idempotencyKey, value));
    }
  }

  async #head(idempotencyKey: string): Promise<SeenHead> {
    const row = await this.#tables.get(headKey(idempotencyKey));
    if (row === undefined) return NO_HEAD;
    return { ...decodeHead(idempotencyKey, row.value), version: row.version };
  }

  /** Undefined when it is damaged. */
  async #headIfWhole(idempotencyKey: string): Promise<SeenHead | undefined> {
    try {
      return await this.#head(idempotencyKey);
    } catch (cause) {
      if (HoldfastError.codeOf(cause) === "stream_failed") return undefined;
      throw cause;
    }
  }

  /** The head to write over: as last seen of a claimed journal, or as it is now. */
  async #ownHead(idempotencyKey: string): Promise<SeenHead> {
    const claimed = this.#claimed.get(idempotencyKey);
    if (claimed !== undefined) return claimed;
    const head = await this.#head(idempotencyKey);
    const holder = this.#holderOf(head);
    if (holder !== undefined) throw fenced(idempotencyKey, holder);
    if (this.#owner === undefined && head.version !== NO_ROW) this.#claimed.set(idempotencyKey, head);
    return head;
  }

  /** The name of another process that writes this journal now. */
  #holderOf({ owner }: Head): string | undefined {
    if (this.#owner === undefined || owner === "" || owner === this.#owner.id) return undefined;
    return this.#owner.isAlive(owner) ? this.#owner.nameOf(owner) : undefined;
  }

  async #write(
    idempotencyKey: string,
    seen: SeenHead,
    records: number,
    writes: readonly TableWrite[],
  ): Promise<void> {
    const isClaimed = this.#claimed.has(idempotencyKey);
    const owner = isClaimed && records > 0 ? (this.#owner?.id ?? "") : "";
    const next = { records, owner, server: this.#server === "" ? seen.server : this.#server };
    const at = { ...headKey(idempotencyKey), expectedVersion: seen.version };
    const head: TableWrite =
      records === 0 ? { kind: "delete", ...at } : { kind: "put", ...at, value: encodeHead(next) };
    const isAlone = this.#owner === undefined;
    // Until the disk has answered nobody knows.
    if (isAlone) this.#claimed.delete(idempotencyKey);
    const result = await this.#tables.batch([head, ...writes]);
    if (result.kind !== "written") throw fenced(idempotencyKey, "another process");
    if (isAlone ? records === 0 : !isClaimed) return;
    const version = records === 0 ? NO_ROW : result.version;
    this.#claimed.set(idempotencyKey, { ...next, version });
  }
}

function puts(
  idempotencyKey: string,
  { records }: { readonly records: number },
  values: readonly Uint8Array[],
): TableWrite[] {
  return values.map((value, at) => ({ kind: "put", ...recordKey(idempotencyKey, records + at), value }));
}

function isAt(idempotencyKey: string, place: number, key: string): boolean {
  return recordKey(idempotencyKey, place).key === key;
}

function tryDecodeHead(idempotencyKey: string, row: TableRow): Head | undefined {
  try {
    return decodeHead(idempotencyKey, row.value);
  } catch {
    return undefined;
  }
}

function fenced(idempotencyKey: string, holder: string): HoldfastError {
  return new HoldfastError(
    "fenced",
    `${holder} writes to the stream ${idempotencyKey}: stop it there, or follow the stream here as a reader`,
  );
}
