/**
 * The primitives of a client over WebCrypto, the mirror of `node-crypto.ts`. Browsers and Node alike.
 *
 * Every key in here is non-extractable. Derivation goes through `deriveBits` alone, so that a home
 * key needs no other permission.
 */
import { check, TAG_BYTES } from "./record.ts";

/** A CryptoKey by whatever name the platform's types have for it. */
export type WebKey = InstanceType<typeof CryptoKey>;

type Bytes = Uint8Array<ArrayBuffer>;

/** Looked up at each use: an insecure page has no `subtle`, and should hear why at the first call. */
function subtle(): typeof crypto.subtle {
  const present = globalThis.crypto?.subtle;
  check(present !== undefined, "WebCrypto is missing; a page needs https or localhost for it");
  return present;
}

export async function sha256(bytes: Uint8Array): Promise<Bytes> {
  return new Uint8Array(await subtle().digest("SHA-256", new Uint8Array(bytes)));
}

export function importHkdfKey(bytes: Bytes): Promise<WebKey> {
  return subtle().importKey("raw", bytes, "HKDF", false, ["deriveBits"]);
}

export function importGcmKey(bytes: Bytes): Promise<WebKey> {
  return subtle().importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
}

export async function hkdf(ikm: WebKey, salt: Bytes, info: Bytes, bytes: number): Promise<Bytes> {
  const algorithm = { name: "HKDF", hash: "SHA-256", salt, info };
  return new Uint8Array(await subtle().deriveBits(algorithm, ikm, bytes * 8));
}

/** Ciphertext and tag. */
export async function gcmSeal(key: WebKey, nonce: Bytes, aad: Bytes, plaintext: Bytes): Promise<Bytes> {
  return new Uint8Array(await subtle().encrypt(gcm(nonce, aad), key, plaintext));
}

/** Rejects unless the tag fits. */
export async function gcmOpen(
  key: WebKey,
  nonce: Bytes,
  aad: Bytes,
  ciphertextAndTag: Bytes,
): Promise<Bytes> {
  return new Uint8Array(await subtle().decrypt(gcm(nonce, aad), key, ciphertextAndTag));
}

function gcm(nonce: Bytes, aad: Bytes) {
  return { name: "AES-GCM", iv: nonce, additionalData: aad, tagLength: TAG_BYTES * 8 };
}
