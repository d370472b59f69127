/**
 * What a client says about an exec: pieces while it runs, then one terminal reply.
 */
import type { ExecClientMessage } from "../protocol/messages.ts";

/** How an exec ended, as the client told it. */
export type ExecReply =
  | { readonly kind: "reply"; readonly reply: ExecClientMessage }
  /** The client could make nothing of the request. */
  | { readonly kind: "throw"; readonly error: string };

/** Something that a running exec has said. */
export type Partial =
  | { readonly kind: "stdout" | "stderr"; readonly bytes: Uint8Array }
  | { readonly kind: "progress"; readonly text: string };

export function isTerminal({ message }: ExecClientMessage): boolean {
  if (message.case === undefined) return true;
  const { result } = message.value;
  return result.case !== "started" && result.case !== "output" && result.case !== "progress";
}

/** Undefined for what has nothing to pass on. */
export function partialOf({ message }: ExecClientMessage): Partial | undefined {
  if (message.case === "shellStreamResult" && message.value.result.case === "output") {
    const { output } = message.value.result.value;
    return output.case === undefined ? undefined : { kind: output.case, bytes: output.value };
  }
  if (message.case === "subagentResult" && message.value.result.case === "progress") {
    return { kind: "progress", text: message.value.result.value.text };
  }
  return undefined;
}
