/**
 * An answer of the AI SDK as a stream keeps it: one chunk of its UI message stream is one event, or several when it is large.
 *
 * Invariant: the events in order, from any one behind which a chunk was complete, give the chunks that follow.
 */
import type { UIMessageChunk } from "ai";
import { fieldsOf, parsedJson } from "../protocol/fields.ts";
import { LIMITS } from "../protocol/limits.ts";

/** In front of a piece that another one follows; no JSON text begins with it. */
const MORE = 1;
const PIECE_BYTES = LIMITS.eventBytesMax - 1;

export function eventsOf(chunk: UIMessageChunk): readonly Uint8Array[] {
  const bytes = new TextEncoder().encode(JSON.stringify(chunk));
  const events: Uint8Array[] = [];
  let from = 0;
  for (; bytes.length - from > PIECE_BYTES; from += PIECE_BYTES)
    events.push(Buffer.concat([Uint8Array.of(MORE), bytes.subarray(from, from + PIECE_BYTES)]));
  return [...events, bytes.subarray(from)];
}

/** Takes events in order, and gives the text of each chunk that is complete. */
export function chunkTexts(): (event: Uint8Array) => string | undefined {
  let pieces: Uint8Array[] = [];
  return (event) => {
    const hasMore = event[0] === MORE;
    pieces.push(hasMore ? event.subarray(1) : event);
    if (hasMore) return undefined;
    const text = Buffer.concat(pieces).toString();
    pieces = [];
    return text;
  };
}

export interface Said {
  /** A tool was called: its effect may have happened. */
  readonly hasTools: boolean;
  /** A message and its first step have begun. */
  readonly hasBegun: boolean;
  /** More than one step. */
  readonly hasSteps: boolean;
}

export const NOTHING_SAID: Said = { hasTools: false, hasBegun: false, hasSteps: false };

export function heard(said: Said, text: string): Said {
  const { type } = fieldsOf(parsedJson(text));
  if (typeof type !== "string") return said;
  const isStep = type === "start-step";
  return {
    hasTools: said.hasTools || type.startsWith("tool-"),
    hasSteps: said.hasSteps || (isStep && said.hasBegun),
    hasBegun: said.hasBegun || isStep,
  };
}
