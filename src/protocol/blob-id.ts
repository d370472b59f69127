/**
 * The name of a blob: the SHA-256 of its bytes, in 64 lower-case hexadecimal digits; on the wire the 32 bytes themselves.
 *
 * A side that sends or gets a blob computes it anew, so that it need not believe a peer or a disk (E5).
 */
import { bytesOfHex } from "./bytes.ts";
import { invalidFrame } from "./frame-check.ts";

const BLOB_ID = /^[0-9a-f]{64}$/;

/** As the wire has it. Throws `invalid_frame` for what is no blob id. */
export function blobIdBytes(id: string): Uint8Array {
  if (!BLOB_ID.test(id)) throw invalidFrame("a blob id has 64 lower-case hexadecimal digits");
  return bytesOfHex(id);
}
