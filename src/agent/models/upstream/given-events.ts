/**
 * What a call reads of its provider, and what its own reader is given of it: whole events.
 */
import type { Reader } from "./arriving-bytes.ts";
import type { Ended } from "./connection.ts";
import type { SseEvent } from "./sse-events.ts";

/** Whole events, and how the connection ended behind them. */
export interface Step {
  readonly events: readonly SseEvent[];
  readonly ended: Ended | undefined;
}

/** A response, and what was read of it. */
export interface Begun {
  readonly response: Response;
  readonly reader?: Reader;
  readonly head?: Step;
}

/** An event for the reader. */
export interface GivenEvent {
  /** As it came. */
  readonly text: string;
  /** The same, where it came alone. */
  readonly bytes?: Uint8Array | undefined;
  /** What its data say; undefined where that is no JSON. */
  readonly value: unknown;
}

/** What the reader gets at once; nothing follows the last. */
export interface GivenEvents {
  readonly events: readonly GivenEvent[];
  readonly isLast: boolean;
}

/** Where the answer is read. */
export interface Source {
  readonly caller: AbortSignal | undefined;
  reader: Reader;
  /** What was read of it, and not given yet. */
  next: Step | undefined;
}

/** What `fetch` throws when there is an answer and the caller reads it by `next`: made once, because it is thrown with each answer. */
export const TAKEN = new Error("the answer is read by its events");
