/**
 * One IndexedDB database per scope: journals, their records, the home key, conversations and their blobs.
 *
 * Its version is the format version. A database written by newer code is refused and left alone; when
 * newer code in another tab wants to change the format, this tab lets go of the database and says so,
 * instead of keeping the user's newest tab waiting.
 *
 * Every change is one transaction with strict durability: it is on the disk when it is reported (A5).
 * A database that was taken away stays away until the page is loaded anew: writing on into an empty one
 * would leave a journal without its beginning.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Database, DatabaseFactory, DatabaseRequest, Transaction } from "./platform.ts";

/** 2 added conversations and blobs; what was there before stays as it is. */
export const FORMAT_VERSION = 2;

/** Per idempotency key, how many records its journal has. */
export const JOURNALS = "journals";
/** Sealed records under [idempotency key, place]. */
export const RECORDS = "records";
/** The home key. */
export const KEYS = "keys";
/** Per conversation id, its version and sealed record. */
export const CONVERSATIONS = "conversations";
/** Per blob id, when it was put, in milliseconds. */
export const BLOBS = "blobs";
/** Per blob id, its sealed bytes. */
export const BLOB_BYTES = "blob bytes";

const STORES = [JOURNALS, RECORDS, KEYS, CONVERSATIONS, BLOBS, BLOB_BYTES];

export type BrowserDatabase = ReturnType<typeof browserDatabase>;

export function browserDatabase(factory: DatabaseFactory, name: string) {
  let opening: Promise<Database> | undefined;
  let isOver: HoldfastError | undefined;

  async function transact<Result>(
    begin: (database: Database) => Transaction,
    run: (transaction: Transaction) => Promise<Result>,
  ): Promise<Result> {
    if (isOver !== undefined) throw isOver;
    const database = await (opening ??= request());
    let transaction: Transaction;
    try {
      transaction = begin(database);
    } catch (cause) {
      throw isOver ?? failed(cause);
    }
    const completed = completion(transaction);
    // Awaited below, when `run` has not failed before.
    completed.catch(() => undefined);
    try {
      const result = await run(transaction);
      await completed;
      return result;
    } catch (cause) {
      abort(transaction);
      throw failed(cause);
    }
  }

  async function request(): Promise<Database> {
    try {
      const database = await open(factory, name);
      database.addEventListener("versionchange", () =>
        end(
          new HoldfastError("unavailable", "another tab runs a newer version of this page: reload this one"),
        ),
      );
      database.addEventListener("close", () =>
        end(new HoldfastError("unavailable", "the browser took this page's storage away: reload the page")),
      );
      if (isOver === undefined) return database;
      database.close();
      throw isOver;
    } catch (cause) {
      // The next caller may find the reason gone.
      opening = undefined;
      throw cause;
    }
  }

  function end(reason: HoldfastError): void {
    if (isOver !== undefined) return;
    isOver = reason;
    opening?.then(
      (database) => database.close(),
      () => undefined,
    );
  }

  return {
    /** Reads in one transaction: nothing changes while `run` looks. */
    read: <Result>(run: (transaction: Transaction) => Promise<Result>) =>
      transact((database) => database.transaction(STORES, "readonly"), run),
    /** All or nothing, and on the disk when it resolves. Changes happen in the order of these calls. */
    change: <Result>(run: (transaction: Transaction) => Promise<Result>) =>
      transact((database) => database.transaction(STORES, "readwrite", { durability: "strict" }), run),
    close: () => end(new HoldfastError("unavailable", "this client was closed")),
  };
}

function open(factory: DatabaseFactory, name: string): Promise<Database> {
  return new Promise((resolve, reject) => {
    const request = factory.open(name, FORMAT_VERSION);
    let isRefused = false;
    request.addEventListener("upgradeneeded", () => {
      const { result } = request;
      for (const store of STORES) {
        if (!result.objectStoreNames.contains(store)) result.createObjectStore(store);
      }
    });
    request.addEventListener("blocked", () => {
      isRefused = true;
      const message = "another tab keeps an older version of this page's storage open: close that tab";
      reject(new HoldfastError("unavailable", message));
    });
    request.addEventListener("success", () => {
      if (isRefused) request.result.close();
      else resolve(request.result);
    });
    request.addEventListener("error", () => reject(notOpened(request.error)));
  });
}

function notOpened(cause: unknown): HoldfastError {
  if (nameOf(cause) === "VersionError") {
    const message =
      "the storage of this page was written by a newer version of it: reload the page, or clear its storage";
    return new HoldfastError("unsupported_version", message, { cause });
  }
  return failed(cause);
}

function failed(cause: unknown): HoldfastError {
  const message =
    nameOf(cause) === "QuotaExceededError"
      ? "the browser has no more room for this page: free some space"
      : "the browser's storage failed; what was not reported as written is not kept";
  return HoldfastError.from(cause, "unavailable", message);
}

function nameOf(cause: unknown): string | undefined {
  return cause instanceof Error ? cause.name : undefined;
}

export function outcome<Result>(request: DatabaseRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result));
    request.addEventListener("error", () => reject(failed(request.error)));
  });
}

/** The last word is the transaction's: a request may succeed and its commit fail. */
function completion(transaction: Transaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.addEventListener("complete", () => resolve());
    transaction.addEventListener("abort", () => reject(failed(transaction.error)));
  });
}

function abort(transaction: Transaction): void {
  try {
    transaction.abort();
  } catch {
    // It is over already.
  }
}
