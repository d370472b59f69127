/**
 * Which session a request belongs to, if any.
 *
 * A tool call id or a lineage is how a session is looked for; that it is the right one is verified: the same model, system
 * prompt and tools, and a history that says the same as the session has said and heard (`openai/lineage.ts` says which differences do not count). Nothing is changed by looking. Whatever
 * is doubtful is no match, and becomes a stream of its own.
 */
import {
  type AnswerRequest,
  type Door,
  type Lineage,
  type LineMessage,
  type SaidLine,
  splitRequest,
  systemHash,
  toolsHash,
  type ToolLine,
} from "./openai/index.ts";
import type { PendingCall, SessionRecord } from "./session-record.ts";

/** Why a request got a stream of its own; counted. */
export type FreshReason =
  | "new"
  | "reuse_off"
  | "unknown_lineage"
  | "unknown_tool_ids"
  | "partly_answered"
  | "diverged"
  | "not_waiting"
  | "busy"
  | "long_turn"
  | "lost";

export type Match =
  | {
      readonly kind: "results";
      readonly session: SessionRecord;
      readonly results: readonly (readonly [PendingCall, ToolLine])[];
      /** Said behind the results. */
      readonly said: readonly SaidLine[];
    }
  | { readonly kind: "next_turn"; readonly session: SessionRecord; readonly messages: readonly LineMessage[] }
  | { readonly kind: "fresh"; readonly reason: FreshReason };

export interface Facts {
  readonly principal: string;
  readonly model: string;
  /** Of system prompt and tools. */
  readonly context: string;
  readonly lineage: Lineage;
  readonly request: AnswerRequest;
}

/** Where sessions are looked for. */
export interface SessionLookup {
  byTool(principal: string, toolId: string): Promise<SessionRecord | undefined>;
  byLineage(
    principal: string,
    model: string,
    context: string,
    head: string,
  ): Promise<SessionRecord | undefined>;
}

/** Sessions of different doors have nothing in common. */
export function contextOf(request: AnswerRequest, door: Door = "chat"): string {
  const context = `${systemHash(request.system)} ${toolsHash(request.tools)}`;
  return door === "chat" ? context : `${door} ${context}`;
}

export async function matchRequest(sessions: SessionLookup, facts: Facts): Promise<Match> {
  const { history, results, said } = splitRequest(facts.request.messages);
  if (history.length === 0) return { kind: "fresh", reason: "new" };
  return results.length > 0
    ? matchResults(sessions, facts, { results, said })
    : matchMessage(sessions, facts, said);
}

interface Tail {
  readonly results: readonly ToolLine[];
  readonly said: readonly SaidLine[];
}

async function matchResults(sessions: SessionLookup, facts: Facts, { results, said }: Tail): Promise<Match> {
  const session = await sessions.byTool(facts.principal, results[0]?.toolCallId ?? "");
  if (session === undefined) return { kind: "fresh", reason: "unknown_tool_ids" };
  if (session.state !== "parked") return { kind: "fresh", reason: "not_waiting" };
  const answered = resultsOf(session.pending, results);
  const ids = new Set(results.map(({ toolCallId }) => toolCallId));
  const isExact =
    answered.length === session.pending.length && ids.size === results.length && ids.size === answered.length;
  if (!isExact) return { kind: "fresh", reason: "partly_answered" };
  if (!isSame(session, facts)) return { kind: "fresh", reason: "diverged" };
  return { kind: "results", session, results: answered, said };
}

/** Each call with its result, as far as there is one. */
export function resultsOf(
  calls: readonly PendingCall[],
  results: readonly ToolLine[],
): readonly (readonly [PendingCall, ToolLine])[] {
  const lines = new Map(results.map((line) => [line.toolCallId, line]));
  return calls.flatMap((call): readonly (readonly [PendingCall, ToolLine])[] => {
    const line = lines.get(call.toolId);
    return line === undefined ? [] : [[call, line]];
  });
}

async function matchMessage(
  sessions: SessionLookup,
  facts: Facts,
  said: readonly SaidLine[],
): Promise<Match> {
  const { principal, model, context, lineage } = facts;
  const session = await sessions.byLineage(principal, model, context, lineage.seen);
  if (session === undefined || said.length === 0) return { kind: "fresh", reason: "unknown_lineage" };
  // A session that has continued from there belongs to another request.
  if (session.state !== "finished") return { kind: "fresh", reason: "not_waiting" };
  if (!isSame(session, facts)) return { kind: "fresh", reason: "diverged" };
  return { kind: "next_turn", session, messages: said };
}

function isSame(session: SessionRecord, { model, context, lineage }: Facts): boolean {
  return session.model === model && session.context === context && session.head === lineage.seen;
}
