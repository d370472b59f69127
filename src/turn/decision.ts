/**
 * What a turn does next: one of these, decided by `next.ts`, carried out by the driver in `src/agent`.
 */
import type { ChatMessage, ToolCallPart } from "../protocol/chat-message.ts";
import type { Failure, RunRequest, UserMessage } from "../protocol/messages.ts";
import type { ExecPlan, Question } from "./call-plan.ts";
import type { Draft, KeptBlob } from "./checkpoint.ts";
import type { ExecPiece } from "./exec-reply.ts";
import type { JoinAt } from "./join.ts";
import type { Run } from "./open-step.ts";
import type { CallResult } from "./tool-results.ts";

export type Ending =
  | { readonly reason: "completed" | "cancelled" }
  | { readonly reason: "failed"; readonly failure: Failure };

/** How an attempt of a step begins. */
type StepBegin =
  | { readonly how: "start" }
  /** Anew: what came after this event is rolled back. */
  | { readonly how: "restart"; readonly rollbackTo: number; readonly restart: number }
  /** The attempt that was cut off is read again from its first byte: its call is held. Nothing is rolled back. */
  | { readonly how: "attach"; readonly runs: readonly Run[]; readonly join: JoinAt | undefined }
  /** The same model writes on behind the text. What came after this event is rolled back, and no text is among it. */
  | {
      readonly how: "prefill";
      readonly join: JoinAt;
      readonly rollbackTo: number;
      readonly continuation: number;
    };

/** Which attempt of which step is to begin, or to continue. */
export interface StepPlace {
  readonly step: number;
  /** Attempts of the step before this one. */
  readonly attempt: number;
  readonly begin: StepBegin;
  /** Requests to providers that the tries before this one may have sent. */
  readonly requestsBefore: number;
  /** A run that died may have made this very call: it is counted on disk before it is made again (F1). */
  readonly isRepeated: boolean;
  readonly pauseMs: number;
  /** The one model that may answer, because it said what was shown for good; undefined: fallbacks may, too. */
  readonly onlyModel: string | undefined;
}

interface Prompt {
  readonly system: string;
  readonly messages: readonly ChatMessage[];
  readonly withTools: boolean;
  /** The bytes of all files that the messages name. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** A tool call whose result is known. */
export interface OverCall {
  readonly part: ToolCallPart;
  readonly execIds: readonly string[];
  readonly result: CallResult;
}

export type Decision =
  /** Something has to be heard first. */
  | { readonly kind: "wait" }
  /** Much was read at once: others get their turn, then this continues. */
  | { readonly kind: "yield" }
  /** Resolve the model and the tools that the request names. */
  | { readonly kind: "open"; readonly request: RunRequest }
  /** Look for bytes in the cache and beside the stream. */
  | { readonly kind: "fetch"; readonly blobIds: readonly string[] }
  /** Ask the client for bytes that are nowhere else. */
  | { readonly kind: "get"; readonly blobIds: readonly string[] }
  /** Ask the client to keep bytes, for a checkpoint if there is one; with an ending it is the turn's last. */
  | {
      readonly kind: "keep";
      readonly blobs: readonly KeptBlob[];
      readonly draft?: Draft;
      readonly ending?: Ending;
    }
  | { readonly kind: "publish"; readonly draft: Draft }
  /** Pass on what running execs have said, for the readers that do not run them. */
  | {
      readonly kind: "relay";
      readonly pieces: readonly {
        readonly execId: string;
        readonly toolCallId: string;
        readonly piece: ExecPiece;
      }[];
    }
  /** Tell the client to stop execs; each is still answered. */
  | { readonly kind: "stop"; readonly execIds: readonly string[] }
  | {
      readonly kind: "issue";
      readonly execs: readonly {
        readonly execId: string;
        readonly toolCallId: string;
        readonly plan: ExecPlan;
      }[];
    }
  | { readonly kind: "ask"; readonly toolCallId: string; readonly questions: readonly Question[] }
  | { readonly kind: "complete"; readonly calls: readonly OverCall[] }
  | { readonly kind: "append_user"; readonly message: UserMessage }
  | { readonly kind: "tell_summary"; readonly text: string }
  | { readonly kind: "run_command"; readonly place: StepPlace; readonly call: ToolCallPart }
  | { readonly kind: "call_model"; readonly place: StepPlace; readonly prompt: Prompt }
  | { readonly kind: "end"; readonly ending: Ending };

export const WAIT: Decision = { kind: "wait" };
