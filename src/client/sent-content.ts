/**
 * Bytes as they travel: small ones in the chunk, large ones beside the stream. Resolves when they are there.
 */
import { type ContentInit, fitsInline, inBlob, inline } from "../turn/content.ts";

export async function sentContent(
  bytes: Uint8Array,
  stream: { upload(bytes: Uint8Array): Promise<string> },
): Promise<ContentInit> {
  return fitsInline(bytes) ? inline(bytes) : inBlob(await stream.upload(bytes), bytes.length);
}
