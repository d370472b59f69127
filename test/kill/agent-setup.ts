/**
 * What the killed client of an agent is told by its parent, and what it tells: one JSON text in the environment, and
 * messages between the two processes.
 */
import type { ChatMessage } from "../../src/protocol/chat-message.ts";

export interface AgentSetup {
  readonly url: string;
  readonly apiKey: string;
  readonly homeKey: string;
  /** Journals, blobs, conversations and the records of running commands. */
  readonly directory: string;
  readonly workspace: string;
  /** What is said, turn by turn; `%` stands for the number of the turn. */
  readonly prompt: string;
  /** How many turns; it stops earlier when it is told to finish. */
  readonly turns: number;
  /** Whether commands wait for a yes, which the parent gives. */
  readonly asks: boolean;
}

export type Told =
  /** A turn goes on, or begins. */
  | { readonly kind: "turn"; readonly idempotencyKey: string; readonly isResumed: boolean }
  /** The text so far of the turn under way. */
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "asked"; readonly execId: string }
  /** The result of an exec was written to a connection, so it is in the journal (A5). */
  | { readonly kind: "result"; readonly execId: string; readonly seqno: number; readonly body: string }
  | { readonly kind: "ended"; readonly reason: string; readonly why: string }
  /** All turns are over: the conversation as this client has it. */
  | { readonly kind: "over"; readonly messages: readonly ChatMessage[] }
  | { readonly kind: "bug"; readonly what: string };

/** What a parent says to its client. */
export type Order = "approve" | "finish";

const NAME = "HOLDFAST_AGENT_KILL_SETUP";

export function agentEnvironment(setup: AgentSetup): NodeJS.ProcessEnv {
  return { ...process.env, [NAME]: JSON.stringify(setup) };
}

export function readAgentSetup(): AgentSetup {
  const setup: unknown = JSON.parse(process.env[NAME] ?? "null");
  if (!isSetup(setup)) throw new Error("this program is started by the tests that kill it");
  return setup;
}

/** Written by our own parent. */
function isSetup(value: unknown): value is AgentSetup {
  return typeof value === "object" && value !== null && "prompt" in value;
}

/** Told by our own child. */
export function isTold(value: unknown): value is Told {
  return typeof value === "object" && value !== null && "kind" in value;
}
