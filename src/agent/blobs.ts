/**
 * Blob ids and contents: bytes in a log up to a limit, named by their SHA-256 beyond it.
 */
import { hash } from "node:crypto";
import { create } from "../protocol/message.ts";
import { LIMITS } from "../protocol/limits.ts";
import { type Content, ContentSchema } from "../protocol/messages.ts";
import type { ApplicationBlobs } from "../server/application.ts";
import { TurnFailure } from "./turn-failure.ts";
import { fitsInline, inBlob, inline } from "../turn/content.ts";

export function blobIdOf(bytes: Uint8Array): string {
  return hash("sha256", bytes);
}

/** As it can stand in an event: inline, or put to the stream's blobs. */
export async function contentOf(bytes: Uint8Array, blobs: ApplicationBlobs | undefined): Promise<Content> {
  return fitsInline(bytes) ? create(ContentSchema, inline(bytes)) : putContent(bytes, blobs);
}

/** By its name, however small: one of several that would not fit together. */
export async function putContent(bytes: Uint8Array, blobs: ApplicationBlobs | undefined): Promise<Content> {
  const blobId = await largeBlobs(blobs).put(bytes);
  return create(ContentSchema, inBlob(blobId, bytes.length));
}

export function largeBlobs(blobs: ApplicationBlobs | undefined): ApplicationBlobs {
  if (blobs !== undefined) return blobs;
  const message = `this stream has no blobs, and something is larger than ${LIMITS.inlineBytesMax} bytes`;
  throw new TurnFailure("invalid_request", message);
}

/**
 * Blobs that were needed lately, so that a conversation that continues need not send them again.
 *
 * In memory only, and by principal: a blob that one knows is no answer for another (E2).
 */
export class BlobCache {
  readonly #bytesMax: number;
  /** In order of their last use. */
  readonly #blobs = new Map<string, Uint8Array>();
  /** Stands before the oldest, from the first that is dropped on: a new one would pass over the places of all that are gone. */
  #oldest: MapIterator<[string, Uint8Array]> | undefined;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get(principal: string, blobId: string): Uint8Array | undefined {
    const name = nameOf(principal, blobId);
    const bytes = this.#blobs.get(name);
    if (bytes === undefined) return undefined;
    this.#blobs.delete(name);
    this.#blobs.set(name, bytes);
    return bytes;
  }

  put(principal: string, blobId: string, bytes: Uint8Array): void {
    const name = nameOf(principal, blobId);
    if (this.#blobs.has(name) || bytes.length > this.#bytesMax / 4) return;
    // A copy: what is cached must not keep a larger buffer alive.
    this.#blobs.set(name, new Uint8Array(bytes));
    this.#bytes += bytes.length + BLOB_HEAD_BYTES;
    if (this.#bytes <= this.#bytesMax) return;
    this.#oldest ??= this.#blobs.entries();
    for (const [oldest, dropped] of this.#oldest) {
      this.#blobs.delete(oldest);
      this.#bytes -= dropped.length + BLOB_HEAD_BYTES;
      if (this.#bytes <= this.#bytesMax) return;
    }
  }
}

/** A map entry and a name. */
const BLOB_HEAD_BYTES = 430;

function nameOf(principal: string, blobId: string): string {
  return `${blobId} ${principal}`;
}
