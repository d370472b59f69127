/**
 * Names that tell nothing: of rows in the gateway's tables, of streams, and of tool calls towards clients.
 *
 * All are keyed hashes. A plain hash of a prompt in a table would let a reader of the disk try out prompts (E4); a
 * tool call id that meant something could be forged. Tool call ids follow from the stream and the exec, so a replay has the same
 * ones and no table of them is needed. A stream's name begins with the names of its request, so that a retry knows it.
 */
import { createHmac, createSecretKey, hash, type KeyObject } from "node:crypto";
import { keyNumberOf, numberedName } from "../protocol/key-number.ts";
import type { Environment } from "../transport/environment.ts";
import { ThoughtTokens } from "./thought-tokens.ts";

/** Nine letters and digits are what every known client gives back unchanged. */
const TOOL_ID_CHARS = 9;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Of a row's key. */
export const NAME_CHARS = 64;

/** Of SHA-256. */
const BLOCK_BYTES = 64;
const HASH_BYTES = 32;
const ROW_BYTES_MAX = 4_096;

/** Of a session. */
export function newId({ randomBytes }: Pick<Environment, "randomBytes">): string {
  return Buffer.from(randomBytes(16)).toString("hex");
}

/** Row names of a request. */
export interface RequestNames {
  /** Of its Idempotency-Key; without one, of its body. */
  readonly asker: string;
  readonly body: string;
}

/** Each part is whole letters of base64. */
const ASKER_BYTES = 9;
const BODY_BYTES = 6;
const DRAWN_BYTES = 9;

/** Says which request the stream is for and under which home key, and tells its generations apart by a number that is drawn. */
export function streamName(
  request: RequestNames,
  { randomBytes }: Pick<Environment, "randomBytes">,
  keyNumber: number,
): string {
  const drawn = Buffer.from(randomBytes(DRAWN_BYTES)).toString("base64url");
  return numberedName(requestPart(request) + drawn, keyNumber);
}

/** True when the stream is for a request with this Idempotency-Key and this body; without a key, with this body. */
export function sameRequest(streamId: string, request: RequestNames): boolean {
  return streamId.startsWith(requestPart(request));
}

/** True when the stream is for a request with this Idempotency-Key, by the name of its row. */
export function sameAsker(streamId: string, asker: string): boolean {
  return streamId.startsWith(lettersOf(asker.slice(0, 2 * ASKER_BYTES)));
}

function requestPart({ asker, body }: RequestNames): string {
  return lettersOf(asker.slice(0, 2 * ASKER_BYTES) + body.slice(0, 2 * BODY_BYTES));
}

function lettersOf(digits: string): string {
  return Buffer.from(digits, "hex").toString("base64url");
}

export class Names {
  /** Five times as fast as with the bytes. */
  readonly #secret: KeyObject;
  /** HMAC written out (RFC 2104) for names of a usual length, of which an answer has a dozen: the platform makes three objects for each. Written over by each call. */
  readonly #inner: Buffer;
  readonly #outer: Buffer;
  /** What clients are given for signed thoughts. */
  readonly thoughts: ThoughtTokens;

  /** `secret`: 32 bytes that outlive the process. `thoughts`: what thoughts are sealed under, by the number of the home key. */
  constructor(secret: Uint8Array, thoughts: ReadonlyMap<number, Uint8Array> = new Map([[0, secret]])) {
    this.#secret = createSecretKey(secret);
    this.#inner = Buffer.alloc(ROW_BYTES_MAX, 0x36);
    this.#outer = Buffer.alloc(BLOCK_BYTES + HASH_BYTES, 0x5c);
    for (const [at, byte] of secret.entries()) {
      this.#inner[at] = byte ^ 0x36;
      this.#outer[at] = byte ^ 0x5c;
    }
    this.thoughts = new ThoughtTokens(thoughts);
  }

  /** The key of a row, by its kind and what names it; the parts cannot run into each other. */
  row(...parts: readonly string[]): string {
    const text = JSON.stringify(parts);
    // A character has at most three bytes for each unit of its text.
    if (BLOCK_BYTES + 3 * text.length > this.#inner.length)
      return createHmac("sha256", this.#secret).update(text).digest("hex");
    const end = BLOCK_BYTES + this.#inner.write(text, BLOCK_BYTES);
    this.#outer.write(hash("sha256", this.#inner.subarray(0, end), "binary"), BLOCK_BYTES, "latin1");
    return hash("sha256", this.#outer, "hex");
  }

  /** Of a conversation that begins with this stream. */
  conversation(streamId: string): string {
    return numberedName(this.row("conversation", streamId).slice(0, NAME_CHARS / 2), keyNumberOf(streamId));
  }

  toolId(streamId: string, execId: string): string {
    const digest = createHmac("sha256", this.#secret)
      .update(JSON.stringify(["tool id", streamId, execId]))
      .digest();
    let rest = digest.readBigUInt64BE(0);
    let id = "";
    for (let at = 0; at < TOOL_ID_CHARS; at++) {
      id += ALPHABET[Number(rest % BigInt(ALPHABET.length))];
      rest /= BigInt(ALPHABET.length);
    }
    return id;
  }
}
