/**
 * Journals in a `TableStore`, shared by all processes that use the same scope.
 *
 * An append is one batch: the records, and a head that says how many there are now. The head is
 * written only over the version that was last seen, so a process that lost a journal to another one
 * cannot add to it any more: it gets `fenced`, and nothing was written. That is what keeps a journal
 * whole. Who may take one is a matter of `owner`: the head names the process that writes, and another
 * one takes over only when that process is gone. A process that has the tables alone remembers every head that
 * it wrote, and reads none back.
 *
 * Invariant: a head of n records stands beside exactly the rows 0 to n - 1, since both change in one
 * batch. Anything else is damage, and refuses the whole journal: a skipped record would run tools again.
 */
import { KeyedQueue } from "../async/keyed-queue.ts";
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
  /** Left out where one process alone has the tables: then no journal has an owner. */
  readonly owner?: Owner;
  /** The server that this client talks to. Left out: streams of any server are taken for its own. */
  readonly server?: string;
}

/** A journal of a stream that lies at another server. */
export interface ForeignJournal {
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

export type TableJournalStore = ReturnType<typeof tableJournalStore>;

export function tableJournalStore({ tables, owner: self, server: ownServer = "" }: TableJournalStoreOptions) {
  /** The heads of journals that this process has claimed; where no process owns any, of those that it has looked at or written. */
  const claimed = new Map<string, SeenHead>();
  /** The last thing that happens to each journal: one at a time, in order. */
  const queues = new KeyedQueue();
  /** No other process has the tables. */
  const isAlone = self === undefined;

  function append(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void> {
    if (records.length === 0) return Promise.resolve();
    // Encoding copies: from here on the caller may do with its bytes what it likes.
    const values = records.map(encodeRecord);
    const add = (head: SeenHead): Promise<void> =>
      write(idempotencyKey, head, head.records + values.length, puts(idempotencyKey, head, values));
    return queues.run(idempotencyKey, async () => {
      if (!(await isNew(idempotencyKey, add))) await add(await ownHead(idempotencyKey));
    });
  }

  /** A process that has the tables alone, and has not met a journal yet, takes it for a new one. False when it was none. */
  async function isNew(idempotencyKey: string, add: (head: SeenHead) => Promise<void>): Promise<boolean> {
    if (!isAlone || claimed.has(idempotencyKey)) return false;
    try {
      await add(NO_HEAD);
      return true;
    } catch (cause) {
      if (HoldfastError.codeOf(cause) === "fenced") return false;
      throw cause;
    }
  }

  function replace(idempotencyKey: string, records: readonly Uint8Array[]): Promise<void> {
    const values = records.map(encodeRecord);
    return queues.run(idempotencyKey, async () => {
      const head = await ownHead(idempotencyKey);
      if (values.length === 0 && head.version === NO_ROW) return;
      const writes = puts(idempotencyKey, { records: 0 }, values);
      for (let place = values.length; place < head.records; place++) {
        writes.push({ kind: "delete", ...recordKey(idempotencyKey, place) });
      }
      await write(idempotencyKey, head, values.length, writes);
    });
  }

  /** The head cannot be read, so it does not say how many rows there are: all that are there go. */
  async function removeRows(idempotencyKey: string): Promise<void> {
    const head = await tables.get(headKey(idempotencyKey));
    const writes: TableWrite[] = [];
    for await (const { key } of rowsOf(tables, RECORDS, recordPrefix(idempotencyKey))) {
      writes.push({ kind: "delete", table: RECORDS, key });
    }
    await write(idempotencyKey, { ...NO_HEAD, version: head?.version ?? NO_ROW }, 0, writes);
  }

  /** False when the head is no longer as it was seen. */
  async function takeOver(idempotencyKey: string, seen: SeenHead): Promise<boolean> {
    claimed.set(idempotencyKey, seen);
    if (isAlone || seen.records === 0) return true;
    try {
      await write(idempotencyKey, seen, seen.records, []);
      return true;
    } catch (cause) {
      claimed.delete(idempotencyKey);
      if (HoldfastError.codeOf(cause) === "fenced") return false;
      throw cause;
    }
  }

  /** Resolves when nothing that was asked for before is still under way. */
  async function quiet(): Promise<void> {
    await queues.settled();
  }

  async function listAll(): Promise<readonly ForeignJournal[]> {
    await quiet();
    const listed: ForeignJournal[] = [];
    for await (const row of rowsOf(tables, HEADS)) {
      const idempotencyKey = idempotencyKeyOf(row.key);
      const head = tryDecodeHead(idempotencyKey, row);
      // A damaged head is listed as well: a person should look.
      if (head === undefined || head.records > 0) listed.push({ idempotencyKey, server: head?.server ?? "" });
    }
    return listed;
  }

  function isForeign({ server }: ForeignJournal): boolean {
    return server !== "" && ownServer !== "" && server !== ownServer;
  }

  async function readRecords(idempotencyKey: string): Promise<readonly Uint8Array[]> {
    for (;;) {
      const before = isAlone ? await ownHead(idempotencyKey) : await readHead(idempotencyKey);
      const rows = await Array.fromAsync(rowsOf(tables, RECORDS, recordPrefix(idempotencyKey)));
      // Another process wrote between two pages: what was read is no journal.
      if (!isAlone && before.version !== (await readHead(idempotencyKey)).version) continue;
      const isWhole = rows.every(({ key }, place) => key === recordKey(idempotencyKey, place).key);
      if (!isWhole || rows.length !== before.records) {
        throw damaged(idempotencyKey, `its ${before.records} records are not all there`);
      }
      return rows.map(({ value }) => decodeRecord(idempotencyKey, value));
    }
  }

  async function readHead(idempotencyKey: string): Promise<SeenHead> {
    const row = await tables.get(headKey(idempotencyKey));
    if (row === undefined) return NO_HEAD;
    return { ...decodeHead(idempotencyKey, row.value), version: row.version };
  }

  /** Undefined when it is damaged. */
  async function headIfWhole(idempotencyKey: string): Promise<SeenHead | undefined> {
    try {
      return await readHead(idempotencyKey);
    } catch (cause) {
      if (HoldfastError.codeOf(cause) === "stream_failed") return undefined;
      throw cause;
    }
  }

  /** The head to write over: as last seen of a claimed journal, or as it is now. */
  async function ownHead(idempotencyKey: string): Promise<SeenHead> {
    const known = claimed.get(idempotencyKey);
    if (known !== undefined) return known;
    const head = await readHead(idempotencyKey);
    const holder = holderOf(head);
    if (holder !== undefined) throw fenced(idempotencyKey, holder);
    if (isAlone && head.version !== NO_ROW) claimed.set(idempotencyKey, head);
    return head;
  }

  /** The name of another process that writes this journal now. */
  function holderOf({ owner }: Head): string | undefined {
    if (self === undefined || owner === "" || owner === self.id) return undefined;
    return self.isAlive(owner) ? self.nameOf(owner) : undefined;
  }

  async function write(
    idempotencyKey: string,
    seen: SeenHead,
    records: number,
    writes: readonly TableWrite[],
  ): Promise<void> {
    const isClaimed = claimed.has(idempotencyKey);
    const owner = isClaimed && records > 0 ? (self?.id ?? "") : "";
    const next = { records, owner, server: ownServer === "" ? seen.server : ownServer };
    const at = { ...headKey(idempotencyKey), expectedVersion: seen.version };
    const head: TableWrite =
      records === 0 ? { kind: "delete", ...at } : { kind: "put", ...at, value: encodeHead(next) };
    // Until the disk has answered, the head is not known.
    if (isAlone) claimed.delete(idempotencyKey);
    const result = await tables.batch([head, ...writes]);
    if (result.kind !== "written") throw fenced(idempotencyKey, "another process");
    if (isAlone ? records === 0 : !isClaimed) return;
    const version = records === 0 ? NO_ROW : result.version;
    claimed.set(idempotencyKey, { ...next, version });
  }

  return {
    async list(): Promise<readonly string[]> {
      const listed = await listAll();
      return listed.filter((one) => !isForeign(one)).map(({ idempotencyKey }) => idempotencyKey);
    },
    /**
     * The journals that `list` leaves out. Another server does not know their streams, and would have them
     * closed as lost; claiming one makes it this server's.
     */
    async listForeign(): Promise<readonly ForeignJournal[]> {
      return (await listAll()).filter(isForeign);
    },
    read(idempotencyKey: string): Promise<readonly Uint8Array[]> {
      return queues.run(idempotencyKey, () => readRecords(idempotencyKey));
    },
    append,
    replace,
    async remove(idempotencyKey: string): Promise<void> {
      try {
        await replace(idempotencyKey, []);
      } catch (cause) {
        if (HoldfastError.codeOf(cause) !== "stream_failed") throw cause;
        await queues.run(idempotencyKey, () => removeRows(idempotencyKey));
      }
    },
    /**
     * Takes a journal for this process. One that does not exist costs no write: the first append makes
     * it, and of two processes that make it at the same time one gets `fenced`.
     */
    claim(idempotencyKey: string): Promise<Claim> {
      return queues.run(idempotencyKey, async () => {
        for (;;) {
          const head = await headIfWhole(idempotencyKey);
          // There is nothing to write over: whatever reads it next says so, and it can only be removed.
          if (head === undefined) return { kind: "claimed" };
          const holder = holderOf(head);
          if (holder !== undefined) return { kind: "held", holder };
          if (await takeOver(idempotencyKey, head)) return { kind: "claimed" };
          // Another process was faster: its name is in the head now.
        }
      });
    },
    /** Lets other processes have the journal. What cannot be written is free when this process ends. */
    release(idempotencyKey: string): Promise<void> {
      return queues.run(idempotencyKey, async () => {
        const head = claimed.get(idempotencyKey);
        claimed.delete(idempotencyKey);
        if (head === undefined || head.owner === "") return;
        const value = encodeHead({ ...head, owner: "" });
        await tables.compareAndSwap(headKey(idempotencyKey), head.version, value);
      });
    },
    quiet,
  };
}

function puts(
  idempotencyKey: string,
  { records }: { readonly records: number },
  values: readonly Uint8Array[],
): TableWrite[] {
  return values.map((value, at) => ({ kind: "put", ...recordKey(idempotencyKey, records + at), value }));
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
