/**
 * Clears away the blobs that no conversation reaches any more.
 *
 * It deletes only what it is sure of. Young blobs stay, since the checkpoint that will name them may be under
 * way; so does everything put since the oldest open turn began. One blob that cannot be read might name any
 * other, so then nothing is deleted.
 */
import { fromBinary } from "../../protocol/message.ts";
import { ConversationStateSchema } from "../../protocol/messages.ts";
import type { ClientBlobStore, StoredBlob } from "./blob-store.ts";
import { reach } from "./blob-walk.ts";
import type { ConversationRecord, ConversationStore } from "./conversation-store.ts";

export interface GarbageReport {
  readonly deleted: number;
  readonly kept: number;
  /** Named by a conversation, and not there. */
  readonly missing: readonly string[];
  /** Because of these nothing was deleted. */
  readonly unreadable: readonly string[];
}

/** Longer than a turn waits between setting a blob and naming it, unless it is open: see above. */
export const GRACE_MS = 24 * 60 * 60 * 1000;

interface GarbageOptions {
  readonly blobs: ClientBlobStore;
  readonly records: ConversationStore;
  readonly nowMs: number;
  readonly graceMs: number;
}

export async function collectGarbage(options: GarbageOptions): Promise<GarbageReport> {
  const { blobs, records, nowMs, graceMs } = options;
  // Before the records: what is named between the two looks was put before it, and is young.
  const old: StoredBlob[] = [];
  let young = 0;
  for await (const blob of blobs.list()) {
    if (blob.storedMs < nowMs - graceMs) old.push(blob);
    else young++;
  }
  const all = await records.list();
  const since = Math.min(...all.map(({ turn }) => turn?.startedMs ?? Infinity));
  const { ids, missing, unreadable } = await reach(blobs, all.flatMap(statesOf), all.flatMap(ownBlobs));
  const doomed =
    unreadable.length > 0 ? [] : old.filter(({ id, storedMs }) => !ids.has(id) && storedMs < since);
  let deleted = 0;
  for (const { id, storedMs } of doomed) if (await blobs.delete(id, storedMs)) deleted++;
  return { deleted, kept: young + old.length - deleted, missing, unreadable };
}

function statesOf({ checkpoint }: ConversationRecord): ReturnType<typeof decode>[] {
  return checkpoint === undefined ? [] : [decode(checkpoint)];
}

function decode(checkpoint: Uint8Array) {
  return fromBinary(ConversationStateSchema, checkpoint);
}

function ownBlobs({ systemPromptBlobId }: ConversationRecord): readonly string[] {
  return systemPromptBlobId === undefined ? [] : [systemPromptBlobId];
}
