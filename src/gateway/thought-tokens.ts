/**
 * Signed thoughts in the hands of clients: sealed, and opened again.
 *
 * A provider signs its reasoning and wants it back as it was. A client gets a token for it, in whatever place its door has, and sends it back with the
 * history; so the thought survives the session that it came from. The token has the thought itself in it, with its text: what a client makes of
 * the text that it was shown does not matter. It opens for the principal that it was given to, and for no other.
 *
 * Invariant: one thought has one token, for every reader of the answer and in every process: the nonce follows from what is sealed, and the key from the name of its stream,
 * which says under which home key it began.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { z } from "zod";
import { assert } from "../protocol/assert.ts";
import { isJsonObject, type JsonObject } from "../protocol/chat-message.ts";
import { keyNumberOf } from "../protocol/key-number.ts";
import type { OpenedThought } from "./openai/index.ts";
import type { SignedThought } from "../turn/answer-delta.ts";

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 1;
/** The version, the nonce and the tag. */
const HEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;

const SEALED = z.tuple([z.string(), z.string(), z.string(), z.number()]);

interface TokenKeys {
  readonly key: KeyObject;
  readonly nonceKey: KeyObject;
}

export class ThoughtTokens {
  /** By the number of the home key. */
  readonly #keys = new Map<number, TokenKeys>();

  /** `secrets`: 32 bytes each that outlive the process, by the number of the home key. */
  constructor(secrets: ReadonlyMap<number, Uint8Array>) {
    for (const [number, secret] of secrets)
      this.#keys.set(number, {
        key: derived(secret, "holdfast thought token"),
        nonceKey: derived(secret, "holdfast thought nonce"),
      });
  }

  seal(principal: string, streamId: string, thought: SignedThought): string {
    const keys = this.#keys.get(keyNumberOf(streamId));
    // Its stream could not be read.
    assert(keys !== undefined, "a thought of a stream whose home key was dropped");
    const { text, metadataJson, step, attempt } = thought;
    const plain = Buffer.from(JSON.stringify([text, metadataJson, `${streamId}/${step}`, attempt]));
    const nonce = createHmac("sha256", keys.nonceKey)
      .update(JSON.stringify([principal]))
      .update(plain)
      .digest()
      .subarray(0, NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, keys.key, nonce).setAAD(Buffer.from(principal));
    const sealed = [cipher.update(plain), cipher.final()];
    return Buffer.concat([Uint8Array.of(VERSION), nonce, cipher.getAuthTag(), ...sealed]).toString("base64");
  }

  /** Undefined for what was not given to this principal here. */
  open(principal: string, token: string): OpenedThought | undefined {
    const bytes = Buffer.from(token, "base64");
    if (bytes.length < HEAD_BYTES || bytes[0] !== VERSION) return undefined;
    for (const { key } of this.#keys.values()) {
      const opened = openUnder(key, principal, bytes);
      if (opened !== undefined) return opened;
    }
    return undefined;
  }
}

function openUnder(key: KeyObject, principal: string, bytes: Buffer): OpenedThought | undefined {
  const nonce = bytes.subarray(1, 1 + NONCE_BYTES);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(principal)).setAuthTag(bytes.subarray(1 + NONCE_BYTES, HEAD_BYTES));
  try {
    const plain = Buffer.concat([decipher.update(bytes.subarray(HEAD_BYTES)), decipher.final()]);
    const [text, metadataJson, origin, attempt] = SEALED.parse(JSON.parse(plain.toString()));
    return { text, metadata: objectOf(metadataJson), origin, attempt };
  } catch {
    // A forged one, or one of another key: the thought is left out.
    return undefined;
  }
}

function objectOf(json: string): JsonObject {
  const value: unknown = JSON.parse(json);
  if (!isJsonObject(value)) throw new TypeError("metadata is an object");
  return value;
}

function derived(secret: Uint8Array, purpose: string): KeyObject {
  return createSecretKey(new Uint8Array(hkdfSync("sha256", secret, "", purpose, KEY_BYTES)));
}
