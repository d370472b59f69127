/**
 * Takes forgotten streams out of a commit log's rows, which they share with streams that are still needed.
 *
 * A row is written anew without their entries; in its body their bytes become zeros, because the others are found by their offsets. Numbers of streams are never
 * used again, so what is taken out is needed by no reader. What a crash interrupts is found again by the next call: it looks at all that was ever forgotten.
 */
import type { CommitLog, RewrittenRow } from "./commit-log.ts";
import { decodeFormat, decodeRecord, RecordEncoder } from "./commit-record.ts";
import { hasNumber, type NumberRange } from "./number-ranges.ts";

/** Rows that are written in one transaction. */
const ROWS_AT_ONCE = 64;

export async function shredded(log: CommitLog, forgotten: readonly NumberRange[]): Promise<void> {
  if (log.rewrite === undefined || forgotten.length === 0) return;
  let waiting: RewrittenRow[] = [];
  for await (const { row, record } of log.scan()) {
    const rewritten = await without(log, row, record, forgotten);
    if (rewritten === undefined) continue;
    waiting.push(rewritten);
    if (waiting.length < ROWS_AT_ONCE) continue;
    await log.rewrite(waiting);
    waiting = [];
  }
  if (waiting.length > 0) await log.rewrite(waiting);
}

/** Undefined when the row may stay as it is. */
async function without(
  log: CommitLog,
  row: number,
  bytes: Uint8Array,
  forgotten: readonly NumberRange[],
): Promise<RewrittenRow | undefined> {
  if (decodeFormat(bytes) !== undefined) return undefined;
  const record = decodeRecord(bytes);
  const isGone = (stream: number): boolean => hasNumber(forgotten, stream);
  const entries = record.entries.filter(({ stream }) => !isGone(stream));
  // The store counts what is needed, and drops a row of which nothing is left.
  const isEmpty = entries.length === 0 && record.forgotten === undefined;
  if (entries.length === record.entries.length || isEmpty) return undefined;
  const moved = record.entries.flatMap((entry) => (isGone(entry.stream) && entry.moved ? [entry.moved] : []));
  const body = moved.length === 0 ? undefined : new Uint8Array(await log.readBody(row));
  for (const { bodyOffset, bodyLength } of moved) body?.fill(0, bodyOffset, bodyOffset + bodyLength);
  return { row, record: new RecordEncoder().encode({ ...record, entries }), body };
}
