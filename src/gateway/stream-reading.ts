/**
 * What a session makes of the events of its stream, from the first one on: the answer as far as it goes, and the conversation's last checkpoint.
 *
 * Begins anew with each attach: a stream that is read back says everything again.
 */
import type { AgentServerMessage, ConversationState } from "../protocol/messages.ts";
import { type AnswerDelta, initAnswer, neededBlob, project } from "./openai/index.ts";
import { encodedCheckpoint } from "./session-record.ts";

interface Heard {
  readonly eventId: number;
  readonly message: AgentServerMessage;
  readonly blob: Uint8Array | undefined;
}

interface Learned {
  readonly deltas: readonly AnswerDelta[];
  /** The event changed something of the answer. */
  readonly isNews: boolean;
}

export class StreamReading {
  #projection = initAnswer();
  #checkpoint: ConversationState | undefined;

  /** The turn has said its last word. */
  get isOver(): boolean {
    return this.#projection.isOver;
  }

  /** The conversation as the turn left it, encoded; undefined while the turn has left none. */
  get checkpoint(): string | undefined {
    return this.#checkpoint && encodedCheckpoint(this.#checkpoint);
  }

  /** The blob without which the message cannot be heard. */
  blobFor(message: AgentServerMessage): string | undefined {
    return neededBlob(this.#projection, message);
  }

  hear({ eventId, message, blob }: Heard): Learned {
    if (message.message.case === "conversationCheckpointUpdate") this.#checkpoint = message.message.value;
    const before = this.#projection;
    const [after, deltas] = project(before, eventId, message, blob);
    const isRestarted = deltas.some(({ kind }) => kind === "restarted");
    // Nothing counts as shown here: each reader knows for itself what it has.
    this.#projection = isRestarted ? { ...after, shown: { text: "", reasoning: "" }, owed: "" } : after;
    return { deltas, isNews: after !== before || deltas.length > 0 };
  }
}
