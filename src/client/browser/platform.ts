/**
 * What this client uses of a browser, and no more.
 *
 * The same source is compiled for Node and for browsers, and Node's types know neither IndexedDB nor
 * pages. So the few members that are used are written down here, as the standards have them; the tests
 * in a real browser say whether they are right. It also shows at a glance what a browser must have.
 */

/** `indexedDB`. */
export interface DatabaseFactory {
  open(name: string, version: number): OpenRequest;
}

/** What happened is asked of the object, not of the event. */
interface Source<Happening extends string> {
  addEventListener(type: Happening, listener: () => void): void;
}

export interface DatabaseRequest<Result> extends Source<"success" | "error"> {
  readonly result: Result;
  readonly error: unknown;
}

export interface OpenRequest extends Source<"success" | "error" | "blocked" | "upgradeneeded"> {
  readonly result: Database;
  readonly error: unknown;
}

export interface Database extends Source<"versionchange" | "close"> {
  readonly objectStoreNames: { contains(name: string): boolean };
  createObjectStore(name: string): unknown;
  transaction(
    stores: string[],
    mode: "readonly" | "readwrite",
    options?: { durability: "strict" },
  ): Transaction;
  close(): void;
}

export interface Transaction extends Source<"complete" | "abort"> {
  readonly error: unknown;
  objectStore(name: string): ObjectStore;
  abort(): void;
}

type DatabaseKey = string | number | readonly DatabaseKey[];

/** `IDBKeyRange`. */
export interface KeyRanges {
  bound(lower: DatabaseKey, upper: DatabaseKey): KeyRange;
}

export interface KeyRange {
  readonly lower: unknown;
  readonly upper: unknown;
}

export interface ObjectStore {
  get(key: DatabaseKey): DatabaseRequest<unknown>;
  getAll(range: KeyRange): DatabaseRequest<unknown[]>;
  getAllKeys(range?: KeyRange): DatabaseRequest<unknown[]>;
  /** Unlike `put`, refuses a key that is there. */
  add(value: unknown, key: DatabaseKey): DatabaseRequest<unknown>;
  put(value: unknown, key: DatabaseKey): DatabaseRequest<unknown>;
  delete(key: DatabaseKey | KeyRange): DatabaseRequest<unknown>;
}

/** `navigator.locks`. A lock lasts until the promise of its callback is settled, or its page is gone. */
export interface Locks {
  request(
    name: string,
    options: { readonly ifAvailable?: boolean; readonly signal?: AbortSignal },
    held: (lock: object | null) => Promise<void> | undefined,
  ): Promise<unknown>;
}

/** A `BroadcastChannel`: reaches every other one of the same name and origin, and never the sender. */
export interface Channel {
  post(message: unknown): void;
  close(): void;
}

/** `window` and `document`. */
export interface PageEvents {
  addEventListener(type: string, listener: () => void): void;
  removeEventListener(type: string, listener: () => void): void;
}

export interface Platform {
  readonly indexedDB: DatabaseFactory;
  readonly keyRanges: KeyRanges;
  readonly locks: Locks;
  /** Without a listener it only sends. */
  readonly openChannel: (name: string, listener?: (data: unknown) => void) => Channel;
}

export interface Page {
  /** Hears `online` and `pageshow`. */
  readonly window: PageEvents;
  /** Hears `visibilitychange`. */
  readonly document: PageEvents & { readonly visibilityState: string };
}
