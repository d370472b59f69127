/**
 * Tool results on their way into a stream, and once more when a process may have died with them.
 *
 * The session is durable before its results are. After a crash in between, only the retry has them; it is the same request to the byte,
 * so what it says again is what was said. The server takes one result for each exec and ignores a second (A8).
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { ChatCall } from "./http/answers.ts";
import { resultsOf } from "./matching.ts";
import { splitRequest } from "./openai/index.ts";
import { resultBodies, type SaidResults } from "./requests.ts";
import type { Session } from "./session.ts";

/** The chunks that say it; what is large is put beside the stream first. */
export function bodiesFor(
  { request }: ChatCall,
  { turn: { stream } }: Session,
  said: SaidResults,
): Promise<readonly Uint8Array[]> {
  return resultBodies(said, { options: request.options, upload: (bytes) => stream.putBlob(bytes) });
}

/** `call` is a retry of the request that the session answers. */
export async function sayAgain(call: ChatCall, session: Session): Promise<void> {
  const { turn, record, isDoubtful } = session;
  if (!isDoubtful || turn.isOver || record.answered.length === 0) return;
  session.isDoubtful = false;
  const results = resultsOf(record.answered, splitRequest(call.request.messages).results);
  try {
    const bodies = await bodiesFor(call, session, { results, said: [] });
    await Promise.all(bodies.map((body) => turn.stream.send(body)));
  } catch (cause) {
    // The stream is over: it needs no results any more.
    if (!(cause instanceof HoldfastError)) throw cause;
  }
}
