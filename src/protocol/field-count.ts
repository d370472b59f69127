/**
 * Refuses messages that are small as bytes and huge once decoded.
 *
 * A field takes two bytes on the wire and an object in memory, so a few megabytes of nothing but fields would stop the
 * event loop for seconds and take gigabytes. An honest message has few fields, and its bytes are in bodies. So fields are
 * counted first, by walking over them, which makes nothing and ends at the limit (E8, F2).
 */
import { invalidFrame } from "./frame-check.ts";
import { LENGTH_DELIMITED, WireReader } from "./wire.ts";

/** The fields of a message that are messages themselves, by number. */
export type Shape = ReadonlyMap<number, Shape>;

const PLAIN: Shape = new Map();
/** StreamRequest: abort, close, attach, heartbeat. */
export const FRAME_SHAPE: Shape = new Map([
  [2, PLAIN],
  [3, PLAIN],
  [7, PLAIN],
  [8, PLAIN],
]);
/** AppendRequest: frames. */
export const APPEND_SHAPE: Shape = new Map([[2, FRAME_SHAPE]]);
/** PutRequest and GetRequest: header. */
export const BLOB_SHAPE: Shape = new Map([[1, PLAIN]]);

/** What is smaller cannot hold enough fields to matter, and is most of what comes. */
const UNCOUNTED_BYTES_MAX = 4 * 1024;

/** The largest heartbeat has 256 exec ids; an append has 256 chunks of four fields beside it. */
const FIELDS_MAX = 4 * 1024;

/** Throws when there are more fields than any honest message has. What is no protobuf is left to the decoder. */
export function checkFieldCount(bytes: Uint8Array, shape: Shape): void {
  if (bytes.length <= UNCOUNTED_BYTES_MAX) return;
  if (countFields(bytes, shape, FIELDS_MAX) < 0) {
    throw invalidFrame(`a message has more than ${FIELDS_MAX} fields`);
  }
}

/** How many of `left` are left over; negative when there were too many. */
function countFields(bytes: Uint8Array, shape: Shape, left: number): number {
  const reader = new WireReader(bytes);
  try {
    while (reader.pos < reader.len && left >= 0) {
      left--;
      const tag = reader.tag();
      const inner = (tag & 7) === LENGTH_DELIMITED ? shape.get(tag >>> 3) : undefined;
      if (inner === undefined) reader.skip(tag);
      else left = countFields(reader.bytes(), inner, left);
    }
  } catch {
    return left;
  }
  return left;
}
