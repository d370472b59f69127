/**
 * A conversation by its name, for programs that are started again: what was under way is found, not begun a second time.
 *
 * A program that was killed in the middle of a turn says the same words when it runs again. `send` knows them: it hands over the turn that they began,
 * from its beginning, and nothing that is done is done again. Other words are refused while a turn is under way.
 */
import type {
  BeginOptions,
  Conversation,
  Conversations,
  FullConversation,
  SendOptions,
  Turn,
  TurnInput,
} from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";

export type ConversationOptions = Omit<BeginOptions, "conversationId" | "parentId" | "subagentDepth">;

export interface SendTurnOptions extends Omit<SendOptions, "idempotencyKey" | "tools" | "onQuery"> {
  /** Aborts the turn. */
  readonly signal?: AbortSignal | undefined;
}

export class NamedConversation {
  readonly id: string;
  readonly #conversations: Conversations;
  readonly #options: ConversationOptions;

  constructor(conversations: Conversations, id: string, options: ConversationOptions) {
    this.id = id;
    this.#conversations = conversations;
    this.#options = options;
  }

  /**
   * Begins a turn, or hands over the one that the same words began and that is still under way. Rejects with `busy` while a turn that other words began is.
   */
  async send(input: string | TurnInput, { signal, ...options }: SendTurnOptions = {}): Promise<Turn> {
    signal?.throwIfAborted();
    const conversation = await this.#open();
    const turn =
      (await this.#underWay(conversation, input)) ??
      (await conversation.send(input, { ...options, tools: this.#conversations.tools }));
    if (signal !== undefined) abortedBy(turn, signal);
    return turn;
  }

  async #underWay(conversation: Conversation, input: string | TurnInput): Promise<Turn | undefined> {
    const turn = await conversation.resume();
    if (turn === undefined) return undefined;
    if (!conversation.isAnswering(input)) throw busy(this.id);
    // One that its server has forgotten cannot be gone on with: its words are said anew.
    return (await hasReached(turn)) ? turn : undefined;
  }

  /** The turn under way, also one that a crash of this program has cut off; undefined when there is none. */
  async resume(): Promise<Turn | undefined> {
    return (await this.#open()).resume();
  }

  /** Everything that was said, turn by turn. */
  async full(): Promise<FullConversation> {
    return (await this.#open()).full();
  }

  /** Forgets it here. */
  async remove(): Promise<void> {
    await this.#conversations.remove(this.id);
  }

  #open(): Promise<Conversation> {
    return this.#conversations.named(this.id, this.#options);
  }
}

/** False when the server does not know its stream. */
function hasReached(turn: Turn): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const look = (): void => {
    const { state } = turn.stream.status;
    if (state === "live" || state === "degraded" || state === "stalled") resolve(true);
  };
  const unwatch = turn.stream.watch(look);
  look();
  turn.ended.then(
    ({ reason }) => resolve(reason !== "lost"),
    () => resolve(true),
  );
  return promise.finally(unwatch);
}

function abortedBy(turn: Turn, signal: AbortSignal): void {
  const abort = (): void => {
    // A turn that is over needs none.
    turn.abort().catch(() => undefined);
  };
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  void turn.ended.finally(() => signal.removeEventListener("abort", abort)).catch(() => undefined);
}

function busy(id: string): HoldfastError {
  return new HoldfastError(
    "busy",
    `conversation "${id}" is still answering something else: read it with \`resume()\`, wait for its \`ended\`, or stop it with its \`abort()\`, then send`,
  );
}
