/**
 * Which session a request belongs to, if any.
 *
 * A tool call id or a lineage is how a session is looked for; that it is the right one is verified: the same model, system
 * prompt and tools, and a history that is exactly what the session has said and heard. Nothing is changed by looking. Whatever
 * is doubtful is no match, and becomes a stream of its own.
 */
import {
  chainOf,
  type ChatRequest,
  type LineMessage,
  splitRequest,
  systemHash,
  toolsHash,
  type ToolLine,
  type UserLine,
} from "./openai/index.ts";
import type { PendingCall, SessionRecord } from "./session-record.ts";
import type { SessionStore } from "./session-store.ts";

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
      readonly said: UserLine | undefined;
    }
  | { readonly kind: "next_turn"; readonly session: SessionRecord; readonly messages: readonly LineMessage[] }
  | { readonly kind: "fresh"; readonly reason: FreshReason };

export interface Facts {
  readonly principal: string;
  readonly model: string;
  /** Of system prompt and tools. */
  readonly context: string;
  readonly request: ChatRequest;
}

export function contextOf(request: ChatRequest): string {
  return `${systemHash(request.system)} ${toolsHash(request.tools)}`;
}

export async function matchRequest(store: SessionStore, facts: Facts): Promise<Match> {
  const { history, results, said } = splitRequest(facts.request.messages);
  if (history.length === 0) return { kind: "fresh", reason: "new" };
  const head = chainOf(history);
  return results.length > 0
    ? matchResults(store, facts, { head, results, said })
    : matchMessage(store, facts, { head, said });
}

interface Tail {
  readonly head: string;
  readonly results: readonly ToolLine[];
  readonly said: UserLine | undefined;
}

async function matchResults(
  store: SessionStore,
  facts: Facts,
  { head, results, said }: Tail,
): Promise<Match> {
  const { principal } = facts;
  const sessionId = await store.byTool(principal, results[0]?.toolCallId ?? "");
  const session = sessionId === undefined ? undefined : await store.get(principal, sessionId);
  if (session === undefined) return { kind: "fresh", reason: "unknown_tool_ids" };
  if (session.state !== "parked") return { kind: "fresh", reason: "not_waiting" };
  const lines = new Map(results.map((line) => [line.toolCallId, line]));
  const answered = session.pending.flatMap((call): readonly (readonly [PendingCall, ToolLine])[] => {
    const line = lines.get(call.toolId);
    return line === undefined ? [] : [[call, line]];
  });
  const isExact =
    answered.length === session.pending.length &&
    lines.size === results.length &&
    lines.size === answered.length;
  if (!isExact) return { kind: "fresh", reason: "partly_answered" };
  if (!isSame(session, facts, head)) return { kind: "fresh", reason: "diverged" };
  return { kind: "results", session, results: answered, said };
}

async function matchMessage(
  store: SessionStore,
  facts: Facts,
  { head, said }: Pick<Tail, "head" | "said">,
): Promise<Match> {
  const { principal, model, context } = facts;
  const sessionId = await store.byLineage(principal, model, context, head);
  const session = sessionId === undefined ? undefined : await store.get(principal, sessionId);
  if (session === undefined || said === undefined) return { kind: "fresh", reason: "unknown_lineage" };
  // A session that went on from there is another one's past.
  if (session.state !== "finished") return { kind: "fresh", reason: "not_waiting" };
  if (!isSame(session, facts, head)) return { kind: "fresh", reason: "diverged" };
  return { kind: "next_turn", session, messages: [said] };
}

function isSame(session: SessionRecord, { model, context }: Facts, head: string): boolean {
  return session.model === model && session.context === context && session.head === head;
}
