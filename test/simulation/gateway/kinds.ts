/**
 * What a campaign of the gateway's seeds must have met, or it proved less than it seems to: every kind of request, what requests got, and
 * everything that went wrong.
 */
import { TURN_KINDS } from "../world/index.ts";

const ASKED = [
  "again",
  "again_twice",
  "by_messages",
  "by_responses",
  "copied_body",
  "cut",
  "earlier_talk",
  "edited",
  "events",
  "events_again",
  "events_foreign",
  "given_up",
  "huge",
  "in_session",
  "key_of_another",
  "late",
  "new",
  "next_message",
  "other_context",
  "other_door",
  "other_model",
  "results",
  "results_doubled",
  "results_foreign",
  "results_missing",
  "results_reordered",
  "results_two_ways",
  "results_with_words",
  "retry",
  "retry_earlier",
  "retry_keyed",
  "retry_left",
  "stolen_body",
  "stolen_history",
  "stop",
  "stop_broken",
  "stop_elsewhere",
  "stop_foreign",
  "stop_retry",
  "stop_under_way",
  "twice_at_once",
];

const GOT = [
  "answer",
  "attached",
  "events.answer",
  "events.refused.not_found",
  "events.refused.other_answer",
  "fresh",
  "ghost",
  "next",
  "refused.idempotency_key_reused",
  "refused.model_not_found",
  "refused.open_streams_limit",
  "refused.request_too_large",
  "replayed",
  "results",
];

const SOMETIMES = [
  "abandoned",
  "aborted",
  "diverged",
  "evicted",
  "expired",
  "failed",
  "failed_broken",
  "failed_conversation_lost",
  "failed_refused",
  "step_restarted",
  "woken",
];

const PROVIDER = [
  "continued",
  ...["nothing", "thinking", "text", "tool_call", "finish"].map((part) => `broken_behind_${part}`),
  ...[400, 401, 429, 503].map((status) => `refused_${status}`),
];

const FAULTS = [
  "closed",
  "conversation_lost",
  "stream_lost",
  "unanswered_write_kept",
  "unanswered_write_lost",
];

/** How much of the log a start keeps in memory: all that there is, as what ships does, a part of it, or nothing. */
export const LOG_ENDS = ["log_kept", "log_end_kept", "from_rows"] as const;
export type LogEnd = (typeof LOG_ENDS)[number];

export const GATEWAY_KINDS: readonly string[] = [
  ...ASKED.map((kind) => `gateway.asked.${kind}`),
  ...GOT.map((kind) => `gateway.got.${kind}`),
  ...SOMETIMES.map((kind) => `gateway.sometimes.${kind}`),
  ...PROVIDER.map((kind) => `gateway.provider.${kind}`),
  ...FAULTS.map((kind) => `gateway.fault.${kind}`),
  ...LOG_ENDS.map((kind) => `gateway.restarted.${kind}`),
  ...TURN_KINDS,
  "process.clock_jump",
  "process.crash",
  ...["disk.append", "disk.read", "disk.sync", "timer"].flatMap((kind) => [
    `crash.before.${kind}`,
    `crash.after.${kind}`,
  ]),
];
