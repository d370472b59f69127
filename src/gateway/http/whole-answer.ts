/**
 * An answer as one JSON object, when it is complete.
 *
 * Nothing is sent before: a failure, however late, is an HTTP status.
 */
import { lostAnswer } from "./response-progress.ts";
import type { StreamedAnswer } from "./streamed-answer.ts";

/** Rejects with the failure, for a status. */
export async function collectAnswer({ call, answer, form, progress }: StreamedAnswer): Promise<object> {
  const collector = form.collector(answer.head);
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
      return collector.completion();
    }
  } finally {
    deltas.return?.().catch(() => undefined);
  }
}
