/**
 * What a file is, judged by its first bytes. Names lie; magic numbers rarely do.
 */

const MAGIC: readonly (readonly [mediaType: string, at: number, bytes: string])[] = [
  ["image/png", 0, "\x89PNG\r\n\x1a\n"],
  ["image/jpeg", 0, "\xff\xd8\xff"],
  ["image/gif", 0, "GIF87a"],
  ["image/gif", 0, "GIF89a"],
  ["image/webp", 8, "WEBP"],
  ["image/avif", 4, "ftypavif"],
  ["image/bmp", 0, "BM"],
  ["application/pdf", 0, "%PDF-"],
  ["application/zip", 0, "PK\x03\x04"],
  ["application/gzip", 0, "\x1f\x8b"],
];

/** Undefined: nothing that we know. */
export function mediaTypeOf(head: Uint8Array): string | undefined {
  const text = Buffer.from(head.subarray(0, 32)).toString("latin1");
  const known = MAGIC.find(([, at, bytes]) => text.startsWith(bytes, at))?.[0];
  // Two letters begin many a text too.
  return known === "image/bmp" && !looksBinary(head) ? undefined : known;
}

/** As ripgrep and git tell: text has no NUL. */
export function looksBinary(bytes: Uint8Array): boolean {
  return bytes.includes(0);
}
