/**
 * The questions of a turn: each is asked of somebody and answered once.
 *
 * A question is open until its answer is on this client's disk; then a restart does not ask it again. While it is
 * in somebody's hands the server owes nothing, and nothing is taken for a stall. Where nobody can be asked, that is
 * the answer.
 */
import { type MessageInitShape } from "@bufbuild/protobuf";
import { HoldfastError } from "../../protocol/errors.ts";
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

export class TurnQueries {
  readonly #stream: Pick<ClientStream, "send" | "considering">;
  readonly #ask: AskUser | undefined;
  readonly #onAnswered: (queryId: number) => void;
  readonly #open = new Map<number, OpenQuery>();
  readonly #answering = new Set<number>();

  constructor(
    stream: Pick<ClientStream, "send" | "considering">,
    ask: AskUser | undefined,
    onAnswered: (queryId: number) => void,
  ) {
    this.#stream = stream;
    this.#ask = ask;
    this.#onAnswered = onAnswered;
  }

  /** Never rejects: whatever goes wrong with asking becomes the answer. */
  async ask(query: InteractionQuery): Promise<void> {
    const { id } = query;
    if (this.#open.has(id) || this.#answering.has(id)) return;
    const closed = new AbortController();
    this.#open.set(id, { considered: this.#stream.considering(`query ${id}`), closed });
    try {
      const answer = await this.#decide(query, closed.signal);
      if (answer !== undefined && this.#open.has(id)) await this.answer(id, answer);
    } catch {
      // The turn is over, or was left: then it is asked again.
    }
  }

  async #decide(query: InteractionQuery, signal: AbortSignal): Promise<QueryAnswer | undefined> {
    if (query.query.case === undefined)
      return unanswerable("this client does not know this kind of question");
    if (this.#ask === undefined) return unanswerable("nobody can be asked here");
    try {
      return await this.#ask(query, signal);
    } catch (cause) {
      return unanswerable(cause instanceof Error ? cause.message : String(cause));
    }
  }

  /** Resolves once the answer is on this client's disk. */
  async answer(id: number, response: QueryAnswer): Promise<void> {
    if (!this.#open.has(id) || this.#answering.has(id)) {
      throw new HoldfastError(
        "not_found",
        `there is no open question ${id}: it was answered, or the turn is over`,
      );
    }
    this.#answering.add(id);
    try {
      await this.#stream.send(encodeClient({ case: "interactionResponse", value: { id, response } }));
    } catch (cause) {
      this.#answering.delete(id);
      throw cause;
    }
    this.#letGo(id);
    this.#onAnswered(id);
  }

  /** The turn is over: nothing is waited for any more. */
  close(): void {
    for (const id of this.#open.keys()) this.#letGo(id);
  }

  #letGo(id: number): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    open?.considered();
    open?.closed.abort();
  }
}

function unanswerable(reason: string): QueryAnswer {
  return { case: "unanswerable", value: { reason: reason.slice(0, LIMITS.messageCharsMax) } };
}
