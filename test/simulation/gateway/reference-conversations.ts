/**
 * Conversations that the database has lost, as the reference knows them.
 *
 * The gateway cannot know before a turn finds a part of its conversation missing. That turn fails, and the gateway forgets the conversation: from
 * then on its clients are answered from their own histories.
 */
import { type Clock, SLACK_MS } from "./reference-answers.ts";

export class LostConversations {
  /** By the world's clock: when a client was told of the failure; Infinity: not yet. */
  readonly #failedMs = new Map<string, number>();

  lose(conversationId: string): void {
    this.#failedMs.set(conversationId, Infinity);
  }

  /** An answer failed for want of it. */
  failed(conversationId: string, { steadyMs }: Clock): void {
    this.#failedMs.set(conversationId, Math.min(steadyMs, this.#failedMs.get(conversationId) ?? Infinity));
  }

  /** The process is dead: what it was about to forget may be there still. */
  killed(now: Clock): void {
    for (const id of this.#failedMs.keys()) if (!this.isForgotten(id, now)) this.lose(id);
  }

  isLost(conversationId: string): boolean {
    return this.#failedMs.has(conversationId);
  }

  isForgotten(conversationId: string, { steadyMs }: Clock): boolean {
    return steadyMs >= (this.#failedMs.get(conversationId) ?? Infinity) + SLACK_MS;
  }
}
