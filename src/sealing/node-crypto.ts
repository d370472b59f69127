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
  hash,
  type KeyObject,
  randomFillSync,
} from "node:crypto";
import { check, TAG_BYTES } from "./record.ts";

const CIPHER = "aes-256-gcm";
const CIPHER_OPTIONS = Object.freeze({ authTagLength: TAG_BYTES });

export function secretKey(bytes: Uint8Array): KeyObject {
  return createSecretKey(bytes);
}

const BLOCK_BYTES = 64;
const HASH_BYTES = 32;
/** Far above what is derived here: a key, and an info string of at most half of it. */
const MESSAGE_BYTES_MAX = 2_048;

/** Written over by each call, and emptied behind it. */
const inner = Buffer.alloc(BLOCK_BYTES + MESSAGE_BYTES_MAX);
const outer = Buffer.alloc(BLOCK_BYTES + HASH_BYTES);

/**
 * RFC 5869, written out over the one-shot hash: a fourth of the time of `hkdfSync`, which makes a job and two key objects, and an answer of the gateway derives a dozen keys
 * (decision 178).
 */
export function hkdf(
  ikm: Uint8Array,
  salt: Uint8Array,
  info: Uint8Array,
  byteCount: number,
): Uint8Array<ArrayBuffer> {
  const derived = new Uint8Array(byteCount);
  const extracted = shortHmac(salt, ikm);
  const message = new Uint8Array(HASH_BYTES + info.length + 1);
  message.set(info, HASH_BYTES);
  // The first round has no hash of one before it.
  for (let from = 0, round = 1; from < byteCount; from += HASH_BYTES, round++) {
    message[HASH_BYTES + info.length] = round;
    const hashed = shortHmac(extracted, round === 1 ? message.subarray(HASH_BYTES) : message);
    derived.set(hashed.subarray(0, byteCount - from), from);
    message.set(hashed);
  }
  inner.fill(0);
  outer.fill(0);
  return derived;
}

/** RFC 2104, of a key of at most one block and a short message. */
function shortHmac(key: Uint8Array, message: Uint8Array): Buffer {
  check(
    key.length <= BLOCK_BYTES && message.length <= MESSAGE_BYTES_MAX,
    "what a key is derived from is too long",
  );
  inner.fill(0x36, 0, BLOCK_BYTES);
  outer.fill(0x5c, 0, BLOCK_BYTES);
  // By their places: an iterator's pairs were a tenth of what an answer leaves to the garbage collector.
  for (let at = 0; at < key.length; at++) {
    const byte = key[at] ?? 0;
    inner[at] = byte ^ 0x36;
    outer[at] = byte ^ 0x5c;
  }
  inner.set(message, BLOCK_BYTES);
  // As text, which takes the hash half the time of a buffer.
  outer.write(
    hash("sha256", inner.subarray(0, BLOCK_BYTES + message.length), "binary"),
    BLOCK_BYTES,
    "latin1",
  );
  return Buffer.from(hash("sha256", outer, "binary"), "latin1");
}

/** As many as a start and some hundred incarnations need. */
const POOL_BYTES = 4_096;
const pool = new Uint8Array(POOL_BYTES);
let drawn = POOL_BYTES;

/** The platform's secure source, asked for many bytes at once: a call costs it ten times what a name needs. Each byte is given out once. */
export function pooledRandomBytes(byteCount: number): Uint8Array<ArrayBuffer> {
  if (byteCount > POOL_BYTES) return randomFillSync(new Uint8Array(byteCount));
  if (drawn + byteCount > POOL_BYTES) {
    randomFillSync(pool);
    drawn = 0;
  }
  const bytes = pool.slice(drawn, drawn + byteCount);
  pool.fill(0, drawn, drawn + byteCount);
  drawn += byteCount;
  return bytes;
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

/** What is short is hashed in one shot, as keys are derived. */
export function hmac(key: Uint8Array, head: Uint8Array, body: Uint8Array): Uint8Array {
  if (head.length + body.length > MESSAGE_BYTES_MAX)
    return createHmac("sha256", key).update(head).update(body).digest();
  const message = new Uint8Array(head.length + body.length);
  message.set(head);
  message.set(body, head.length);
  const digest = shortHmac(key, message);
  inner.fill(0);
  outer.fill(0);
  return digest;
}
