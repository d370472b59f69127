/**
 * The questions of a turn: each is put to the user and answered once.
 *
 * A question is open until its answer is on this client's disk; then a restart does not ask it again. While the
 * user has it the server owes nothing, and nothing is taken for a stall. Where no user can be asked, that is
 * the answer.
 */
import { type MessageInitShape } from "../../protocol/message.ts";
import { firstChars } from "../../protocol/characters.ts";
import { HoldfastError, messageOf } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type InteractionQuery, type InteractionResponseSchema } from "../../protocol/messages.ts";
import type { ClientStream } from "../stream.ts";
import { encodeClient } from "../../turn/messages.ts";

/** The oneof of an InteractionResponse. */
export type QueryAnswer = NonNullable<MessageInitShape<typeof InteractionResponseSchema>["response"]>;

/**
 * Resolves with the answer, or with undefined when the application will call `Turn.answer`. The signal is aborted when the
 * question is closed without this answer: it was answered otherwise, or the turn is over for this client.
 */
export type AskUser = (query: InteractionQuery, signal: AbortSignal) => Promise<QueryAnswer | undefined>;

interface OpenQuery {
  /** Says that no person thinks about it any more. */
  readonly considered: () => void;
  readonly closed: AbortController;
}

export function turnQueries(
  stream: Pick<ClientStream, "send" | "considering">,
  askUser: AskUser | undefined,
  onAnswered: (queryId: number) => void,
) {
  const open = new Map<number, OpenQuery>();
  const answering = new Set<number>();

  async function decide(query: InteractionQuery, signal: AbortSignal): Promise<QueryAnswer | undefined> {
    if (query.query.case === undefined)
      return unanswerable("this client does not know this kind of question");
    if (askUser === undefined) return unanswerable("no user can be asked here");
    try {
      return await askUser(query, signal);
    } catch (cause) {
      return unanswerable(messageOf(cause));
    }
  }

  /** Resolves once the answer is on this client's disk. */
  async function answer(id: number, response: QueryAnswer): Promise<void> {
    if (!open.has(id) || answering.has(id)) {
      throw new HoldfastError(
        "not_found",
        `there is no open question ${id}: it was answered, or the turn is over`,
      );
    }
    answering.add(id);
    try {
      await stream.send(encodeClient({ case: "interactionResponse", value: { id, response } }));
    } catch (cause) {
      answering.delete(id);
      throw cause;
    }
    letGo(id);
    onAnswered(id);
  }

  function letGo(id: number): void {
    const query = open.get(id);
    open.delete(id);
    query?.considered();
    query?.closed.abort();
  }

  return {
    /** Never rejects: whatever goes wrong with asking becomes the answer. */
    async ask(query: InteractionQuery): Promise<void> {
      const { id } = query;
      if (open.has(id) || answering.has(id)) return;
      const closed = new AbortController();
      open.set(id, { considered: stream.considering(`query ${id}`), closed });
      try {
        const decided = await decide(query, closed.signal);
        if (decided !== undefined && open.has(id)) await answer(id, decided);
      } catch {
        // The turn is over, or was left: then it is asked again.
      }
    },
    answer,
    /** The turn is over: nothing is waited for any more. */
    close(): void {
      for (const id of open.keys()) letGo(id);
    },
  };
}

function unanswerable(reason: string): QueryAnswer {
  return { case: "unanswerable", value: { reason: firstChars(reason, LIMITS.messageCharsMax) } };
}
