/**
 * What the event loop asks of the database's thread, and what it gets back.
 *
 * One table of calls, so that both ends of the port are checked against the same types. Time comes
 * with each request: the clock that judges leases and expiry is the caller's (D7).
 */
import type { LogRow } from "../commit-log.ts";
import type { BlobListing, BlobPut, Page } from "../blob-store.ts";
import type {
  BatchResult,
  Fence,
  KeyPage,
  LeaseAcquired,
  LeaseHeld,
  TableKey,
  TableRow,
  TableWrite,
} from "../table-store.ts";

interface Call<Ask, Answer> {
  readonly ask: Ask;
  readonly answer: Answer;
}

/** A run of rows, and whether there are more. */
export interface LogPage {
  readonly rows: readonly LogRow[];
  readonly isLast: boolean;
}

export interface LogSize {
  readonly rows: number;
  readonly bytes: number;
}

/** A blob is stored in parts, so that a large one shares many commits and holds none of them up. */
export interface BlobUpload {
  /** The number that the parts lie under; unused before the first part. */
  readonly upload: number;
}

/** Answered after the commit that holds them. */
export interface WriteCalls {
  readonly append: Call<
    {
      readonly record: Uint8Array;
      readonly body: Uint8Array | undefined;
      /** Rows that are dropped in the same transaction. */
      readonly freed: readonly number[];
    },
    number
  >;
  readonly drop: Call<{ readonly rows: readonly number[] }, void>;
  readonly batch: Call<
    { readonly writes: readonly TableWrite[]; readonly fences: readonly Fence[]; readonly nowMs: number },
    BatchResult
  >;
  readonly deleteRow: Call<TableKey & { readonly nowMs: number }, boolean>;
  readonly acquire: Call<
    { readonly lease: string; readonly holder: string; readonly leaseMs: number; readonly nowMs: number },
    LeaseAcquired | LeaseHeld
  >;
  readonly renew: Call<
    { readonly lease: string; readonly token: number; readonly leaseMs: number; readonly nowMs: number },
    boolean
  >;
  readonly release: Call<{ readonly lease: string; readonly token: number; readonly nowMs: number }, void>;
  readonly sweep: Call<{ readonly countMax: number; readonly nowMs: number }, number>;
  readonly putPart: Call<
    { readonly upload: number | undefined; readonly part: number; readonly bytes: Uint8Array },
    BlobUpload
  >;
  /** Gives the parts their name; they are no blob before. */
  readonly nameBlob: Call<
    {
      readonly space: string;
      readonly id: string;
      readonly upload: number;
      readonly storedBytes: number;
      readonly nowMs: number;
    },
    BlobPut
  >;
  readonly deleteBlob: Call<{ readonly space: string; readonly id: string }, boolean>;
  readonly clearSpace: Call<{ readonly space: string }, number>;
}

/** Answered from what is committed. */
export interface ReadCalls {
  readonly scan: Call<{ readonly after: number; readonly bytesMax: number }, LogPage>;
  readonly logSize: Call<undefined, LogSize>;
  readonly read: Call<{ readonly row: number }, Uint8Array>;
  readonly readBody: Call<{ readonly row: number }, Uint8Array>;
  readonly getRow: Call<TableKey & { readonly nowMs: number }, TableRow | undefined>;
  readonly listRows: Call<
    { readonly table: string; readonly prefix: string; readonly page: KeyPage; readonly nowMs: number },
    readonly TableRow[]
  >;
  readonly findBlob: Call<
    { readonly space: string; readonly id: string },
    { readonly upload: number; readonly storedBytes: number } | undefined
  >;
  readonly readPart: Call<{ readonly upload: number; readonly part: number }, Uint8Array | undefined>;
  readonly listBlobs: Call<{ readonly space: string; readonly page: Page }, readonly BlobListing[]>;
  readonly listSpaces: Call<{ readonly page: Page }, readonly string[]>;
  /** Looks at every page. What is wrong with the first one that is; undefined when all are right. */
  readonly checkPages: Call<undefined, string | undefined>;
}

/** Answered by the thread itself. */
export interface LifeCalls {
  /** Ends the checking: from here on the database may change. */
  readonly beginWriting: Call<undefined, void>;
  readonly close: Call<undefined, void>;
}

export interface Calls extends WriteCalls, ReadCalls, LifeCalls {}

export type CallKind = keyof Calls;

export type Ask<K extends CallKind> = Calls[K]["ask"];
export type Answer<K extends CallKind> = Calls[K]["answer"];

export interface Request<K extends CallKind = CallKind> {
  readonly id: number;
  readonly kind: K;
  readonly ask: Ask<K>;
}

/** How an error crosses the port: structured clone would lose our class and code. */
export interface WireFailure {
  readonly code: string | undefined;
  readonly message: string;
  readonly cause: unknown;
}

export type Reply =
  // The value is of the type that the request's kind names, which no type can follow through a port.
  | { readonly id: number; readonly kind: "answer"; readonly value: never }
  | { readonly id: number; readonly kind: "failure"; readonly failure: WireFailure };

/** What the thread is started with. */
export interface ThreadStart {
  readonly path: string;
  readonly lockPath: string;
  readonly mode: "own" | "look" | "share";
}

export function isThreadStart(value: unknown): value is ThreadStart {
  return (
    typeof value === "object" && value !== null && "path" in value && "lockPath" in value && "mode" in value
  );
}

/** Said once, beside the replies: a write or a sync has failed, and every later request is refused (F5). */
export interface Ended {
  readonly kind: "ended";
  readonly failure: WireFailure;
}

/** The first message of a thread: it is open, or why it is not. */
export type Opening = { readonly kind: "open" } | { readonly kind: "refused"; readonly failure: WireFailure };
