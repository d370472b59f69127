/**
 * What an answer is made of: the part of a turn from a request to the next pause, or to the turn's end.
 *
 * Deltas are the same for every dialect and for every reader: live answers, retries that attach, replays, and resumed ones. They
 * come from `answer.ts`.
 */
import type { Failure } from "../protocol/messages.ts";
import type { Usage } from "./usage.ts";

/** What the model said in this answer, without what was rolled back. */
export interface Said {
  readonly text: string;
  readonly reasoning: string;
}

/** A tool call that the client is to carry out. */
export interface AnswerCall {
  readonly execId: string;
  /** The exec's short number. */
  readonly id: number;
  readonly providerToolCallId: string;
  readonly tool: string;
  /** JSON text as the model wrote it. */
  readonly args: string;
  /** The id that the client sees: the provider's, until the session puts its own in this place. */
  readonly callId: string;
}

/** A thought that its provider has signed: what has to go back to the provider for it. */
export interface SignedThought {
  readonly text: string;
  /** The provider's, unread. */
  readonly metadataJson: string;
  /** The step that it belongs to, and which attempt at it: a later attempt takes the place of an earlier one. */
  readonly step: number;
  readonly attempt: number;
}

export type Finish = "stop" | "length" | "tool_calls" | "content_filter";

interface Placed {
  /** The event that it comes from. */
  readonly eventId: number;
  /** True for the last delta of its event: a reader that has it has all of the event. */
  readonly endsEvent: boolean;
  /** The model that says it, when a fallback does. */
  readonly model?: string;
}

export type AnswerDelta = Placed & DeltaBody;

export type DeltaBody =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "reasoning"; readonly text: string }
  /** The thought so far is whole, and signed. Its text came in `reasoning` deltas; there may be none that can be shown. */
  | {
      readonly kind: "thought";
      readonly thought: SignedThought;
      /** What the client is given for it; empty until the gateway has sealed it. */
      readonly token: string;
    }
  /** The pause: all tool calls of a step were asked for, and the answer ends with them. */
  | {
      readonly kind: "calls";
      readonly calls: readonly AnswerCall[];
      readonly step: number;
      readonly usage: Usage;
      readonly said: Said;
    }
  /** The step began anew; what was shown of it still holds. */
  | { readonly kind: "restarted" }
  /**
   * What the step says now is not what was shown of it before. Of this answer only `calls` or `ended` follows: for the
   * session, which continues, and for a reader that has shown nothing yet.
   */
  | { readonly kind: "diverged" }
  | {
      readonly kind: "ended";
      readonly reason: "completed" | "aborted" | "failed";
      /** Undefined: the answer did not come to a good end, and `endError` says why. */
      readonly finish: Finish | undefined;
      readonly failure: Failure | undefined;
      readonly usage: Usage;
      readonly said: Said;
      /** The stop text that ended it, where the provider says so. */
      readonly stopSequence?: string;
    };
