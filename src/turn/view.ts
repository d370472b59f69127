/**
 * What a turn looks like so far: the events folded into something that can be shown.
 *
 * A view is immutable and plain: every event makes a new one that shares what did not change, so a user
 * interface can compare by identity, and the view at the beginning of a step costs nothing to keep for a
 * roll-back. Texts grow by concatenation, which engines do without copying what is there.
 *
 * `view-fold.ts` folds, `view-codec.ts` turns a view into bytes and back.
 */
import type { HoldfastError } from "../protocol/errors.ts";
import type { FailureKind, InteractionQuery, TodoStatus } from "../protocol/messages.ts";
import { NO_USAGE, type Usage } from "./usage.ts";
import { type ToolOutcomeName } from "./tool-outcome.ts";

export interface TextView {
  readonly type: "text";
  readonly step: number;
  readonly text: string;
}

export interface ThinkingView {
  readonly type: "thinking";
  readonly step: number;
  readonly text: string;
  /** Undefined while the model is still thinking. */
  readonly durationMs: number | undefined;
}

/** What the user said while the turn ran. */
export interface UserView {
  readonly type: "user";
  readonly text: string;
  readonly messageId: string;
}

export interface ToolView {
  readonly type: "tool";
  readonly step: number;
  /** The provider's: may repeat across steps. */
  readonly toolCallId: string;
  readonly tool: string;
  /** JSON text, as far as the model has written it; empty when it is in `argsBlobId`. */
  readonly args: string;
  readonly argsBlobId: string | undefined;
  /** `writing`: the model is not done with the call, and nothing runs. */
  readonly state: "writing" | "running" | "over";
  readonly outcome: ToolOutcomeName | undefined;
  /** What the model got; undefined before, and when it is in `resultBlobId`. */
  readonly result: string | undefined;
  readonly resultBlobId: string | undefined;
  readonly execIds: readonly string[];
  /** The last part of what a running command wrote. */
  readonly output: string;
  /** Characters of the output that were let go. */
  readonly outputOmitted: number;
  /** Bytes of a character that is not complete yet, in hexadecimal digits. */
  readonly outputRest: string;
  /** What the tool said of its progress, the last lines. */
  readonly progress: readonly string[];
}

export type ViewPart = TextView | ThinkingView | UserView | ToolView;

export interface TodoView {
  readonly id: string;
  readonly text: string;
  readonly status: TodoStatus;
}

/** `item` is undefined while only its blob id is known. */
export interface ListedTodo {
  readonly blobId: string;
  readonly item: TodoView | undefined;
}

export interface FailureView {
  readonly kind: FailureKind;
  readonly message: string;
  readonly providerStatus: number;
  readonly retryAfterMs: number | undefined;
}

export interface EndView {
  readonly reason: "completed" | "aborted" | "failed";
  readonly failure: FailureView | undefined;
}

/** How a turn is over for this client. */
export interface TurnEnd {
  /**
   * `lost`: the stream is gone, or another client took it over. `left`: this client let go of it; it can be
   * resumed.
   */
  readonly reason: EndView["reason"] | "lost" | "left";
  /** Only with `failed`. */
  readonly failure: FailureView | undefined;
  /** Why it is lost or was left, when there is a reason. */
  readonly error: HoldfastError | undefined;
  readonly usage: Usage;
  /** What the agent said last. */
  readonly text: string;
}

export interface PendingQuery {
  readonly eventId: number;
  readonly query: InteractionQuery;
}

export interface AttachmentView {
  readonly mediaType: string;
  readonly fileName: string;
  /** Undefined when the content came inline. */
  readonly blobId: string | undefined;
}

export interface UserMessageView {
  readonly text: string;
  readonly messageId: string;
  readonly attachments: readonly AttachmentView[];
}

/** A message for the model that the server had this client keep, in this turn. */
interface KeptMessage {
  readonly blobId: string;
  readonly isAssistant: boolean;
}

export interface TurnView {
  /** The last event in it; 0 = none. */
  readonly eventId: number;
  /** From 0; -1 before the first one. */
  readonly step: number;
  readonly model: string;
  readonly userMessages: readonly UserMessageView[];
  readonly parts: readonly ViewPart[];
  /** Of the completed steps; of the turn once it has ended. */
  readonly usage: Usage;
  /** Tokens generated, as the server counted them aloud. */
  readonly tokens: number;
  readonly todos: readonly ListedTodo[];
  readonly summary: string | undefined;
  /** How often a step was begun anew, or its text continued by another generation. */
  readonly restarts: number;
  /** How often the step under way was begun anew. */
  readonly attempt: number;
  /** Asked, and not answered as far as this client knows. */
  readonly queries: readonly PendingQuery[];
  readonly checkpointEventId: number | undefined;
  readonly end: EndView | undefined;
  /** In the order in which they were set. */
  readonly messages: readonly KeptMessage[];
  /** The parts before this place are in `messages`. */
  readonly savedParts: number;
  /** Text was streamed since the last assistant message, or since the step began. */
  readonly hasSpoken: boolean;
  /** The text of an assistant message that was never streamed. */
  readonly unspoken: string | undefined;
  /** Todos whose blobs came by, by blob id. */
  readonly knownTodos: Readonly<Record<string, TodoView>>;
  /** The view as the step under way began, for a roll-back; undefined between steps. */
  readonly mark: TurnView | undefined;
}

export const EMPTY_VIEW: TurnView = {
  eventId: 0,
  step: -1,
  model: "",
  userMessages: [],
  parts: [],
  usage: NO_USAGE,
  tokens: 0,
  todos: [],
  summary: undefined,
  restarts: 0,
  attempt: 0,
  queries: [],
  checkpointEventId: undefined,
  end: undefined,
  messages: [],
  savedParts: 0,
  hasSpoken: false,
  unspoken: undefined,
  knownTodos: {},
  mark: undefined,
};

export function emptyView(): TurnView {
  return EMPTY_VIEW;
}

/** A query is answered: it is not to be asked again. */
export function answered(view: TurnView, queryId: number): TurnView {
  const queries = view.queries.filter(({ query }) => query.id !== queryId);
  const mark = view.mark === undefined ? undefined : answered(view.mark, queryId);
  return { ...view, queries, mark };
}

/** Todos that were found elsewhere: the checkpoint named only their blobs. */
export function knowTodos(view: TurnView, found: Readonly<Record<string, TodoView>>): TurnView {
  const todos = view.todos.map((todo) => ({ ...todo, item: todo.item ?? found[todo.blobId] }));
  return { ...view, todos, knownTodos: { ...view.knownTodos, ...found } };
}

/** Stands between texts that have something else between them. */
export const PARAGRAPH = "\n\n";

/** What the agent said in words, all of it. */
export function spokenText({ parts }: Pick<TurnView, "parts">): string {
  return parts
    .filter((part) => part.type === "text")
    .map(({ text }) => text)
    .join(PARAGRAPH);
}

/** What the agent said last: after everything it did. */
export function lastText(view: TurnView): string {
  return view.parts.findLast((part) => part.type === "text")?.text ?? "";
}
