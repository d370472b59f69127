/**
 * Sealing over WebCrypto, for browsers: what a client seals, by promises. Byte for byte the same
 * records as those of `node.ts`.
 *
 * Whatever a caller hands over is copied, and its counter taken, before the first `await`: bytes that
 * change meanwhile are not sealed half, and two seals at the same time never share a nonce (E3).
 *
 * A home key may be a non-extractable CryptoKey (`importHomeKey`), which IndexedDB can keep: a script
 * in the page can then use it but not carry it away.
 */
import { KeyCache } from "./key-cache.ts";
import {
  checkKey,
  INFO_HOME_SEALING,
  INFO_KEY_CHECK,
  infoConversationKey,
  infoSealing,
  infoStreamKey,
  KEY_BYTES,
  KEY_CHECK_BYTES,
  NO_SALT,
} from "./keys.ts";
import {
  check,
  counterAfter,
  drawIncarnation,
  hasRecordShape,
  HEADER_BYTES,
  incarnationOf,
  labelEncoder,
  nonceOf,
  refused,
  SEALED_OVERHEAD_BYTES,
  writeHeader,
} from "./record.ts";
import type { SealedDirection, Sealer, Sealing, SealingOptions } from "./sealer.ts";
import { gcmOpen, gcmSeal, hkdf, importGcmKey, importHkdfKey, sha256, type WebKey } from "./web-crypto.ts";

export type { WebKey } from "./web-crypto.ts";

/** What a browser client keeps its home key as. The bytes may be thrown away afterwards. */
export async function importHomeKey(bytes: Uint8Array): Promise<WebKey> {
  checkKey(bytes);
  return importHkdfKey(new Uint8Array(bytes));
}

export function webSealing(options: SealingOptions = {}): Sealing<Uint8Array | WebKey> {
  const randomBytes = options.randomBytes ?? secureRandomBytes;
  return {
    homeSealer: (homeKey) => {
      const key = hkdfKey(homeKey);
      const base = once(async () =>
        importHkdfKey(await hkdf(await key(), NO_SALT, INFO_HOME_SEALING, KEY_BYTES)),
      );
      return createSealer(base, drawIncarnation(randomBytes));
    },
    keyCheck: async (streamKey) => hkdf(await hkdfKey(streamKey)(), NO_SALT, INFO_KEY_CHECK, KEY_CHECK_BYTES),
    deriveStreamKey: async (homeKey, idempotencyKey) =>
      hkdf(await hkdfKey(homeKey)(), NO_SALT, infoStreamKey(idempotencyKey), KEY_BYTES),
    deriveConversationKey: async (homeKey, principal, conversationId) =>
      hkdf(await hkdfKey(homeKey)(), NO_SALT, infoConversationKey(principal, conversationId), KEY_BYTES),
    sha256,
  };
}

function secureRandomBytes(n: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(n));
}

/** Checked and copied now, imported at the first use: an unused sealer leaves no promise behind. */
function hkdfKey(key: Uint8Array | WebKey): () => Promise<WebKey> {
  if (key instanceof Uint8Array) {
    checkKey(key);
    const kept = new Uint8Array(key);
    return once(() => importHkdfKey(kept));
  }
  check(
    key.algorithm.name === "HKDF" && key.usages.includes("deriveBits"),
    "a home key must be an HKDF key that may derive bits",
  );
  return () => Promise.resolve(key);
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}

function createSealer(base: () => Promise<WebKey>, incarnation: Uint8Array): Sealer {
  const keys = new KeyCache(async (salt, direction) => {
    const bytes = await hkdf(await base(), salt, infoSealing(direction), KEY_BYTES);
    return importGcmKey(bytes);
  });
  const counters = new Map<SealedDirection, number>();
  const encodeLabel = labelEncoder();

  return {
    async seal(label, plaintext) {
      const aad = new Uint8Array(encodeLabel(label));
      const counter = counters.get(label.direction) ?? 0;
      counters.set(label.direction, counterAfter(counter));
      const record = new Uint8Array(SEALED_OVERHEAD_BYTES + plaintext.length);
      writeHeader(record, incarnation, counter);
      const kept = new Uint8Array(plaintext);
      const key = await keys.get(incarnation, label.direction);
      record.set(await gcmSeal(key, nonceOf(record), aad, kept), HEADER_BYTES);
      return record;
    },
    async open(label, sealed) {
      const aad = new Uint8Array(encodeLabel(label));
      if (!hasRecordShape(sealed)) throw refused(label);
      const nonce = nonceOf(sealed);
      const kept = new Uint8Array(sealed.subarray(HEADER_BYTES));
      const key = await keys.get(incarnationOf(sealed), label.direction);
      try {
        return await gcmOpen(key, nonce, aad, kept);
      } catch (cause) {
        throw refused(label, cause);
      }
    },
  };
}
