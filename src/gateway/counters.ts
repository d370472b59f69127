/**
 * What the gateway counts: how often it continued, began anew and why, attached, replayed, and gave up.
 */
import type { FreshReason } from "./matching.ts";

export interface GatewayCounters {
  /** Requests that continued an open turn, and those that continued a conversation. */
  continuedTurns: number;
  continuedConversations: number;
  readonly fresh: Map<FreshReason, number>;
  /** Retries that attached to the running answer, and that got a finished one again. */
  attached: number;
  replayed: number;
  /** Answers whose rest was read by another connection. */
  resumed: number;
  evicted: number;
  expired: number;
  /** Answers that no client read for the grace period. */
  abandoned: number;
}

export function newGatewayCounters(): GatewayCounters {
  return {
    continuedTurns: 0,
    continuedConversations: 0,
    fresh: new Map(),
    attached: 0,
    replayed: 0,
    resumed: 0,
    evicted: 0,
    expired: 0,
    abandoned: 0,
  };
}

/** As Prometheus reads them. */
export function gatewayMetrics(
  counters: GatewayCounters,
  parked: { readonly count: number; readonly bytes: number },
  generating: number,
): string {
  const lines = [
    "# HELP holdfast_gateway_requests_total Answers by how they came about.",
    "# TYPE holdfast_gateway_requests_total counter",
    `holdfast_gateway_requests_total{how="continued_turn"} ${counters.continuedTurns}`,
    `holdfast_gateway_requests_total{how="continued_conversation"} ${counters.continuedConversations}`,
    `holdfast_gateway_requests_total{how="attached"} ${counters.attached}`,
    `holdfast_gateway_requests_total{how="replayed"} ${counters.replayed}`,
    `holdfast_gateway_requests_total{how="resumed"} ${counters.resumed}`,
    ...[...counters.fresh].map(
      ([reason, count]) => `holdfast_gateway_requests_total{how="fresh",reason="${reason}"} ${count}`,
    ),
    "# HELP holdfast_gateway_sessions Sessions by what they do.",
    "# TYPE holdfast_gateway_sessions gauge",
    `holdfast_gateway_sessions{state="parked"} ${parked.count}`,
    `holdfast_gateway_sessions{state="generating"} ${generating}`,
    "# HELP holdfast_gateway_parked_bytes What the sessions that wait for tool results hold, about.",
    "# TYPE holdfast_gateway_parked_bytes gauge",
    `holdfast_gateway_parked_bytes ${parked.bytes}`,
    "# HELP holdfast_gateway_sessions_ended_total Sessions that ended without their client.",
    "# TYPE holdfast_gateway_sessions_ended_total counter",
    `holdfast_gateway_sessions_ended_total{why="evicted"} ${counters.evicted}`,
    `holdfast_gateway_sessions_ended_total{why="expired"} ${counters.expired}`,
    `holdfast_gateway_sessions_ended_total{why="abandoned"} ${counters.abandoned}`,
  ];
  return `${lines.join("\n")}\n`;
}
