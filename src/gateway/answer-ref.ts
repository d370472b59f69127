/**
 * Which answer of which stream: what a response is made of, however often it is given.
 *
 * A stream has one answer for each request of its turn, one behind the other. So the event that an answer begins after names it among
 * them, and everything else that each response must repeat is kept with it.
 */
import { z } from "zod";
import type { Answer, AnswerSource } from "./http/answers.ts";
import { type AnswerDelta, type AnswerHead, completionId, type Door, DOORS } from "./openai/index.ts";
import { messageIdOf } from "./messages/index.ts";
import { responseIdOf } from "./responses/index.ts";
import type { Delivered } from "./retries.ts";

export const ANSWER = z.object({
  /** Of the OpenAI response; the same at every replay. */
  responseId: z.string(),
  createdSeconds: z.number(),
  /** The answer is what the stream says after this event, up to a pause or the end. */
  fromEvent: z.number(),
  streamId: z.string(),
  model: z.string(),
  /** Its client asked for the usage. */
  includeUsage: z.boolean().default(false),
  /** The form that its client knows it in. */
  door: z.enum(DOORS).default("chat"),
});

export type AnswerRef = z.infer<typeof ANSWER>;

export function answerRef(
  {
    streamId,
    model,
    fromEvent,
    includeUsage,
    door = "chat",
  }: Pick<AnswerRef, "streamId" | "model" | "fromEvent" | "includeUsage"> & { readonly door?: Door },
  nowMs: number,
): AnswerRef {
  const seed = `${streamId} ${fromEvent}`;
  const responseId = ID_OF[door](seed);
  const createdSeconds = Math.floor(nowMs / 1_000);
  return { streamId, model, fromEvent, includeUsage, responseId, createdSeconds, door };
}

const ID_OF: Readonly<Record<Door, (seed: string) => string>> = {
  chat: completionId,
  responses: responseIdOf,
  messages: messageIdOf,
};

/** A response with this answer; it reports to `end` what becomes of it. */
export function responseOf(
  answer: AnswerRef,
  source: AnswerSource,
  deltas: AsyncIterableIterator<AnswerDelta>,
  end: Delivered,
): Answer {
  const delivered = (isWhole: boolean): void => {
    void deltas.return?.();
    end.delivered(isWhole);
  };
  const { streamId } = answer;
  return { streamId, source, head: headOf(answer), deltas, delivered, arrived: end.arrived };
}

function headOf(answer: AnswerRef): AnswerHead {
  const { responseId: id, createdSeconds: createdS, model, includeUsage, fromEvent, door } = answer;
  return { id, createdS, model, includeUsage, fromEvent, door };
}
