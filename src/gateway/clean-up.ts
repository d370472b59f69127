/**
 * Deletes what sessions left behind: rows that have ended, and blobs that no session's conversation reaches.
 *
 * It deletes only what it is sure of. A blob of a turn under way is in no checkpoint yet, so only old ones go; one that cannot
 * be read might name any other, so then none does.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { type ClientBlobStore, reach } from "../client/index.ts";
import { ConversationStateSchema } from "../protocol/messages.ts";
import type { TableStore } from "../store/table-store.ts";
import type { SessionStore } from "./session-store.ts";

/** Longer than any stream is kept after its last activity. */
const BLOB_AGE_MS = 24 * 60 * 60_000;
const ROWS_PER_SWEEP = 1_000;

export interface CleanUpParts {
  readonly tables: Pick<TableStore, "sweep">;
  readonly store: SessionStore;
  readonly blobs: ClientBlobStore;
  readonly nowMs: number;
}

/** How many blobs were deleted. */
export async function cleanUp({ tables, store, blobs, nowMs }: CleanUpParts): Promise<number> {
  while ((await tables.sweep(ROWS_PER_SWEEP)) === ROWS_PER_SWEEP);
  const old: { readonly id: string; readonly storedMs: number }[] = [];
  for await (const blob of blobs.list()) if (blob.storedMs < nowMs - BLOB_AGE_MS) old.push(blob);
  if (old.length === 0) return 0;
  const states = (await store.list()).flatMap(({ checkpoint }) =>
    checkpoint === "" ? [] : [fromBinary(ConversationStateSchema, Buffer.from(checkpoint, "base64"))],
  );
  const { ids, unreadable } = await reach(blobs, states);
  if (unreadable.length > 0) return 0;
  let deleted = 0;
  for (const { id, storedMs } of old) {
    if (!ids.has(id) && (await blobs.delete(id, storedMs))) deleted++;
  }
  return deleted;
}
