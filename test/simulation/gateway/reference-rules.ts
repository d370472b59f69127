/**
 * The rules of the reference that look at nothing but a request and what was answered before: which answer a retry means, what a request adds,
 * and whether a session waits for it.
 */
import { canonical } from "./messages.ts";
import type { Asked, Possible, RefAnswer } from "./reference-answers.ts";
import type { RefSession } from "./reference-sessions.ts";

/** An earlier answer in one possible world. */
export interface Seen extends Possible {
  readonly answer: RefAnswer;
}

/** What an equal request without a key gets in that world; `none`: it is no retry. */
export function retryIn(world: readonly Seen[], { retrySign }: Asked): readonly string[] {
  const own = world.filter(({ answer }) => answer.asked.key === undefined);
  const lost = own.filter(({ delivery }) => delivery === "lost");
  // Each of them goes to one retry; after a restart the gateway does not know their order.
  if (lost.length > 0) return lost.map(({ answer }) => `answer ${answer.id}`);
  const joined = world.find(({ delivery, answer }) => delivery === "open" && answer.isContinued);
  const doubtful = own.filter(
    ({ delivery, isRetried }) =>
      !isRetried &&
      (delivery === "flushed" || delivery === "closed" || (delivery === "open" && retrySign === "counted")),
  );
  const meant = retrySign !== "none" && doubtful.length === 1 ? doubtful[0] : undefined;
  const found = joined ?? meant;
  return [found === undefined ? "none" : `answer ${found.answer.id}`];
}

/** What a request says behind the last answer that it has. */
export function tailOf({ body: { messages } }: Asked) {
  const from = messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const tail = messages.slice(from);
  return {
    seen: messages.slice(0, from),
    results: tail.flatMap((message) => (message.role === "tool" ? [message.id] : [])),
    said: tail.filter(({ role }) => role === "user").length,
  };
}

/** Whether the request is what the session waits for. */
export function continues(asked: Asked, session: RefSession): boolean {
  const { facts, history, last } = session;
  const { body, principal } = asked;
  if (facts.principal !== principal || facts.model !== body.model || history === undefined) return false;
  const { door, system, tools } = facts.context;
  if (door !== body.door || system !== body.system || JSON.stringify(tools) !== JSON.stringify(body.tools))
    return false;
  const { seen, results, said } = tailOf(asked);
  if (JSON.stringify(canonical(seen)) !== history || last.hasFailed) return false;
  if (results.length === 0) return said > 0 && session.pending.length === 0;
  const ids = new Set(results);
  return (
    ids.size === results.length &&
    results.length === session.pending.length &&
    session.pending.every(({ id }) => ids.has(id))
  );
}

export function bringsResults(asked: Asked, session: RefSession): boolean {
  return tailOf(asked).results.length > 0 && continues(asked, session);
}
