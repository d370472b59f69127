/**
 * Names that tell nothing: of rows in the gateway's tables, and of tool calls towards clients.
 *
 * All are keyed hashes. A plain hash of a prompt in a table would let a reader of the disk try out prompts (E4); a
 * tool call id that meant something could be forged. Tool call ids follow from the stream and the exec, so a replay has the same
 * ones and no table of them is needed.
 */
import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import type { Environment } from "../transport/environment.ts";
import { ThoughtTokens } from "./thought-tokens.ts";

/** Nine letters and digits are what every known client gives back unchanged. */
const TOOL_ID_CHARS = 9;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Of a row's key. */
export const NAME_CHARS = 64;

/** Of a conversation, a session or a stream. */
export function newId({ randomBytes }: Pick<Environment, "randomBytes">): string {
  return Buffer.from(randomBytes(16)).toString("hex");
}

export class Names {
  /** Five times as fast as with the bytes. */
  readonly #secret: KeyObject;
  /** What clients are given for signed thoughts. */
  readonly thoughts: ThoughtTokens;

  /** `secret`: 32 bytes that outlive the process. */
  constructor(secret: Uint8Array) {
    this.#secret = createSecretKey(secret);
    this.thoughts = new ThoughtTokens(secret);
  }

  /** The key of a row; the parts cannot run into each other. */
  row(kind: string, ...parts: readonly string[]): string {
    return createHmac("sha256", this.#secret)
      .update(JSON.stringify([kind, ...parts]))
      .digest("hex");
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
