/**
 * The two forms of a `Content`: bytes that are there, or the id of a blob that must be fetched.
 *
 * Outside of messages a blob id is text, in hexadecimal digits. What fits is inline; the caller puts the rest beside the stream
 * and names it.
 */
import type { MessageInitShape } from "../protocol/message.ts";
import { blobIdBytes } from "../protocol/blob-id.ts";
import { hexOf } from "../protocol/bytes.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Content, ContentSchema } from "../protocol/messages.ts";

export type ContentInit = MessageInitShape<typeof ContentSchema>;

export function fitsInline(bytes: Uint8Array): boolean {
  return bytes.length <= LIMITS.inlineBytesMax;
}

export function inline(bytes: Uint8Array): ContentInit {
  return { content: { case: "inline", value: bytes } };
}

export function inBlob(blobId: string, sizeBytes?: number): ContentInit {
  const content = { case: "blobId", value: blobIdBytes(blobId) } as const;
  return sizeBytes === undefined ? { content } : { content, sizeBytes };
}

/** Undefined when they are in a blob, or there are none. */
export function bytesIn(content: Content | undefined): Uint8Array | undefined {
  return content?.content.case === "inline" ? content.content.value : undefined;
}

const decoder = new TextDecoder();

/** The bytes as text; undefined when they are in a blob, or there are none. */
export function textIn(content: Content | undefined): string | undefined {
  const bytes = bytesIn(content);
  return bytes === undefined ? undefined : decoder.decode(bytes);
}

/** The blob that has the bytes. */
export function blobIn(content: Content | undefined): string | undefined {
  return content?.content.case === "blobId" ? hexOf(content.content.value) : undefined;
}
