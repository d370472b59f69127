/**
 * Journal records as bytes: `core/journal.ts` says what they mean, `journal.proto` how they look.
 *
 * Whatever does not decode into exactly one known record is damage and is refused, never skipped.
 */
import { encoded, fieldsOf, fromBinary, type MessageInitShape } from "../protocol/message.ts";
import type { JournalRecord, Outcome } from "../core/journal.ts";
import { enumName } from "../protocol/enum-name.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { given } from "../protocol/given.ts";
import {
  type JournalOutcome,
  type JournalRecord as Message,
  JournalRecordSchema,
} from "../protocol/gen/holdfast/storage/v1/journal.ts";

/** Numbers of the contract, whose own table of names no page has to load. A test compares them. */
export const OUTCOMES: Readonly<Record<Outcome, JournalOutcome>> = {
  completed: 1,
  aborted: 2,
  failed: 3,
  fenced: 4,
  lost: 5,
};

export function encodeJournalRecord(record: JournalRecord): Uint8Array {
  return encoded(JournalRecordSchema, { record: initOf(record) });
}

function initOf(record: JournalRecord): NonNullable<MessageInitShape<typeof JournalRecordSchema>["record"]> {
  switch (record.kind) {
    case "opened":
      return { case: "opened", value: { ...rest(record), createdMs: BigInt(record.createdMs) } };
    case "base":
      return { case: "base", value: rest(record) };
    case "attached":
      return { case: "attached", value: { serverTimeMs: BigInt(Math.round(record.serverTimeMs)) } };
    case "degraded":
      return { case: "degraded", value: {} };
    case "said": {
      const { seqno, isClose, body, execId } = record;
      return { case: "said", value: { seqno, isClose, body, ...given({ execId }) } };
    }
    case "acked":
      return { case: "acked", value: rest(record) };
    case "snapshot":
      return { case: "snapshot", value: { cursor: BigInt(record.cursor), state: record.state } };
    case "exec_received":
      return { case: "execReceived", value: { ...rest(record), eventId: BigInt(record.eventId) } };
    case "exec_approved":
      return { case: "execApproved", value: { ...rest(record), untilMs: wholeMs(record.untilMs) } };
    case "exec_started":
      return { case: "execStarted", value: rest(record) };
    case "exec_aborted":
      return { case: "execAborted", value: rest(record) };
    case "exec_acked":
      return { case: "execAcked", value: rest(record) };
    case "exec_conflict":
      return { case: "execConflict", value: rest(record) };
    case "abort":
      return { case: "abort", value: {} };
    case "ended":
      return { case: "ended", value: { outcome: OUTCOMES[record.outcome] } };
  }
}

function rest<Fields extends { readonly kind: string }>(record: Fields): Omit<Fields, "kind"> {
  const { kind: _, ...fields } = record;
  return fields;
}

export function decodeJournalRecord(bytes: Uint8Array): JournalRecord {
  let message: Message;
  try {
    message = fromBinary(JournalRecordSchema, bytes);
  } catch (cause) {
    return damaged("a record does not parse", cause);
  }
  const { record } = message;
  switch (record.case) {
    case "opened":
      return { ...fieldsOf(record.value), kind: "opened", createdMs: Number(record.value.createdMs) };
    case "base":
      return { ...fieldsOf(record.value), kind: "base" };
    case "attached":
      return { kind: "attached", serverTimeMs: Number(record.value.serverTimeMs) };
    case "degraded":
      return { kind: "degraded" };
    case "said":
      return { ...fieldsOf(record.value), kind: "said", execId: record.value.execId };
    case "acked":
      return { ...fieldsOf(record.value), kind: "acked" };
    case "snapshot":
      return { ...fieldsOf(record.value), kind: "snapshot", cursor: Number(record.value.cursor) };
    case "execReceived":
      return { ...fieldsOf(record.value), kind: "exec_received", eventId: Number(record.value.eventId) };
    case "execApproved":
      return { ...fieldsOf(record.value), kind: "exec_approved", untilMs: Number(record.value.untilMs) };
    case "execStarted":
      return { ...fieldsOf(record.value), kind: "exec_started" };
    case "execAborted":
      return { ...fieldsOf(record.value), kind: "exec_aborted" };
    case "execAcked":
      return { ...fieldsOf(record.value), kind: "exec_acked" };
    case "execConflict":
      return { ...fieldsOf(record.value), kind: "exec_conflict" };
    case "abort":
      return { kind: "abort" };
    case "ended": {
      const outcome = enumName(OUTCOMES, record.value.outcome);
      return { kind: "ended", outcome: outcome ?? damaged("an end of no known kind") };
    }
    case undefined:
      return damaged("a record says nothing known");
  }
}

function damaged(what: string, cause?: unknown): never {
  throw new HoldfastError("stream_failed", `this journal is damaged: ${what}`, { cause });
}

/** A time of an application's own, which may be as far away as it likes: for ever is the last millisecond that there is. */
function wholeMs(ms: number): bigint {
  return BigInt(Math.round(Math.min(Math.max(ms, 0), Number.MAX_SAFE_INTEGER)));
}
