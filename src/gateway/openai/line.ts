/**
 * The messages of a request, read and checked, before anybody decides what becomes of them.
 *
 * The same shape for every dialect of clients: the lineage is computed from it, and the history of a fresh stream is
 * made from it. The system prompt is not among the messages; it is compared apart.
 */
export type LineMessage = UserLine | AssistantLine | ToolLine;

export interface UserLine {
  readonly role: "user";
  readonly parts: readonly LinePart[];
}

export interface AssistantLine {
  readonly role: "assistant";
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly LineCall[];
}

export interface ToolLine {
  readonly role: "tool";
  readonly toolCallId: string;
  readonly text: string;
  readonly files: readonly LineFile[];
}

export interface LineCall {
  /** As the client says it: ours, or what some client made of it. */
  readonly id: string;
  readonly name: string;
  /** JSON text, as far as it is valid. */
  readonly args: string;
}

export type LinePart = { readonly type: "text"; readonly text: string } | LineFile;

export type LineFile =
  | {
      readonly type: "file";
      readonly mediaType: string;
      readonly fileName?: string;
      readonly bytes: Uint8Array;
    }
  /** Fetched by the provider, never by us. */
  | { readonly type: "file"; readonly mediaType: string; readonly url: string };
