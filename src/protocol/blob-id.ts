/**
 * The name of a blob: the SHA-256 of its bytes, in 64 lower-case hexadecimal digits; on the wire the 32 bytes themselves.
 *
 * A side that sends or gets a blob computes it anew, so that it need not believe a peer or a disk (E5).
 */
import { sha256 } from "./sha256.ts";
import { bytesOfHex, hexOf } from "./bytes.ts";
import { invalidFrame } from "./frame-check.ts";

const BLOB_ID = /^[0-9a-f]{64}$/;

/** Below this the platform's own hash, which answers later, is not worth the wait. */
const SMALL_BYTES = 16 * 1024;

export async function blobIdOf(bytes: Uint8Array): Promise<string> {
  // Pages that are not a secure context have no WebCrypto.
  const { subtle } = globalThis.crypto;
  if (bytes.length < SMALL_BYTES || subtle === undefined) return hexOf(sha256(bytes));
  return hexOf(new Uint8Array(await subtle.digest("SHA-256", new Uint8Array(bytes))));
}

/** As the wire has it. Throws `invalid_frame` for what is no blob id. */
export function blobIdBytes(id: string): Uint8Array {
  if (!BLOB_ID.test(id)) throw invalidFrame("a blob id has 64 lower-case hexadecimal digits");
  return bytesOfHex(id);
}
