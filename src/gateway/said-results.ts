/**
 * Tool results on their way into a stream, and once more when a process may have died with them.
 *
 * The session is durable before its results are. After a crash in between, only the retry has them; it is the same request to the byte,
 * so what it says again is what was said. The server takes one result for each exec, and one message for each id, and ignores a second (A8).
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { AnswerRef } from "./answer-ref.ts";
import type { ChatCall } from "./http/answers.ts";
import { resultsOf } from "./matching.ts";
import { splitRequest } from "./openai/index.ts";
import { resultBodies, type SaidResults } from "./requests.ts";
import { owesResults } from "./session.ts";
import type { SessionDriver } from "./session-driver.ts";

/** The chunks with the results; large content is put beside the stream first. */
export function bodiesFor(
  { request }: ChatCall,
  session: SessionDriver,
  said: SaidResults,
): Promise<readonly Uint8Array[]> {
  return resultBodies(said, {
    options: request.options,
    upload: async (bytes) => session.openStream.putBlob(bytes),
  });
}

/** Says again what a request brought, to a session that may lack it. */
export type Saying = (session: SessionDriver) => Promise<void>;

/** `call` is a retry of the request that got this answer. */
export function saying(call: ChatCall, { fromEvent }: AnswerRef): Saying {
  return (session) => sayAgain(call, session, fromEvent);
}

async function sayAgain(call: ChatCall, session: SessionDriver, fromEvent: number): Promise<void> {
  const { record, state, memory } = session;
  if (memory.fromEvent !== fromEvent || !owesResults(state)) return;
  void session.feed({ kind: "repeated" });
  const { results, said } = splitRequest(call.request.messages);
  const again = { results: resultsOf(record.answered, results), said };
  try {
    await session.say(await bodiesFor(call, session, again));
  } catch (cause) {
    // The stream is over: it needs no results any more.
    if (!(cause instanceof HoldfastError)) throw cause;
  }
}
