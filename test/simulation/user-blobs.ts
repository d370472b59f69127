/**
 * What a user keeps of conversations, and answers when the server asks: blobs, checkpoints, questions.
 *
 * It belongs to the user and not to a device: nothing of it is lost in a crash. Each answer is said when what it promises is so.
 */
import { fromBinary } from "../../src/protocol/message.ts";
import {
  AgentServerMessageSchema,
  type ConversationState,
  type KvServerMessage,
} from "../../src/protocol/messages.ts";
import { encodeSaid } from "./agent-messages.ts";

export class UserBlobs {
  readonly #blobs = new Map<string, Uint8Array>();
  /** The last checkpoint of each stream. */
  readonly #states = new Map<string, ConversationState>();

  /** Takes an event in; bytes when the server wants an answer to it. */
  answer(idempotencyKey: string, body: Uint8Array): Uint8Array | undefined {
    const { message } = fromBinary(AgentServerMessageSchema, body);
    switch (message.case) {
      case "kvServerMessage":
        return this.#answerKv(message.value);
      case "conversationCheckpointUpdate":
        this.#states.set(idempotencyKey, message.value);
        return undefined;
      case "interactionQuery": {
        const { id } = message.value;
        const answers = [{ questionId: "1", text: "the first" }];
        const response = { case: "askQuestion", value: { answers } } as const;
        return encodeSaid({ case: "interactionResponse", value: { id, response } });
      }
      default:
        return undefined;
    }
  }

  /** Of the newest of these streams that has one. */
  lastState(isMeant: (idempotencyKey: string) => boolean): ConversationState | undefined {
    return [...this.#states].findLast(([key]) => isMeant(key))?.[1];
  }

  #answerKv({ id, message }: KvServerMessage): Uint8Array | undefined {
    switch (message.case) {
      case "setBlobArgs": {
        const { blobId, blobData } = message.value;
        if (blobData !== undefined) this.#blobs.set(Buffer.from(blobId).toString("hex"), blobData);
        return encodeSaid({
          case: "kvClientMessage",
          value: { id, message: { case: "setBlobResult", value: {} } },
        });
      }
      case "getBlobArgs": {
        const blobData = this.#blobs.get(Buffer.from(message.value.blobId).toString("hex"));
        const value = blobData === undefined ? { notFound: true } : { blobData };
        return encodeSaid({
          case: "kvClientMessage",
          value: { id, message: { case: "getBlobResult", value } },
        });
      }
      case undefined:
        return undefined;
    }
  }
}
