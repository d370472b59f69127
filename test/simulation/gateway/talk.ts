/**
 * A conversation as a simulated client has it, and the requests that it sends for it.
 */
import {
  CHAT_HASH,
  hashRequest,
  MESSAGES_HASH,
  RESPONSES_HASH,
} from "../../../src/gateway/http/request-hash.ts";
import type { Door } from "../../../src/gateway/openai/index.ts";
import type { SimBody, SimCall, SimContext, SimMessage } from "./messages.ts";

/** A conversation as its client has it: it ends with what the model said. */
export interface Talk extends SimContext {
  readonly model: string;
  readonly messages: readonly SimMessage[];
  readonly pending: readonly SimCall[];
  readonly streamId: string;
  /** The request that was answered last. */
  readonly last: Sent;
}

export interface Sent {
  readonly body: SimBody;
  readonly json: Readonly<Record<string, unknown>>;
  readonly hash: string;
  readonly key: string | undefined;
}

export const CONTEXTS: readonly [SimContext, ...SimContext[]] = [
  { door: "chat", system: "", tools: ["look", "turn"] },
  { door: "chat", system: "Be brief.", tools: ["look", "turn"] },
  { door: "chat", system: "Be brief.", tools: [] },
];

const RULES = { chat: CHAT_HASH, responses: RESPONSES_HASH, messages: MESSAGES_HASH };

export function resultsOf(pending: readonly SimCall[], marker: string): readonly SimMessage[] {
  return pending.map(({ id }, at) => ({ role: "tool", id, text: `${marker} result ${at}` }));
}

export function stolenResults({ pending }: Talk, marker: string): readonly SimMessage[] {
  return pending.map(({ id }) => ({ role: "tool", id, text: `${marker} stolen` }));
}

/** The newest request that these messages have words of. */
export function newestIn(messages: readonly SimMessage[]): number {
  const numbers = JSON.stringify(messages).matchAll(/\bm(\d+)\b/g);
  return Math.max(...numbers.map(([, number]) => Number(number)));
}

export function hashOf(json: unknown, door: Door): string {
  const slices = hashRequest(json, RULES[door]);
  for (;;) {
    const { done, value } = slices.next();
    if (done === true) return value;
  }
}
