/**
 * One conversation as a page shows it: everything said in it, the turn under way, and what the page may do about it.
 *
 * It follows the turn under way whoever began it: this tab, this tab before a reload, or another tab, whose place it takes when that one is gone. Whatever
 * changes makes a new snapshot, so that a user interface compares by identity.
 *
 * Invariant: what a snapshot shows of a turn is the server's log up to one of its events, and never goes back to an earlier one; only the server takes text
 * back.
 */
import type { Conversation } from "../client/agent/conversation.ts";
import type { Conversations } from "../client/agent/conversations.ts";
import type { NewAttachment } from "../client/agent/run-request.ts";
import type { Turn } from "../client/agent/turn.ts";
import type { QueryAnswer } from "../client/agent/turn-queries.ts";
import type { BrowserClient } from "../client/browser/browser-client.ts";
import type { StreamStatus } from "../client/status.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { given } from "../protocol/given.ts";
import { EMPTY_VIEW, type PendingQuery, type TurnView } from "../turn/view.ts";
import type { PageApprovals, PendingApproval } from "./page-tools.ts";
import { type ShownTurn, shownTurns, shownView } from "./shown-turn.ts";

export interface ConversationSnapshot {
  readonly id: string;
  readonly title: string;
  /** Until what this browser keeps of it was read. */
  readonly isLoading: boolean;
  /** Oldest first; the last one may be under way. */
  readonly turns: readonly ShownTurn[];
  readonly isBusy: boolean;
  /** `reader`: another tab writes to the turn under way, and its tools run there. */
  readonly role: "writer" | "reader" | undefined;
  /** Of the turn under way. */
  readonly connection: StreamStatus | undefined;
  /** The last event that is shown of the turn under way; 0 = none. */
  readonly eventId: number;
  /** Tool calls of this tab that wait for a yes or a no. */
  readonly approvals: readonly PendingApproval[];
  /** What the agent wants to know. */
  readonly questions: readonly PendingQuery[];
  /** Why the conversation could not be read or followed. */
  readonly error: HoldfastError | undefined;
}

export interface Message {
  readonly text: string;
  readonly attachments?: readonly NewAttachment[] | undefined;
  /** As the server lists it, from this turn on. */
  readonly model?: string | undefined;
}

interface LiveParts {
  readonly opened: Promise<{ readonly client: BrowserClient; readonly conversations: Conversations }>;
  readonly approvals: PageApprovals;
  /** Tells the other tabs that a turn of this conversation has begun. */
  readonly begun: (conversationId: string) => void;
  /** Asks the tab that writes to let go. */
  readonly wanted: (conversationId: string) => void;
}

export class LiveConversation {
  readonly id: string;
  readonly #parts: LiveParts;
  readonly #listeners = new Set<() => void>();
  #conversation: Conversation | undefined;
  #past: readonly ShownTurn[] = [];
  #turn: Turn | undefined;
  #view: TurnView = EMPTY_VIEW;
  #error: HoldfastError | undefined;
  #loading: Promise<void> | undefined;
  #following: Promise<void> | undefined;
  /** The turn that this tab lets another one write to. */
  #yielded: Turn | undefined;
  #snapshot: ConversationSnapshot | undefined;
  #isTelling = false;

  constructor(id: string, parts: LiveParts) {
    this.id = id;
    this.#parts = parts;
    parts.approvals.watch(() => this.#changed());
  }

  get snapshot(): ConversationSnapshot {
    this.#snapshot ??= this.#read();
    return this.#snapshot;
  }

  /** Calls back after changes, several of one moment together; returns how to stop it. */
  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Reads what this browser keeps, and follows the turn under way. Resolves when that is shown. */
  load(): Promise<void> {
    this.#loading ??= this.#load().catch((cause: unknown) => {
      this.#loading = undefined;
      this.#fail(cause);
      throw cause;
    });
    return this.#loading;
  }

  /** Begins a turn. Resolves once it cannot be lost any more; rejects with `busy` while one is under way, here or in another tab. */
  async send(message: string | Message): Promise<void> {
    await this.load();
    const { model, ...input } = typeof message === "string" ? { text: message } : message;
    const said = { text: input.text, ...given({ attachments: input.attachments }) };
    const turn = await this.#opened.send(said, given({ model }));
    this.#adopt(turn);
    this.#parts.begun(this.id);
  }

  /** Keeps only the oldest turns, so many: the next message takes the place of what is behind them. */
  async rewind(turns: number): Promise<void> {
    await this.load();
    await this.#opened.rewind(turns);
    this.#past = this.#past.slice(0, turns);
    this.#changed();
  }

  /** Stops the turn under way, for good, at the provider too. Resolves once the wish cannot be lost any more. */
  async stop(): Promise<void> {
    await this.#turn?.abort();
  }

  /** Answers a tool call that waits. False when it does not wait any more. */
  decide(approvalId: string, isAllowed: boolean, reason?: string): boolean {
    return this.#parts.approvals.answer(approvalId, isAllowed, reason);
  }

  async answer(queryId: number, response: QueryAnswer): Promise<void> {
    await this.#turn?.answer(queryId, response);
  }

  /** Writes to the turn under way in the place of the tab that does: that one lets go and follows. Does nothing where this tab writes. */
  takeOver(): void {
    if (this.#turn?.role === "reader") this.#parts.wanted(this.id);
  }

  /** Another tab wants to write to the turn under way. It stands in the queue for the stream already, so it gets it. */
  wanted(): void {
    const turn = this.#turn;
    if (turn?.role !== "writer" || this.#yielded === turn) return;
    this.#yielded = turn;
    this.#yield(turn).catch((cause: unknown) => this.#fail(cause));
  }

  async #yield(turn: Turn): Promise<void> {
    turn.stream.leave();
    await turn.ended;
    await this.#follow(this.#view.eventId);
    if (this.#turn === turn) this.#turn = undefined;
    this.#changed();
  }

  /** Another tab has begun a turn. */
  heard(): void {
    if (this.#conversation === undefined || this.#turn !== undefined) return;
    this.#follow().catch((cause: unknown) => this.#fail(cause));
  }

  get #opened(): Conversation {
    if (this.#conversation === undefined)
      throw new HoldfastError("unavailable", "the conversation is not read yet");
    return this.#conversation;
  }

  async #load(): Promise<void> {
    const { conversations } = await this.#parts.opened;
    const conversation = await conversations.named(this.id);
    const { turns, ...rest } = await conversation.full();
    // What the turn under way has said so far is in the last checkpoint too, and is shown from its log.
    const before = conversation.record.turn?.turnsBefore ?? turns.length;
    this.#past = shownTurns({ ...rest, turns: turns.slice(0, before) });
    this.#conversation = conversation;
    this.#error = undefined;
    this.#changed();
    await this.#follow();
  }

  #follow(from = 0): Promise<void> {
    this.#following ??= this.#resume(from).finally(() => {
      this.#following = undefined;
    });
    return this.#following;
  }

  async #resume(from: number): Promise<void> {
    const turn = await this.#opened.resume();
    if (turn === undefined || turn === this.#turn) return;
    this.#adopt(turn, from);
    if (turn.role === "reader") this.#inherit(turn).catch((cause: unknown) => this.#fail(cause));
  }

  /** When the tab that writes is gone, this one writes. */
  async #inherit(reader: Turn): Promise<void> {
    const { client } = await this.#parts.opened;
    const over = new AbortController();
    void reader.stream.ended.then(() => over.abort());
    const stream = await client.inherit(reader.stream.idempotencyKey, over.signal);
    if (stream === undefined) return;
    if (this.#turn !== reader) {
      stream.leave();
      return;
    }
    this.#adopt(this.#opened.follow(stream, { keeps: true }), this.#view.eventId);
    reader.stream.leave();
  }

  /** Shows a turn, from this event on: a writer begins at its last snapshot, behind what a reader has shown. */
  #adopt(turn: Turn, from = 0): void {
    this.#turn = turn;
    const look = (view: TurnView): void => {
      if (this.#turn !== turn || (view.eventId < from && view.end === undefined)) return;
      this.#view = view;
      this.#changed();
    };
    if (from === 0) this.#view = EMPTY_VIEW;
    look(turn.view);
    turn.watch(look);
    turn.stream.watch(() => this.#changed());
    this.#keepUntilEnd(turn).catch((cause: unknown) => this.#fail(cause));
  }

  async #keepUntilEnd(turn: Turn): Promise<void> {
    try {
      const end = await turn.ended;
      if (this.#yielded === turn) return;
      if (this.#turn === turn)
        this.#past = [...this.#past, shownView(turn.stream.idempotencyKey, turn.view, end)];
    } finally {
      if (this.#turn === turn && this.#yielded !== turn) this.#turn = undefined;
      this.#changed();
    }
  }

  #fail(cause: unknown): void {
    this.#error = HoldfastError.from(cause);
    this.#changed();
  }

  #read(): ConversationSnapshot {
    const turn = this.#turn;
    const key = turn?.stream.idempotencyKey ?? "";
    return {
      id: this.id,
      title: this.#conversation?.record.title ?? "",
      isLoading: this.#conversation === undefined && this.#error === undefined,
      turns: turn === undefined ? this.#past : [...this.#past, shownView(key, this.#view)],
      isBusy: turn !== undefined,
      role: turn?.role,
      connection: turn?.stream.status,
      eventId: turn === undefined ? 0 : this.#view.eventId,
      approvals: turn === undefined ? NONE : this.#parts.approvals.of(key),
      questions: turn === undefined ? NONE : this.#view.queries,
      error: this.#error,
    };
  }

  #changed(): void {
    this.#snapshot = undefined;
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

const NONE: readonly never[] = [];
