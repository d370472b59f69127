/** What a response came to, by the events of its answer. */
import { named } from "./answer-log.ts";
import type { AnswerRef } from "./answer-ref.ts";
import type { Names } from "./names.ts";
import { type AnswerEvent, projectRange } from "./openai/index.ts";
import { ResponseCollector, type ResponseEnd } from "./responses/index.ts";

/** Undefined when the answer has no end. */
export function endedResponse(
  events: readonly AnswerEvent[],
  { responseId: id, createdSeconds: createdS, model, streamId }: AnswerRef,
  { names, principal }: { readonly names: Names; readonly principal: string },
): ResponseEnd | undefined {
  const collector = new ResponseCollector({ id, createdS, model });
  for (const delta of projectRange(events).deltas)
    collector.add(named(delta, names, { principal, streamId }));
  return collector.end;
}
