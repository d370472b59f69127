/**
 * Journal records as bytes: `core/journal.ts` says what they mean, `journal.proto` how they look.
 *
 * Whatever does not decode into exactly one known record is damage and is refused, never skipped.
 */
import { encoded, fromBinary, type MessageInitShape } from "../protocol/message.ts";
import type { JournalRecord, Outcome } from "../core/journal.ts";
import { enumName } from "../protocol/enum-name.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { given } from "../protocol/given.ts";
import {
  JournalOutcome,
  type JournalRecord as Message,
  JournalRecordSchema,
} from "../protocol/gen/holdfast/storage/v1/journal.ts";

const OUTCOMES: Readonly<Record<Outcome, JournalOutcome>> = {
  completed: JournalOutcome.COMPLETED,
  aborted: JournalOutcome.ABORTED,
  failed: JournalOutcome.FAILED,
  fenced: JournalOutcome.FENCED,
  lost: JournalOutcome.LOST,
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
    case "opened": {
      const { journalId, takesOver, createdMs } = record.value;
      return { kind: "opened", journalId, takesOver, createdMs: Number(createdMs) };
    }
    case "base":
      return { kind: "base", nextSeqno: record.value.nextSeqno, isClosed: record.value.isClosed };
    case "attached":
      return { kind: "attached", serverTimeMs: Number(record.value.serverTimeMs) };
    case "degraded":
      return { kind: "degraded" };
    case "said": {
      const { seqno, isClose, body, execId } = record.value;
      return { kind: "said", seqno, isClose, body, execId };
    }
    case "acked":
      return { kind: "acked", nextSeqno: record.value.nextSeqno };
    case "snapshot":
      return { kind: "snapshot", cursor: Number(record.value.cursor), state: record.value.state };
    case "execReceived": {
      const { execId, eventId, argsHash, repeatable, needsApproval, request } = record.value;
      const id = Number(eventId);
      return { kind: "exec_received", execId, eventId: id, argsHash, repeatable, needsApproval, request };
    }
    case "execApproved": {
      const { execId, argsHash, untilMs } = record.value;
      return { kind: "exec_approved", execId, argsHash, untilMs: Number(untilMs) };
    }
    case "execStarted":
      return { kind: "exec_started", execId: record.value.execId };
    case "execAborted":
      return { kind: "exec_aborted", execId: record.value.execId };
    case "execAcked":
      return { kind: "exec_acked", execId: record.value.execId, seqno: record.value.seqno };
    case "execConflict":
      return { kind: "exec_conflict", execId: record.value.execId, argsHash: record.value.argsHash };
    case "abort":
      return { kind: "abort" };
    case "ended":
      return {
        kind: "ended",
        outcome: enumName(OUTCOMES, record.value.outcome) ?? damaged("an end of no known kind", undefined),
      };
    case undefined:
      return damaged("a record says nothing known", undefined);
  }
}

function damaged(what: string, cause: unknown): never {
  throw new HoldfastError("stream_failed", `this journal is damaged: ${what}`, { cause });
}

/** A time of an application's own, which may be as far away as it likes: for ever is the last millisecond that there is. */
function wholeMs(ms: number): bigint {
  return BigInt(Math.round(Math.min(Math.max(ms, 0), Number.MAX_SAFE_INTEGER)));
}
