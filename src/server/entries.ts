/**
 * How the entries of one commit become one plaintext to seal, and back.
 *
 * Sealing a stream's entries together costs one seal per commit instead of one per event. Per entry: a mark, a length, the body.
 */
import { assert } from "../core/assert.ts";
import type { EndReason } from "../protocol/frames.ts";

/** An entry of either log; `mark` is "close" for a client's last word, the reason for a stream's end. */
export interface LogEntry {
  readonly mark: "plain" | "close" | EndReason;
  readonly body: Uint8Array;
}

const MARKS: readonly LogEntry["mark"][] = ["plain", "close", "completed", "aborted", "failed"];
const HEAD_BYTES = 5;

export function packEntries(entries: readonly LogEntry[]): Uint8Array {
  const packed = new Uint8Array(entries.reduce((sum, entry) => sum + HEAD_BYTES + entry.body.length, 0));
  const view = new DataView(packed.buffer);
  let at = 0;
  for (const { mark, body } of entries) {
    packed[at] = MARKS.indexOf(mark);
    view.setUint32(at + 1, body.length);
    packed.set(body, at + HEAD_BYTES);
    at += HEAD_BYTES + body.length;
  }
  return packed;
}

/** The bytes come out of an authenticated seal: whatever does not parse is our own bug. */
export function unpackEntries(packed: Uint8Array, count: number): readonly LogEntry[] {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const entries: LogEntry[] = [];
  let at = 0;
  while (at < packed.length) {
    const mark = MARKS[view.getUint8(at)];
    assert(mark !== undefined, "an entry has a known mark");
    const end = at + HEAD_BYTES + view.getUint32(at + 1);
    entries.push({ mark, body: packed.subarray(at + HEAD_BYTES, end) });
    at = end;
  }
  assert(entries.length === count && at === packed.length, "a batch holds what its label says");
  return entries;
}
