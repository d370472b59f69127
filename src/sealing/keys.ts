/**
 * Which key is derived from which, and for what: the info strings of HKDF-SHA-256. Pure.
 *
 *     home key ── stream key (by idempotency key)
 *        │            ├── key check value           what the server stores (E1)
 *        │            ├── content MAC key           what tells equal chunks (A2)
 *        │            ├── secret names              of model calls that outlive the server (G6)
 *        │            └── sealing key               salt = incarnation, one per direction (E3)
 *        ├── conversation key (by principal and conversation id): the same again, for a conversation that the server keeps
 *        └── home sealing base ── sealing key       the same, for journals, blobs and tables
 *
 * Invariant: no two purposes share an info string. A name that comes from outside stands behind a
 * zero byte, which no purpose contains. Changing a string makes everything sealed before unreadable.
 */
import { LIMITS } from "../protocol/limits.ts";
import { check, encodeName, isCount, writeUint64 } from "./record.ts";
import type { ContentKind, SealedDirection } from "./sealer.ts";

/** Of every secret here: home keys, stream keys and all that is derived from them. */
export const KEY_BYTES = 32;
export const KEY_CHECK_BYTES = 32;
/** Two contents under one seqno agree by chance once in 2^128; the rest of the HMAC would only cost disk. */
export const CONTENT_MAC_BYTES = 16;

/** A name that only a holder of the stream key can say. */
export const SECRET_NAME_BYTES = 16;
const SECRET_NAME_TEXT_BYTES_MAX = 128;
/** Of a principal and a conversation id. */
const NAMES_BYTES_MAX = 512;

export const INFO_KEY_CHECK = encodeName("holdfast/v1/key-check");
export const INFO_CONTENT_MAC = /* @__PURE__ */ encodeName("holdfast/v1/content-mac");
export const INFO_HOME_SEALING = encodeName("holdfast/v1/home-sealing");

export function infoSealing(direction: SealedDirection): Uint8Array<ArrayBuffer> {
  return encodeName(`holdfast/v1/seal/${direction}`);
}

/** Only sealing keys are salted; the others must come out the same in every process. */
export const NO_SALT = new Uint8Array(0);

export function infoStreamKey(idempotencyKey: string): Uint8Array<ArrayBuffer> {
  return infoNamed("holdfast/v1/stream-key", idempotencyKey, LIMITS.idempotencyKeyBytesMax);
}

/** A principal has no zero byte, so two different pairs never make the same name. */
export function infoConversationKey(principal: string, conversationId: string): Uint8Array<ArrayBuffer> {
  check(!principal.includes("\0"), "a principal has no zero byte");
  return infoNamed("holdfast/v1/conversation-key", `${principal}\0${conversationId}`, NAMES_BYTES_MAX);
}

export function infoSecretName(text: string): Uint8Array<ArrayBuffer> {
  return infoNamed("holdfast/v1/secret-name", text, SECRET_NAME_TEXT_BYTES_MAX);
}

/** Bounded, because platforms bound the info string too (Node at 1,024 bytes). */
function infoNamed(purpose: string, name: string, bytesMax: number): Uint8Array<ArrayBuffer> {
  const info = encodeName(`${purpose}\0${name}`);
  check(name.length > 0, "a key is not derived from an empty name");
  check(info.length - purpose.length - 1 <= bytesMax, "a name to derive a key from is over its limit");
  return info;
}

export function checkKey(key: Uint8Array): void {
  check(key.length === KEY_BYTES, "a home key or stream key must be 32 bytes");
}

/** Part of the format: never renumber. */
const CONTENT_CODE: Readonly<Record<ContentKind, number>> = Object.freeze({ chunk: 1, close: 2 });

/** What the content MAC reads before the body; of fixed length, so no body can imitate it. */
export function contentMacHead(seqno: number, kind: ContentKind): Uint8Array<ArrayBuffer> {
  check(isCount(seqno), "a seqno must be whole and not negative");
  const head = new Uint8Array(9);
  head[0] = CONTENT_CODE[kind];
  writeUint64(head, 1, seqno);
  return head;
}

/** No early exit: the time depends on the length, which is public, and not on where the first difference is. */
export function equalConstantTime(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= (a[i] ?? 0) ^ (b[i] ?? 0);
  return difference === 0;
}
