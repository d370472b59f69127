/**
 * What happens in a turn, as small values: the one thing that the transcript prints and `--json` writes.
 *
 * A message of the protocol becomes at most one of them; what this version does not know becomes nothing.
 * Texts are as they came: whoever prints them makes them safe.
 */
import { outcomeOf } from "../../turn/tool-view.ts";
import {
  type Content,
  type FailureKind,
  FailureKindSchema,
  type InteractionUpdate,
  type ShellOutputDeltaUpdate,
  type ToolCall,
  type TurnEndedUpdate,
  TurnEndReason,
} from "../../protocol/messages.ts";

export type Outcome = "done" | "failed" | "denied" | "aborted" | "unknown";

export interface Usage {
  /** Without what came from the cache. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Part of `outputTokens`. */
  readonly reasoningTokens: number;
}

export interface Todo {
  readonly text: string;
  readonly status: "pending" | "in_progress" | "completed" | "cancelled";
}

export interface TurnFailure {
  /** A word of a closed list, for example `rate_limited`. */
  readonly kind: string;
  readonly message: string;
  readonly retryAfterMs: number | undefined;
}

export type Happening =
  | { readonly kind: "user"; readonly text: string }
  | { readonly kind: "step_started"; readonly step: number; readonly model: string }
  | { readonly kind: "step_restarted"; readonly step: number; readonly attempt: number }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "thinking"; readonly text: string }
  | { readonly kind: "thinking_done"; readonly durationMs: number }
  | { readonly kind: "tool_writing"; readonly toolCallId: string; readonly tool: string }
  | {
      readonly kind: "tool_started";
      readonly toolCallId: string;
      readonly tool: string;
      readonly args: string;
      readonly execIds: readonly string[];
    }
  /** Of a running command; bytes are not text yet. */
  | {
      readonly kind: "output";
      readonly execId: string;
      readonly bytes: Uint8Array;
      readonly stream: "stdout" | "stderr";
    }
  | { readonly kind: "progress"; readonly toolCallId: string; readonly text: string }
  | {
      readonly kind: "tool_ended";
      readonly toolCallId: string;
      readonly tool: string;
      readonly outcome: Outcome;
      readonly result: string;
    }
  | { readonly kind: "summary"; readonly text: string }
  | { readonly kind: "todos"; readonly items: readonly Todo[] }
  | {
      readonly kind: "ended";
      readonly reason: "completed" | "aborted" | "failed";
      readonly failure: TurnFailure | undefined;
      readonly usage: Usage;
    };

/** Undefined for what people are not shown. */
export function happeningOf({ message }: InteractionUpdate): Happening | undefined {
  switch (message.case) {
    case "textDelta":
      return { kind: "text", text: message.value.text };
    case "thinkingDelta":
      return { kind: "thinking", text: message.value.text };
    case "thinkingCompleted":
      return { kind: "thinking_done", durationMs: message.value.durationMs };
    case "userMessageAppended":
      return { kind: "user", text: message.value.userMessage?.text ?? "" };
    case "partialToolCall":
      return { kind: "tool_writing", toolCallId: message.value.toolCallId, tool: message.value.tool };
    case "toolCallStarted":
      return message.value.toolCall === undefined ? undefined : started(message.value.toolCall);
    case "toolCallCompleted":
      return message.value.toolCall === undefined ? undefined : ended(message.value.toolCall);
    case "toolCallDelta":
      return { kind: "progress", toolCallId: message.value.toolCallId, text: message.value.text };
    case "shellOutputDelta":
      return output(message.value);
    case "summary":
      return { kind: "summary", text: message.value.text };
    case "stepStarted":
      return { kind: "step_started", step: message.value.step, model: message.value.model };
    case "stepRestarted":
      return { kind: "step_restarted", step: message.value.step, attempt: message.value.attempt };
    case "turnEnded":
      return turnEnded(message.value);
    case "stepCompleted":
    case "tokenDelta":
    case "heartbeat":
    case undefined:
      return undefined;
  }
}

function started({ toolCallId, tool, argsJson, execIds }: ToolCall): Happening {
  return { kind: "tool_started", toolCallId, tool, args: textOf(argsJson), execIds };
}

function ended({ toolCallId, tool, outcome, result }: ToolCall): Happening {
  return {
    kind: "tool_ended",
    toolCallId,
    tool,
    outcome: outcomeOf(outcome, "over") ?? "unknown",
    result: textOf(result),
  };
}

function output({ execId, output: piece }: ShellOutputDeltaUpdate): Happening | undefined {
  if (piece.case === undefined) return undefined;
  return { kind: "output", execId, bytes: piece.value, stream: piece.case };
}

export function textOf(content: Content | undefined): string {
  const { content: held } = content ?? {};
  if (held?.case === "inline") return new TextDecoder().decode(held.value);
  return held?.case === "blobId" ? `(${content?.sizeBytes ?? 0} bytes)` : "";
}

function turnEnded(turn: TurnEndedUpdate): Happening {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens } = turn;
  const { failure } = turn;
  const usage = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens };
  return {
    kind: "ended",
    reason: reasonOf(turn.reason),
    failure:
      failure === undefined
        ? undefined
        : { kind: failureWord(failure.kind), message: failure.message, retryAfterMs: failure.retryAfterMs },
    usage,
  };
}

function reasonOf(reason: TurnEndReason): "completed" | "aborted" | "failed" {
  if (reason === TurnEndReason.ABORTED) return "aborted";
  return reason === TurnEndReason.FAILED ? "failed" : "completed";
}

/** As in the contract, in small letters and without the prefix. */
export function failureWord(kind: FailureKind): string {
  const name = FailureKindSchema.value[kind]?.name.replace(/^FAILURE_KIND_/, "").toLowerCase();
  return name === undefined || name === "unspecified" ? "internal" : name;
}
