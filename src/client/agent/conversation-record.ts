/**
 * A conversation's record as bytes, sealed: the same for every store that keeps it on a disk.
 *
 *     length of the JSON 4 | JSON, all but the checkpoint | checkpoint
 *
 * The seal is bound to the conversation and the version, so a record can be moved neither to another
 * conversation nor back in time without the store's own version.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { SealedLabel, Sealer } from "../../sealing/index.ts";
import type { ConversationRecord } from "./conversation-store.ts";

const FORMAT = 1;
const LENGTH_BYTES = 4;

interface Stored {
  readonly format: typeof FORMAT;
  readonly hasCheckpoint: boolean;
  readonly record: Omit<ConversationRecord, "checkpoint">;
}

/** `record.version` is the version that it will have in the store. */
export async function sealRecord(sealer: Sealer, record: ConversationRecord): Promise<Uint8Array> {
  return sealer.seal(labelOf(record.conversationId, record.version), encodeRecord(record));
}

export async function openRecord(
  sealer: Sealer,
  conversationId: string,
  version: number,
  sealed: Uint8Array,
): Promise<ConversationRecord> {
  return decodeRecord(await sealer.open(labelOf(conversationId, version), sealed));
}

function labelOf(conversationId: string, version: number): SealedLabel {
  return { stream: conversationId, direction: "journal", first: version, count: 1, kind: "conversation" };
}

export function encodeRecord({ checkpoint, ...record }: ConversationRecord): Uint8Array {
  const stored: Stored = { format: FORMAT, hasCheckpoint: checkpoint !== undefined, record };
  const json = new TextEncoder().encode(JSON.stringify(stored));
  const bytes = new Uint8Array(LENGTH_BYTES + json.length + (checkpoint?.length ?? 0));
  new DataView(bytes.buffer).setUint32(0, json.length);
  bytes.set(json, LENGTH_BYTES);
  if (checkpoint !== undefined) bytes.set(checkpoint, LENGTH_BYTES + json.length);
  return bytes;
}

export function decodeRecord(bytes: Uint8Array): ConversationRecord {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = LENGTH_BYTES + (bytes.length < LENGTH_BYTES ? 0 : view.getUint32(0));
  let stored: unknown;
  try {
    stored = JSON.parse(new TextDecoder().decode(bytes.subarray(LENGTH_BYTES, end)));
  } catch (cause) {
    throw new HoldfastError("stream_failed", "a conversation's record is damaged", { cause });
  }
  if (!isStored(stored)) {
    const message = "a conversation's record was written by a newer version of Holdfast: use that one";
    throw new HoldfastError("unsupported_version", message);
  }
  const { record, hasCheckpoint } = stored;
  return hasCheckpoint ? { ...record, checkpoint: bytes.slice(end) } : record;
}

/** What opened under the seal is what this client wrote: only the format is in question. */
function isStored(value: unknown): value is Stored {
  return typeof value === "object" && value !== null && "format" in value && value.format === FORMAT;
}
