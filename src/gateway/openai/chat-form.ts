/**
 * Chat completions as a door: its chunks, and its object.
 */
import { endError } from "./answer.ts";
import { ChatChunks } from "./chat-chunks.ts";
import { AnswerCollector } from "./chat-completion.ts";
import type { AnswerForm } from "./door.ts";

export const CHAT_FORM: AnswerForm = {
  frames: (head, after) => new ChatChunks({ ...head, ...(after === undefined ? {} : { after }) }),
  collector: (head) => {
    const collector = new AnswerCollector();
    return { add: (delta) => collector.add(delta), completion: () => collector.completion(head) };
  },
  errorOf: endError,
};
