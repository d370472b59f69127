/**
 * Conversations that the server keeps: which space their blobs lie in, for how long, and how much a principal may have.
 *
 * The name of a space follows from the conversation key, so a wrong key names a space that holds nothing: it is answered as no
 * conversation is (E1). The principal is a part of the name: two principals never share one, whatever keys they bring (E2).
 *
 * What a principal has is counted once by the store, and from then on here. What was deleted meanwhile is noticed when the principal is at its bound:
 * each sweep lets it be counted again.
 */
import { HoldfastError } from "../protocol/errors.ts";
import { hexOf } from "../protocol/bytes.ts";
import type { SyncSealing } from "../sealing/index.ts";
import type { BlobStore } from "../store/blob-store.ts";
import type { AcceptedMeta, ConversationAccess } from "../transport/transport.ts";

export interface ConversationLimits {
  /** The longest time after its last turn for which a client may have a conversation kept. */
  readonly ttlMs: number;
  /** What the conversations of one principal may hold together. */
  readonly bytesMax: number;
}

const CONVERSATION_LIMITS: ConversationLimits = {
  ttlMs: 30 * 24 * 60 * 60_000,
  bytesMax: 4 * 1024 * 1024 * 1024,
};

const KIND = "conversation";
const SWEPT_AT_ONCE = 100;

/** A conversation as its key finds it. */
export interface ConversationSpace {
  readonly space: string;
  readonly key: Uint8Array;
  readonly keepMs: number;
}

export class Conversations {
  readonly #blobs: BlobStore;
  readonly #sealing: SyncSealing;
  readonly #limits: ConversationLimits;
  readonly #heldBytes = new Map<string, number>();

  constructor(blobs: BlobStore, sealing: SyncSealing, limits: Partial<ConversationLimits> = {}) {
    this.#blobs = blobs;
    this.#sealing = sealing;
    this.#limits = { ...CONVERSATION_LIMITS, ...limits };
  }

  spaceOf({ principal }: AcceptedMeta, { key, keepMs }: ConversationAccess): ConversationSpace {
    const name = hexOf(this.#sealing.secretName(key, KIND));
    return {
      space: JSON.stringify([KIND, principal, name]),
      key,
      keepMs: Math.min(keepMs, this.#limits.ttlMs),
    };
  }

  /** Rejects when the principal has as much as it may. */
  async checkRoom(principal: string): Promise<void> {
    const { bytesMax } = this.#limits;
    const prefix = `${JSON.stringify([KIND, principal]).slice(0, -1)},`;
    const heldBytes = this.#heldBytes.get(principal) ?? (await this.#blobs.storedBytes(prefix));
    this.#heldBytes.set(principal, heldBytes);
    if (heldBytes < bytesMax) return;
    const message = `the conversations that the server keeps for this principal hold ${heldBytes} bytes, and at most ${bytesMax}: delete some, or wait until they end`;
    throw new HoldfastError("too_large", message);
  }

  added(principal: string, bytes: number): void {
    const heldBytes = this.#heldBytes.get(principal);
    if (heldBytes !== undefined) this.#heldBytes.set(principal, heldBytes + bytes);
  }

  /** Resolves with the number of blobs that were deleted. */
  forget({ space }: ConversationSpace): Promise<number> {
    return this.#blobs.clear(space);
  }

  /** Deletes the conversations whose time is over. */
  async sweep(): Promise<void> {
    while ((await this.#blobs.sweepSpaces(SWEPT_AT_ONCE)) === SWEPT_AT_ONCE);
    for (const [principal, heldBytes] of this.#heldBytes)
      if (heldBytes >= this.#limits.bytesMax) this.#heldBytes.delete(principal);
  }
}
