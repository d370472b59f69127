/**
 * Anthropic's Messages as a door: its events, and its object.
 */
import { hash } from "node:crypto";
import {
  type AnswerDelta,
  type AnswerForm,
  type AnswerHead,
  type Collector,
  GatewayError,
} from "../openai/index.ts";
import { MessageBlocks } from "./message-blocks.ts";
import { MessageEvents } from "./message-events.ts";
import { messageError, messageObject } from "./message-object.ts";

/** The same seed (the stream and where the answer begins in it) gives the same id. */
export function messageIdOf(seed: string): string {
  return `msg_${hash("sha256", seed).slice(0, 32)}`;
}

export const MESSAGE_FORM: AnswerForm = {
  frames: (head, after) => new MessageEvents(head, after),
  collector: (head) => new MessageCollector(head),
  errorOf: messageError,
};

/** A message in one piece. Nothing was shown while it was collected, so a step that said something else is no trouble. */
class MessageCollector implements Collector {
  readonly #head: AnswerHead;
  readonly #blocks = new MessageBlocks();
  #hasDiverged = false;
  #last: AnswerDelta | undefined;

  constructor(head: AnswerHead) {
    this.#head = head;
  }

  add(delta: AnswerDelta): void {
    const isEnd = delta.kind === "calls" || delta.kind === "ended";
    this.#hasDiverged ||= delta.kind === "diverged";
    // The end has all of the words.
    if (isEnd && this.#hasDiverged) this.#blocks.replace(delta.said);
    this.#blocks.add(delta);
    this.#last = delta;
  }

  completion(): object {
    const last = this.#last;
    const error = last === undefined ? undefined : messageError(last);
    if (error !== undefined) throw error;
    if (last?.kind === "calls" || last?.kind === "ended")
      return messageObject(this.#head, last.model ?? this.#head.model, this.#blocks.blocks, last);
    const message = "the answer broke off; send the request again";
    throw new GatewayError({ status: 503, type: "server_error", message });
  }
}
