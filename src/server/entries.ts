/**
 * How the entries of one commit become one plaintext to seal, and back; and the name that the seal is bound to.
 *
 * Sealing a stream's entries together costs one seal per commit instead of one per event. Per entry: a mark, a length, the body.
 */
import type { StreamName } from "../core/stream-state.ts";
import { assert } from "../protocol/assert.ts";
import type { EndReason } from "../protocol/frames.ts";

/** A stream's name as one text: what its records, its blobs and the tables of this process know it by. */
export function nameText({ principal, idempotencyKey }: StreamName): string {
  return JSON.stringify([principal, idempotencyKey]);
}

/** An entry of either log; `mark` is "close" for a client's last word, the reason for a stream's end. */
export interface LogEntry {
  readonly mark: "plain" | "close" | EndReason;
  readonly body: Uint8Array;
}

const MARKS: readonly LogEntry["mark"][] = ["plain", "close", "completed", "aborted", "failed"];
const HEAD_BYTES = 5;

/** Good until the next call: sealing makes a copy anyway, and a fresh buffer costs a third of a small seal. */
export function packEntries(entries: readonly LogEntry[]): Uint8Array {
  let bytes = 0;
  for (const { body } of entries) bytes += HEAD_BYTES + body.length;
  if (scratch.length < bytes) scratch = Buffer.allocUnsafeSlow(bytes);
  let at = 0;
  for (const { mark, body } of entries) {
    scratch[at] = MARKS.indexOf(mark);
    scratch.writeUInt32BE(body.length, at + 1);
    scratch.set(body, at + HEAD_BYTES);
    at += HEAD_BYTES + body.length;
  }
  const packed = scratch.subarray(0, bytes);
  if (bytes > SCRATCH_BYTES) scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  return packed;
}

/** Most commits of a stream fit; for a large one the buffer grows, and shrinks again. */
const SCRATCH_BYTES = 64 * 1024;
let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

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
