/**
 * The two forms of a `Content`: bytes that are there, or the id of a blob that must be fetched.
 */
import type { Content } from "../../protocol/messages.ts";

/** Undefined when they are in a blob, or there are none. */
export function bytesOfContent(content: Content | undefined): Uint8Array | undefined {
  return content?.content.case === "inline" ? content.content.value : undefined;
}

export function blobIdIn(content: Content | undefined): string | undefined {
  return content?.content.case === "blobId" ? hexOf(content.content.value) : undefined;
}

export function hexOf(blobId: Uint8Array): string {
  return Buffer.from(blobId).toString("hex");
}
