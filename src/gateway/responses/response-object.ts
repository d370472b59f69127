/**
 * The object of a response: what its request asked for, and how far it is.
 */
import type { AnswerDelta } from "../../turn/answer-delta.ts";
import { type AnswerHead, endError } from "../openai/index.ts";
import type { JsonObject } from "../../protocol/chat-message.ts";
import type { OutputItem } from "./response-output.ts";
import { responseUsage } from "./response-usage.ts";

export const STATUSES = ["in_progress", "completed", "incomplete", "failed", "cancelled"] as const;

/** What the end of the answer decides. */
export interface ResponseEnd {
  readonly status: (typeof STATUSES)[number];
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly incomplete_details: { readonly reason: string } | null;
  /** The one that answered. */
  readonly model: string;
  readonly output: readonly JsonObject[];
  readonly usage: JsonObject | null;
}

export function underWay(model: string): ResponseEnd {
  return { status: "in_progress", error: null, incomplete_details: null, model, output: [], usage: null };
}

type Pause = Extract<AnswerDelta, { kind: "calls" | "ended" }>;

export function endOf(delta: Pause, model: string, output: readonly OutputItem[]): ResponseEnd {
  const reason = delta.kind === "calls" ? undefined : REASONS[delta.finish ?? "stop"];
  const error = endError(delta);
  const isStopped = delta.kind === "ended" && delta.reason === "aborted";
  const failed = isStopped ? "cancelled" : "failed";
  return {
    status: error !== undefined ? failed : reason === undefined ? "completed" : "incomplete",
    error:
      error === undefined || isStopped ? null : { code: error.code ?? error.type, message: error.message },
    incomplete_details: reason === undefined ? null : { reason },
    model: delta.model ?? model,
    output: [...output],
    usage: responseUsage(delta.usage),
  };
}

const REASONS: Readonly<Record<string, string | undefined>> = {
  length: "max_output_tokens",
  content_filter: "content_filter",
};

/** `asked`: the members that repeat the request. */
export function responseObject(
  { id, createdS }: Pick<AnswerHead, "id" | "createdS">,
  asked: JsonObject,
  end: ResponseEnd,
): object {
  return { id, object: "response", created_at: createdS, ...asked, ...end };
}
