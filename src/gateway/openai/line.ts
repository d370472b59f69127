/**
 * The messages of a request, read and checked, before the gateway decides what becomes of them.
 *
 * The same shape for every dialect of clients: the lineage is computed from it, and the history of a fresh stream is
 * made from it. The system prompt is not among the messages; it is compared apart. (The line that holds model calls is `src/agent/models/line`.)
 */
import type { JsonObject } from "../../protocol/chat-message.ts";

export type LineMessage = SystemLine | UserLine | AssistantLine | ToolLine;

/** Instructions behind the first message of the conversation. */
export interface SystemLine {
  readonly role: "system";
  readonly name?: string;
  readonly parts: readonly LineText[];
}

export interface UserLine {
  readonly role: "user";
  /** For providers that have a word for it; no part of the lineage. */
  readonly name?: string;
  readonly parts: readonly LinePart[];
}

export interface AssistantLine {
  readonly role: "assistant";
  readonly name?: string;
  /** Of its text; as a part's. */
  readonly cacheControl?: JsonObject;
  readonly text: string;
  /** What it thought, as far as nothing stands for it in `thoughts`; for models that sign no thoughts. */
  readonly reasoning: string;
  /** What the client was given for signed thoughts, in order; absent = none. Whether they are worth something is found out when a prompt is made of them. */
  readonly thoughts?: readonly LineThought[];
  readonly toolCalls: readonly LineCall[];
}

export interface LineThought {
  /** Of `src/gateway/thought-tokens.ts`; or anything that a client says is one. */
  readonly token: string;
  /** How much of `text` was said before it, in characters. */
  readonly at: number;
}

/** A thought that this principal was given. */
export interface OpenedThought {
  readonly text: string;
  readonly metadata: JsonObject;
  /** Names the stream and the step. */
  readonly origin: string;
  /** Of a step that began anew only the last one counts. */
  readonly attempt: number;
}

/** Undefined for a token that is none, or another principal's. */
export type OpenThought = (token: string) => OpenedThought | undefined;

export interface ToolLine {
  readonly role: "tool";
  readonly toolCallId: string;
  readonly text: string;
  readonly files: readonly LineFile[];
  /** The tool failed; of doors that have a word for it. No part of the lineage. */
  readonly isError?: boolean;
}

export interface LineCall {
  /** As the client says it: ours, or what some client made of it. */
  readonly id: string;
  readonly name: string;
  /** JSON text, as far as it is valid. */
  readonly args: string;
}

export type LinePart = LineText | LineFile;

/** What the client wants its provider to know of a part; no part of the lineage. */
interface PartWishes {
  readonly detail?: string;
  readonly cacheControl?: JsonObject;
}

export interface LineText extends Pick<PartWishes, "cacheControl"> {
  readonly type: "text";
  readonly text: string;
}

export type LineFile = PartWishes &
  (
    | {
        readonly type: "file";
        readonly mediaType: string;
        readonly fileName?: string;
        readonly bytes: Uint8Array;
      }
    /** Fetched by the provider, never by us. */
    | { readonly type: "file"; readonly mediaType: string; readonly url: string }
  );
