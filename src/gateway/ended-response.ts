/** What a response came to, by the events of its answer. */
import type { TableWrite } from "../store/table-store.ts";
import { named } from "./answer-log.ts";
import type { AnswerMemory } from "./answer-memory.ts";
import type { AnswerRef } from "./answer-ref.ts";
import type { KeptResponses } from "./kept-responses.ts";
import type { Names } from "./names.ts";
import { type AnswerEvent, projectRange } from "./openai/index.ts";
import { ResponseCollector, type ResponseEnd } from "./responses/index.ts";
import type { SessionRecord } from "./session-record.ts";

interface EndParts {
  readonly kept: Pick<KeptResponses, "ended">;
  readonly names: Names;
  readonly closing: AbortSignal;
}

/** A response that clients ask for by its id is complete on the disk, with its session, before one of them can have its end. */
export async function endWrites(
  memory: AnswerMemory,
  { answer, principal }: SessionRecord,
  { kept, names, closing }: EndParts,
): Promise<readonly TableWrite[]> {
  if (answer.door !== "responses") return [];
  const events = await Array.fromAsync(memory.events(answer.fromEvent, closing));
  const end = endedResponse(events, answer, { names, principal });
  return end === undefined ? [] : kept.ended(principal, answer.responseId, end);
}

/** Undefined when the answer has no end. */
function endedResponse(
  events: readonly AnswerEvent[],
  { responseId: id, createdSeconds: createdS, model, streamId }: AnswerRef,
  { names, principal }: { readonly names: Names; readonly principal: string },
): ResponseEnd | undefined {
  const collector = new ResponseCollector({ id, createdS, model });
  for (const delta of projectRange(events).deltas)
    collector.add(named(delta, names, { principal, streamId }));
  return collector.end;
}
