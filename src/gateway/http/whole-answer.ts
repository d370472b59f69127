/**
 * An answer as one JSON object, when it is complete.
 *
 * Nothing is sent before: a failure, however late, is an HTTP status.
 */
import { AnswerCollector } from "../openai/index.ts";
import type { Answer } from "./answers.ts";
import type { HttpCall } from "./http-call.ts";
import { lostAnswer, type ResponseProgress } from "./response-progress.ts";

/** Rejects with the failure, for a status. */
export async function collectAnswer(
  call: HttpCall,
  answer: Answer,
  progress: ResponseProgress,
): Promise<object> {
  const collector = new AnswerCollector();
  const deltas = answer.deltas[Symbol.asyncIterator]();
  try {
    for (;;) {
      const result = await call.wait(deltas.next());
      if (result.done === true) throw lostAnswer();
      const { value } = result;
      collector.add(value);
      if (value.kind !== "calls" && value.kind !== "ended") continue;
      // Whatever it ended with is what the client gets.
      progress.isComplete = true;
      return collector.completion(answer.head);
    }
  } finally {
    deltas.return?.().catch(() => undefined);
  }
}
