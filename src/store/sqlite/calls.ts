/**
 * What the event loop asks of the database's thread, and what it gets back.
 *
 * The calls are the functions that serve them (`rows.ts`), so both ends of the port are checked against the same types.
 */
import type { rowsOf } from "./rows.ts";

type Rows = ReturnType<typeof rowsOf>;

/** Answered after the commit that holds them. */
export type WriteCalls = Rows["writes"];
/** Answered from what is committed. */
export type ReadCalls = Rows["reads"];

/** Answered by the thread itself. */
interface LifeCalls {
  /** Ends the checking: from here on the database may change. */
  beginWriting(): void;
  close(): void;
}

type Calls = WriteCalls & ReadCalls & LifeCalls;
export type CallKind = keyof Calls;

type Asks = { readonly [K in CallKind]: Parameters<Calls[K]>[0] };
type Answers = { readonly [K in CallKind]: ReturnType<Calls[K]> };
export type Ask<K extends CallKind> = Asks[K];
export type Answer<K extends CallKind> = Answers[K];

/** The functions of some kinds, as a request finds its own. */
export type Handlers<K extends CallKind> = { readonly [Kind in K]: (ask: Ask<Kind>) => Answer<Kind> };

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
