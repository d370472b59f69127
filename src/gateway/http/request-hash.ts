/**
 * The name of what a request asks for, whether it wants the answer as a stream or in one piece.
 *
 * A client that falls back from one to the other still asks the same. `stream_options` says how a stream is sent, and is absent without one.
 * The hash is over the values in their order, each with its kind and length, so white space does not count and nothing runs together.
 */
import { createHash } from "node:crypto";
import type { Door } from "../openai/index.ts";

/** What counts of a body, and how. */
export interface HashRules {
  /** Members of the body that do not count. */
  readonly without: ReadonlySet<string>;
  /** The names of objects count in their order, or in none: there are clients that write them as they come. */
  readonly order: "as_written" | "any";
  /** Requests of different doors are different ones. */
  readonly door: Door;
}

/** How the answer is sent, not what is asked. */
const TELLING = ["stream", "stream_options"] as const;

export const CHAT_HASH: HashRules = { without: new Set(TELLING), order: "as_written", door: "chat" };
/** What a client says of itself is not asked either. */
export const RESPONSES_HASH: HashRules = {
  without: new Set([...TELLING, "client_metadata"]),
  order: "any",
  door: "responses",
};
/** Whom a request is for is not asked. */
export const MESSAGES_HASH: HashRules = {
  without: new Set(["stream", "metadata"]),
  order: "any",
  door: "messages",
};
const SLICE_CHARS = 64 * 1024;

/** SHA-256, hexadecimal; yields after each slice. */
export function* hashRequest(body: unknown, rules: HashRules = CHAT_HASH): Generator<void, string> {
  const hash = createHash("sha256");
  let slice = rules.door === "chat" ? "" : `${rules.door} `;
  for (const piece of pieces(body, rules.order, rules.without)) {
    slice += piece;
    if (slice.length < SLICE_CHARS) continue;
    // As it is in memory: a slice may end between the halves of a character.
    hash.update(slice, "utf16le");
    slice = "";
    yield;
  }
  return hash.update(slice, "utf16le").digest("hex");
}

const NOTHING: ReadonlySet<string> = new Set();

function* pieces(
  value: unknown,
  order: HashRules["order"],
  without: ReadonlySet<string> = NOTHING,
): Generator<string> {
  if (typeof value === "string") {
    yield `"${value.length} `;
    for (let at = 0; at < value.length; at += SLICE_CHARS) yield value.slice(at, at + SLICE_CHARS);
  } else if (Array.isArray(value)) {
    yield `[${value.length} `;
    for (const item of value) yield* pieces(item, order);
  } else if (typeof value === "object" && value !== null) {
    const given = Object.entries(value).filter(([key]) => !without.has(key));
    const fields = order === "any" ? given.toSorted(([a], [b]) => (a < b ? -1 : 1)) : given;
    yield `{${fields.length} `;
    for (const [key, field] of fields) {
      yield* pieces(key, order);
      yield* pieces(field, order);
    }
  } else {
    yield `${JSON.stringify(value)} `;
  }
}
