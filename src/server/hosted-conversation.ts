/**
 * The conversation that the server keeps for one hosted stream: its key, in memory only, and what is to be kept with the next events.
 *
 * Invariant: a blob is in the commit of its event or in none.
 */
import { assert } from "../protocol/assert.ts";
import type { StreamName, StreamState } from "../core/stream-state.ts";
import type { SealedBlob } from "../store/blob-store.ts";
import type { AcceptedMeta, ConversationAccess } from "../transport/transport.ts";
import type { ApplicationBlobs, KeptBlob } from "./application.ts";
import { applicationBlobs, type StreamBlobs } from "./stream-blobs.ts";

export class HostedConversation {
  readonly #name: StreamName;
  readonly #blobs: StreamBlobs | undefined;
  /** As its blobs are asked for; undefined until a connection has brought its key. */
  #meta: AcceptedMeta | undefined;
  /** Made for the first blob under this key: it costs two derived keys. */
  #seal: ReturnType<StreamBlobs["sealerFor"]> | undefined;
  #waiting: { readonly eventId: number; readonly kept: readonly KeptBlob[] }[] = [];

  constructor(name: StreamName, blobs: StreamBlobs | undefined) {
    this.#name = name;
    this.#blobs = blobs;
  }

  /** A connection brings the key. */
  brought(conversation: ConversationAccess | undefined): void {
    if (conversation === undefined) return;
    this.#meta = { ...this.#name, streamKey: conversation.key, conversation };
    this.#seal = undefined;
  }

  /** A turn whose conversation cannot be read waits for a client that has its key. To end one, nothing is read. */
  isReadable({ conversationCheck, aborted }: StreamState): boolean {
    return conversationCheck === undefined || this.#meta !== undefined || aborted;
  }

  /** `onUnavailable`: as for a stream's own blobs. */
  blobs(onUnavailable: () => void): ApplicationBlobs | undefined {
    return this.#blobs && this.#meta && applicationBlobs(this.#blobs, this.#meta, onUnavailable);
  }

  staged(eventId: number, kept: readonly KeptBlob[]): void {
    if (kept.length > 0) this.#waiting.push({ eventId, kept });
  }

  /** What a commit with the events up to this one stores. */
  committing(eventId: number): { readonly blobs?: readonly SealedBlob[] } {
    if (this.#waiting.length === 0) return {};
    const after = this.#waiting.findIndex((waiting) => waiting.eventId > eventId);
    const taken = this.#waiting.splice(0, after === -1 ? this.#waiting.length : after);
    if (taken.length === 0) return {};
    assert(this.#blobs !== undefined && this.#meta !== undefined, "what is kept has a place");
    this.#seal ??= this.#blobs.sealerFor(this.#meta);
    return { blobs: this.#seal(taken.flatMap(({ kept }) => kept)) };
  }
}
