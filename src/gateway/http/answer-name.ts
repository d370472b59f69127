/**
 * The name of one answer, by which its client returns to it: an opaque word in the path of `x-holdfast-resume`.
 *
 * The name has everything that a response repeats (where the answer begins in its stream, when it was created, its model, whether the usage was
 * asked for, its door), so nothing needs to be kept to understand it, and a resumed response is the same for as long as the stream is. It is no secret and gives
 * no access: whose stream it is is checked with each request (E2), and a client that alters a name alters only what it is itself shown.
 */
import { z } from "zod";
import { DOORS, GatewayError } from "../openai/index.ts";
import type { Answer, NamedAnswer } from "./answers.ts";

const COUNT = z.int().nonnegative();
const NAME = z.tuple([
  z.string().regex(/^[\w.:-]{1,128}$/),
  COUNT,
  COUNT,
  z.boolean(),
  z.string().max(512),
  z.enum(DOORS).optional(),
]);

const ANSWERS_PATH = "/v1/answers/";

/** The path whose `GET` continues this answer, and whose `DELETE` stops it. */
export function answerPath({ streamId, head }: Pick<Answer, "streamId" | "head">): string {
  const { fromEvent, createdS, includeUsage, model, door = "chat" } = head;
  const name: z.infer<typeof NAME> = [streamId, fromEvent, createdS, includeUsage, model];
  if (door !== "chat") name.push(door);
  return ANSWERS_PATH + Buffer.from(JSON.stringify(name)).toString("base64url");
}

/** Throws for what is no name of an answer. */
export function parseAnswerName(name: string): NamedAnswer {
  try {
    const [streamId, fromEvent, createdS, includeUsage, model, door = "chat"] = NAME.parse(
      JSON.parse(Buffer.from(name, "base64url").toString()),
    );
    return { streamId, head: { fromEvent, createdS, includeUsage, model, door } };
  } catch (cause) {
    throw new GatewayError({
      status: 404,
      type: "invalid_request_error",
      code: "not_found",
      message: "There is no such answer. Use the path that x-holdfast-resume of its response gives.",
      cause,
    });
  }
}
