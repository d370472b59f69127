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

/** Resolves with the answer, or with undefined when somebody will call `Turn.answer`. */
export type AskUser = (query: InteractionQuery) => Promise<QueryAnswer | undefined>;

export class TurnQueries {
  readonly #stream: Pick<ClientStream, "send" | "considering">;
  readonly #ask: AskUser | undefined;
  readonly #onAnswered: (queryId: number) => void;
  /** How to say that a question is in nobody's hands any more. */
  readonly #open = new Map<number, () => void>();
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
    this.#open.set(id, this.#stream.considering(`query ${id}`));
    try {
      const answer = await this.#decide(query);
      if (answer !== undefined && this.#open.has(id)) await this.answer(id, answer);
    } catch {
      // The turn is over, or was left: then it is asked again.
    }
  }

  async #decide(query: InteractionQuery): Promise<QueryAnswer | undefined> {
    if (query.query.case === undefined)
      return unanswerable("this client does not know this kind of question");
    if (this.#ask === undefined) return unanswerable("nobody can be asked here");
    try {
      return await this.#ask(query);
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
    this.#open.get(id)?.();
    this.#open.delete(id);
  }
}

function unanswerable(reason: string): QueryAnswer {
  return { case: "unanswerable", value: { reason: reason.slice(0, LIMITS.messageCharsMax) } };
}
