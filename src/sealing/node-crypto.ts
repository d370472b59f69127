/**
 * The three primitives over `node:crypto`: HKDF-SHA-256, AES-256-GCM, HMAC-SHA-256. Thin, so that
 * published test vectors check them as they are.
 *
 * Keys are KeyObjects: on Node 24 a raw key costs the cipher four times as long.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { TAG_BYTES } from "./record.ts";

const CIPHER = "aes-256-gcm";
const CIPHER_OPTIONS = Object.freeze({ authTagLength: TAG_BYTES });

export function secretKey(bytes: Uint8Array): KeyObject {
  return createSecretKey(bytes);
}

export function hkdf(
  ikm: KeyObject,
  salt: Uint8Array,
  info: Uint8Array,
  bytes: number,
): Uint8Array<ArrayBuffer> {
  return new Uint8Array(hkdfSync("sha256", ikm, salt, info, bytes));
}

/** Writes ciphertext and tag to `out` from `offset` on. GCM is a stream: `update` gives all, `final` nothing. */
export function gcmSealInto(
  key: KeyObject,
  nonce: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array,
  out: Uint8Array,
  offset: number,
): void {
  const cipher = createCipheriv(CIPHER, key, nonce, CIPHER_OPTIONS);
  cipher.setAAD(aad);
  out.set(cipher.update(plaintext), offset);
  cipher.final();
  out.set(cipher.getAuthTag(), offset + plaintext.length);
}

/** Throws unless the tag fits; nothing decrypted leaves before that. */
export function gcmOpen(
  key: KeyObject,
  nonce: Uint8Array,
  aad: Uint8Array,
  ciphertextAndTag: Uint8Array,
): Uint8Array {
  const end = ciphertextAndTag.length - TAG_BYTES;
  const decipher = createDecipheriv(CIPHER, key, nonce, CIPHER_OPTIONS);
  decipher.setAAD(aad);
  decipher.setAuthTag(ciphertextAndTag.subarray(end));
  const plaintext = decipher.update(ciphertextAndTag.subarray(0, end));
  decipher.final();
  // A plain Uint8Array: a Buffer's `slice` shares memory, and callers must not have to know.
  return new Uint8Array(plaintext.buffer, plaintext.byteOffset, plaintext.length);
}

export function hmac(key: KeyObject, head: Uint8Array, body: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHmac("sha256", key).update(head).update(body).digest());
}
