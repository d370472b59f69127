/**
 * What a client says about an exec: pieces while it runs, then one terminal reply.
 */
import { firstChars } from "../protocol/characters.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { ExecClientMessage } from "../protocol/messages.ts";

/** How an exec ended, as the client reported it. */
export type ExecReply =
  | { readonly kind: "reply"; readonly reply: ExecClientMessage }
  /** The client could make nothing of the request. */
  | { readonly kind: "throw"; readonly error: string };

/** Something that a running exec has said. */
export type ExecPiece =
  | { readonly kind: "stdout" | "stderr"; readonly bytes: Uint8Array }
  | { readonly kind: "progress"; readonly text: string };

export function isTerminal({ message }: ExecClientMessage): boolean {
  if (message.case === undefined) return true;
  const { result } = message.value;
  return result.case !== "started" && result.case !== "output" && result.case !== "progress";
}

/** A line for people. */
const PROGRESS_CHARS_MAX = 4_000;

/** In pieces that an event can hold; none for what has nothing to pass on. */
export function piecesOf({ message }: ExecClientMessage): readonly ExecPiece[] {
  if (message.case === "shellStreamResult" && message.value.result.case === "output") {
    const { case: kind, value: bytes } = message.value.result.value.output;
    if (kind === undefined) return [];
    const pieces: ExecPiece[] = [];
    for (let at = 0; at < bytes.length; at += LIMITS.inlineBytesMax) {
      pieces.push({ kind, bytes: bytes.subarray(at, at + LIMITS.inlineBytesMax) });
    }
    return pieces;
  }
  const isProgressing = message.case === "subagentResult" || message.case === "mcpResult";
  if (isProgressing && message.value.result.case === "progress") {
    const { text } = message.value.result.value;
    return [{ kind: "progress", text: firstChars(text, PROGRESS_CHARS_MAX) }];
  }
  return [];
}
