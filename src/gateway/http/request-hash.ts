/**
 * The name of what a request asks for, however it wants to be told: as a stream or in one piece.
 *
 * A client that falls back from one to the other still asks the same. `stream_options` says how a stream is told, and is absent without one.
 * The hash is over the values in their order, each with its kind and length, so white space does not count and nothing runs together.
 */
import { createHash } from "node:crypto";

/** Told, not asked. */
const TELLING: ReadonlySet<string> = new Set(["stream", "stream_options"]);
const SLICE_CHARS = 64 * 1024;

/** SHA-256, hexadecimal; yields after each slice. */
export function* hashRequest(body: unknown): Generator<void, string> {
  const hash = createHash("sha256");
  let slice = "";
  for (const piece of pieces(body, TELLING)) {
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

function* pieces(value: unknown, without: ReadonlySet<string> = NOTHING): Generator<string> {
  if (typeof value === "string") {
    yield `"${value.length} `;
    for (let at = 0; at < value.length; at += SLICE_CHARS) yield value.slice(at, at + SLICE_CHARS);
  } else if (Array.isArray(value)) {
    yield `[${value.length} `;
    for (const item of value) yield* pieces(item);
  } else if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).filter(([key]) => !without.has(key));
    yield `{${fields.length} `;
    for (const [key, field] of fields) {
      yield* pieces(key);
      yield* pieces(field);
    }
  } else {
    yield `${JSON.stringify(value)} `;
  }
}
