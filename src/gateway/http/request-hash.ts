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
  const { without, order, door } = rules;
  const hash = createHash("sha256");
  let slice = door === "chat" ? "" : `${door} `;
  // What is still to be read, the next one last; the name of a field is a text like any other.
  const left: unknown[] = [body];
  while (left.length > 0) {
    const value = left.pop();
    let text = "";
    if (typeof value === "string") {
      slice += `"${value.length} `;
      text = value;
    } else if (Array.isArray(value)) {
      slice += `[${value.length} `;
      for (let at = value.length - 1; at >= 0; at--) left.push(value[at]);
    } else if (typeof value === "object" && value !== null) {
      const fields = Object.entries(value).filter(([name]) => value !== body || !without.has(name));
      if (order === "any") fields.sort(([a], [b]) => (a < b ? -1 : 1));
      slice += `{${fields.length} `;
      for (const [name, field] of fields.toReversed()) left.push(field, name);
    } else {
      slice += `${JSON.stringify(value)} `;
    }
    for (let at = 0; at < text.length || slice.length >= SLICE_CHARS; at += SLICE_CHARS) {
      slice += text.slice(at, at + SLICE_CHARS);
      if (slice.length < SLICE_CHARS) continue;
      // As it is in memory: a slice may end between the halves of a character.
      hash.update(slice, "utf16le");
      slice = "";
      yield;
    }
  }
  return hash.update(slice, "utf16le").digest("hex");
}
