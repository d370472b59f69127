/**
 * What the turn runner asks of a model, whichever provider serves it.
 *
 * A call is a stream of parts and ends with exactly one `finish`, or by throwing a `ModelFailure`. It keeps nothing
 * between calls: everything that the model is to know is in the prompt, so a restarted process can continue.
 */
import type { ChatMessage, JsonObject } from "../protocol/chat-message.ts";
import type { StepOptions } from "../protocol/messages.ts";
import type { Ways } from "../turn/found.ts";
import type { Usage } from "../turn/usage.ts";

export type { Usage } from "../turn/usage.ts";

export interface ModelTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: JsonObject;
  readonly strict: boolean;
}

export interface ModelCall {
  readonly system: string;
  /** The whole history. The next call's begins with the same messages, so that prompt caches stay warm. */
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ModelTool[];
  /** Absent means the model's defaults. */
  readonly options: StepOptions | undefined;
  /** The bytes of a file part. */
  readonly file: (blobId: string) => Promise<Uint8Array>;
  /** Some providers keep their prompt caches by it. */
  readonly conversationId: string;
  readonly signal: AbortSignal;
  /** Absent: only the model's own bounds hold. */
  readonly requests?: RequestBudget;
  /** The one model that may answer, because it said what was shown of the step; absent: fallbacks may, too. */
  readonly onlyModel?: string;
  /** Names the n-th request of this attempt, the same after a kill. Absent: no request outlives this process. */
  readonly nameOf?: (request: number) => string;
  /** Which of the hosts of the stream asks: a later one fences those before it (D1). */
  readonly hostEpoch?: number;
  /** The stream that it is for; with `nameOf`. */
  readonly stream?: { readonly principal: string; readonly idempotencyKey: string };
  /** The beginning of the answer, which the model is to write on behind; only for one that `waysOf` says may. */
  readonly prefill?: string;
  /**
   * `attach`: only a request that is still held may answer, and nothing new is sent. `fresh`: no run before this one can have sent it, so nothing is
   * looked for. Default: `begin`, what is held or else a new one.
   */
  readonly mode?: "fresh" | "begin" | "attach";
  /** With `attach`: the log has all that was said so far, so what comes next may be known already. */
  readonly isLogged?: () => boolean;
}

/** How often a call may ask its provider, and how long it may wait in between. */
export interface RequestBudget {
  /** Before each request, which leaves when this resolves. Throws a `ModelFailure` when there may be none. */
  take(): Promise<void>;
  /** Whether a pause of this length before the next request may be waited for. */
  mayWait(pauseMs: number): boolean;
}

/**
 * `unproved`: nothing but what the model did before says that it continues the text. `unjoined`: it does not. `refused`: it said so. `left`: a crash cut the attempt
 * before off, and nothing here can read or end its call.
 */
export type Continued = "replay" | "restart" | "prefill" | "unproved" | "unjoined" | "refused" | "left";

export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter" | "error";

export type ModelPart =
  /** Another model answers than the one that was called; before anything that it says. */
  | { readonly kind: "fallback"; readonly model: string }
  | { readonly kind: "text"; readonly text: string }
  /** The text so far is a whole; what follows is another one. Optional: `finish` ends everything. */
  | { readonly kind: "text_end"; readonly metadata?: JsonObject }
  | { readonly kind: "thinking"; readonly text: string }
  | { readonly kind: "thinking_end"; readonly metadata?: JsonObject }
  /** A tool call is being written; for display. */
  | {
      readonly kind: "tool_call_delta";
      readonly toolCallId: string;
      readonly tool: string;
      readonly args: string;
    }
  /** A tool call is complete: its end was said. `args` is JSON text as the model wrote it; it may be wrong. */
  | {
      readonly kind: "tool_call";
      readonly toolCallId: string;
      readonly tool: string;
      readonly args: string;
      readonly metadata?: JsonObject;
    }
  | {
      readonly kind: "finish";
      readonly reason: FinishReason;
      readonly usage: Usage;
      /** The stop text that ended it, where the provider says so. */
      readonly stopSequence?: string;
    };

export interface Model {
  /** `provider/model`. */
  readonly id: string;
  /** How much it can read; undefined when it is not known. */
  readonly contextTokensMax: number | undefined;
  /** Its calls may outlive this process, or it says them again word by word: after a kill the turn asks it to attach. Absent: it is never asked to. */
  readonly holdsCalls?: boolean;
  call(call: ModelCall): AsyncIterable<ModelPart>;
  /** What may be done about an answer that broke off, of this model or a fallback of it. Absent: its step begins anew. */
  waysOf?(modelId: string, options: StepOptions | undefined): Ways;
  /** What was done about it: counted, and remembered. */
  noteContinued?(modelId: string, how: Continued, stream?: ModelCall["stream"]): void;
  /** The answer of this call is on disk, or of no use: what is held of its requests is no longer needed. */
  done?(call: Pick<ModelCall, "nameOf" | "hostEpoch">): void;
}

export interface ModelInfo {
  readonly id: string;
  readonly provider: string;
  readonly isDefault: boolean;
  readonly contextTokensMax: number | undefined;
}

export interface Models {
  /** Empty = the default one. Throws a `ModelFailure` that says which names there are. */
  resolve(name: string): Model;
  list(): readonly ModelInfo[];
}

/** What went wrong with a provider, closed, so that no code reads messages to find out. */
export type ModelFailureKind =
  | "invalid_request"
  | "model_not_found"
  | "rate_limited"
  | "unavailable"
  | "unauthenticated"
  | "context_too_long"
  | "content_filtered"
  /** Asked to attach only, and no request of the attempt is held. Before any part. */
  | "not_held";

export class ModelFailure extends Error {
  readonly kind: ModelFailureKind;
  /** The provider's HTTP status; 0 = none. */
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  /** The same request may well succeed in a moment. */
  readonly isPassing: boolean;

  constructor(
    kind: ModelFailureKind,
    message: string,
    {
      status = 0,
      retryAfterMs,
      isPassing = false,
      cause,
    }: { status?: number; retryAfterMs?: number | undefined; isPassing?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.name = "ModelFailure";
    this.kind = kind;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.isPassing = isPassing;
  }
}
