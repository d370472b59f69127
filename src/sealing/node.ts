/**
 * Sealing on Node: synchronous, so that a group commit can seal without giving up its turn.
 *
 * All state lives in closures: printing a sealer shows two functions and no key (E4).
 *
 * Invariant: a sealer has one incarnation from its own draw and one counter per direction (E3). It
 * cannot be copied, stored or given a counter, so there is no way to use a nonce again.
 */
import { hash, type KeyObject, timingSafeEqual } from "node:crypto";
import { KeyCache } from "./key-cache.ts";
import {
  checkKey,
  CONTENT_MAC_BYTES,
  contentMacHead,
  INFO_CONTENT_MAC,
  INFO_HOME_SEALING,
  INFO_KEY_CHECK,
  infoConversationKey,
  infoSealing,
  infoSecretName,
  infoStreamKey,
  KEY_BYTES,
  KEY_CHECK_BYTES,
  NO_SALT,
  SECRET_NAME_BYTES,
} from "./keys.ts";
import { gcmOpen, gcmSealInto, hkdf, hmac, pooledRandomBytes, secretKey } from "./node-crypto.ts";
import {
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
import type { SealedDirection, SealingOptions, SyncSealer, SyncSealing } from "./sealer.ts";

export function nodeSealing(options: SealingOptions = {}): SyncSealing {
  const randomBytes = options.randomBytes ?? pooledRandomBytes;
  return {
    sealer: (streamKey) => createSealer(new Uint8Array(checked(streamKey)), drawIncarnation(randomBytes)),
    homeSealer: (homeKey) => {
      const base = hkdf(checked(homeKey), NO_SALT, INFO_HOME_SEALING, KEY_BYTES);
      return createSealer(base, drawIncarnation(randomBytes));
    },
    keyCheck: (streamKey) => hkdf(checked(streamKey), NO_SALT, INFO_KEY_CHECK, KEY_CHECK_BYTES),
    contentMac: (streamKey) => {
      const key = hkdf(checked(streamKey), NO_SALT, INFO_CONTENT_MAC, KEY_BYTES);
      return (seqno, kind, body) =>
        new Uint8Array(hmac(key, contentMacHead(seqno, kind), body).subarray(0, CONTENT_MAC_BYTES));
    },
    deriveStreamKey: (homeKey, idempotencyKey) =>
      hkdf(checked(homeKey), NO_SALT, infoStreamKey(idempotencyKey), KEY_BYTES),
    deriveConversationKey: (homeKey, principal, conversationId) =>
      hkdf(checked(homeKey), NO_SALT, infoConversationKey(principal, conversationId), KEY_BYTES),
    secretName: (streamKey, text) =>
      hkdf(checked(streamKey), NO_SALT, infoSecretName(text), SECRET_NAME_BYTES),
    sha256: (bytes) => hash("sha256", bytes, "buffer"),
    equal: (a, b) => a.length === b.length && timingSafeEqual(a, b),
  };
}

function checked(key: Uint8Array): Uint8Array {
  checkKey(key);
  return key;
}

/** From Node's pool, unfilled, since every byte is written: a third of a small seal's time was a fresh ArrayBuffer. */
function allocate(bytes: number): Uint8Array {
  const pooled = Buffer.allocUnsafe(bytes);
  return new Uint8Array(pooled.buffer, pooled.byteOffset, bytes);
}

/** The own incarnation's key of one direction, and the counter of its next seal. */
interface Lane {
  readonly key: KeyObject;
  next: number;
}

function createSealer(base: Uint8Array, incarnation: Uint8Array): SyncSealer {
  const keys = new KeyCache((salt, direction) =>
    secretKey(hkdf(base, salt, infoSealing(direction), KEY_BYTES)),
  );
  const lanes = new Map<SealedDirection, Lane>();
  const encodeLabel = labelEncoder();

  function laneOf(direction: SealedDirection): Lane {
    const known = lanes.get(direction);
    if (known !== undefined) return known;
    const lane = { key: keys.get(incarnation, direction), next: 0 };
    lanes.set(direction, lane);
    return lane;
  }

  return {
    seal(label, plaintext) {
      const aad = encodeLabel(label);
      const lane = laneOf(label.direction);
      const counter = lane.next;
      lane.next = counterAfter(counter);
      const record = allocate(SEALED_OVERHEAD_BYTES + plaintext.length);
      writeHeader(record, incarnation, counter);
      gcmSealInto(lane.key, nonceOf(record), aad, plaintext, record, HEADER_BYTES);
      return record;
    },
    open(label, sealed) {
      const aad = encodeLabel(label);
      if (!hasRecordShape(sealed)) throw refused(label);
      const key = keys.get(incarnationOf(sealed), label.direction);
      try {
        return gcmOpen(key, nonceOf(sealed), aad, sealed.subarray(HEADER_BYTES));
      } catch (cause) {
        throw refused(label, cause);
      }
    },
  };
}
