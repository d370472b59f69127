/**
 * The blobs of streams: who may touch them, under which key they lie, and when they go.
 *
 * A blob belongs to one stream of one principal and is sealed with that stream's key, so it is asked for as the stream
 * is: a wrong stream key, another principal's stream and no stream are the same `not_found` (E1, E2). When the
 * stream becomes a tombstone its blobs go with it. A call that brings a conversation key means the blobs of that conversation instead, which
 * the server keeps longer than its streams (`conversations.ts`).
 */
import { hash } from "node:crypto";
import type { StreamName } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { parsedJson } from "../protocol/fields.ts";
import { invalidFrame } from "../protocol/frame-check.ts";
import { KEY_BYTES, type SyncSealing } from "../sealing/index.ts";
import type { BlobName, BlobPut, BlobSealer, BlobStore, SealedBlob } from "../store/blob-store.ts";
import type { AcceptedMeta } from "../transport/transport.ts";
import type { ApplicationBlobs, KeptBlob } from "./application.ts";
import type { Conversations, ConversationSpace } from "./conversations.ts";
import { nameText } from "./entries.ts";

export interface StreamBlobs {
  /** Whether the stream is there and this stream key is its own, or a conversation is meant; rejects with the reason why not. */
  check(meta: AcceptedMeta): Promise<void>;
  /** Resolves once the blob is durable. The id is the SHA-256 of the bytes, or it is refused (E5). */
  put(meta: AcceptedMeta, id: string, bytes: Uint8Array): Promise<BlobPut>;
  /** Rejects with `not_found` when the stream has no such blob. */
  get(meta: AcceptedMeta, id: string): Promise<Uint8Array>;
  /** Seals blobs as a commit of the stream stores them; one for all commits of a host. */
  sealerFor(meta: AcceptedMeta): (kept: readonly KeptBlob[]) => readonly SealedBlob[];
  /** Deletes all blobs of the conversation, and says how many. Rejects when the call brings no conversation key. */
  forget(meta: AcceptedMeta): Promise<number>;
}

/** Asks as an attach would: the keeper's `check`. */
type Check = (meta: AcceptedMeta) => Promise<void>;

export function streamBlobs(
  blobs: BlobStore,
  sealing: SyncSealing,
  conversations: Conversations,
  checkStream: Check,
): StreamBlobs {
  /** Where the blobs lie, and under which key. */
  function placeOf(meta: AcceptedMeta): Place {
    const { conversation, streamKey } = meta;
    return conversation === undefined
      ? { space: nameText(meta), key: streamKey, keepMs: undefined }
      : conversations.spaceOf(meta, conversation);
  }

  /** A conversation need not have a stream. */
  async function check(meta: AcceptedMeta): Promise<void> {
    if (meta.conversation === undefined) await checkStream(meta);
    else checkKeyLength(meta.conversation.key);
  }

  return {
    check,
    put: async (meta, id, bytes) => {
      await check(meta);
      if (meta.conversation !== undefined) await conversations.checkRoom(meta.principal);
      const { space, key, keepMs } = placeOf(meta);
      const put = await blobs.put({ space, id }, bytes, blobSealer(sealing, key), keepMs);
      if (meta.conversation !== undefined) {
        conversations.added(meta.principal, bytes.length);
        return put;
      }
      try {
        // It may have expired meanwhile: then this blob came after the clearing.
        await check(meta);
      } catch (cause) {
        if (HoldfastError.codeOf(cause) === "stream_gone") await blobs.clear(space);
        throw cause;
      }
      return put;
    },
    get: async (meta, id) => {
      await check(meta);
      const { space, key } = placeOf(meta);
      const found = await blobs.get({ space, id }, blobSealer(sealing, key));
      if (found.kind === "miss") throw new HoldfastError("not_found", "this stream has no such blob");
      return found.bytes;
    },
    sealerFor: (meta) => {
      const { space, key, keepMs } = placeOf(meta);
      const sealer = blobSealer(sealing, key);
      const sealed = ({ id, bytes }: KeptBlob): SealedBlob => {
        conversations.added(meta.principal, bytes.length);
        // A record may be a view of a pooled buffer, and these are handed to another thread.
        return { space, id, sealed: new Uint8Array(sealer.seal({ space, id }, bytes)), keepMs };
      };
      return (kept) => kept.map(sealed);
    },
    forget: async (meta) => {
      const { conversation } = meta;
      if (conversation === undefined)
        throw invalidFrame("to forget a conversation a call brings its conversation key");
      checkKeyLength(conversation.key);
      return conversations.forget(conversations.spaceOf(meta, conversation));
    },
  };
}

type Place = Omit<ConversationSpace, "keepMs"> & { readonly keepMs: number | undefined };

function checkKeyLength(key: Uint8Array): void {
  if (key.length !== KEY_BYTES) throw invalidFrame(`a conversation key has ${KEY_BYTES} bytes`);
}

/**
 * The same blobs as the application of one stream sees them: what the client put is found here, and the other way round.
 *
 * `onUnavailable` is called before the application hears that the store failed: its host lets the stream go, because no turn may end by that.
 */
export function applicationBlobs(
  blobs: StreamBlobs,
  meta: AcceptedMeta,
  onUnavailable: () => void,
): ApplicationBlobs {
  const failed = (cause: unknown): never => {
    if (HoldfastError.codeOf(cause) === "unavailable") onUnavailable();
    throw cause;
  };
  return {
    put: async (bytes) => {
      const id = hash("sha256", bytes);
      await blobs.put(meta, id, bytes).catch(failed);
      return id;
    },
    get: (id) =>
      blobs
        .get(meta, id)
        .catch((cause: unknown) => (HoldfastError.codeOf(cause) === "not_found" ? undefined : failed(cause))),
  };
}

/** A sealer for each call: it draws its own incarnation, so no nonce repeats (E3). */
function blobSealer(sealing: SyncSealing, streamKey: Uint8Array): BlobSealer {
  const sealer = sealing.sealer(streamKey);
  const label = ({ space, id }: BlobName) =>
    ({ stream: space, direction: "blob", first: 0, count: 1, kind: id }) as const;
  return {
    seal: (name, bytes) => sealer.seal(label(name), bytes),
    open: (name, sealed) => sealer.open(label(name), sealed),
  };
}

/** The stream that a space belongs to; undefined for a space that is none of ours. */
function streamOf(space: string): StreamName | undefined {
  const parts = parsedJson(space);
  if (!Array.isArray(parts) || parts.length !== 2) return undefined;
  const [principal, idempotencyKey] = parts.map((part: unknown) => part);
  const isName = typeof principal === "string" && typeof idempotencyKey === "string";
  return isName ? { principal, idempotencyKey } : undefined;
}

const ORPHANS_PAGE = 1_000;

/**
 * Clears the spaces of streams that are not there any more. A crash between a stream's expiry and the clearing of its
 * blobs leaves such a space; looking once after each start finds them all.
 */
export async function clearOrphans(
  blobs: BlobStore,
  isLive: (name: StreamName) => Promise<boolean>,
): Promise<void> {
  for (let after: string | undefined; ;) {
    const spaces = await blobs.listSpaces({ after, countMax: ORPHANS_PAGE });
    for (const space of spaces) {
      const name = streamOf(space);
      if (name !== undefined && !(await isLive(name))) await blobs.clear(space);
    }
    after = spaces.at(-1);
    if (after === undefined || spaces.length < ORPHANS_PAGE) return;
  }
}
