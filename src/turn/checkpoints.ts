/**
 * When a turn's checkpoints are made and published: the blobs first, the state that names them when the client has them all.
 *
 * Within a turn no decision waits for that; the last one of a turn is waited for. Where the server keeps the conversation, blobs and state are
 * one commit, and nothing is waited for.
 *
 * Invariant: every blob of a published checkpoint was acknowledged before, or is durable with it.
 */
import { isSameBytes } from "../protocol/bytes.ts";
import { toBinary } from "../protocol/message.ts";
import type { ChatMessage } from "../protocol/chat-message.ts";
import { ConversationStateSchema, type RunRequest } from "../protocol/messages.ts";
import type { Todo } from "./call-plan.ts";
import { type Draft, draftOf, isTooLong, type ShownTurn } from "./checkpoint.ts";
import { isSummarizing, isSummary } from "./conversation.ts";
import { type Decision, type Ending, WAIT } from "./decision.ts";
import { contextTokens, type Facts, outcomeOf, setAnswer } from "./facts.ts";
import { endFailed } from "./failure.ts";
import { afterSummary, ranCommand } from "./prompts.ts";
import { isAsked, isKept, obtain, Reader, serverKeeps } from "./reader.ts";
import { shellOutput } from "./shell-turn.ts";
import { userText, type Written, written } from "./written.ts";

const decoder = new TextDecoder();

/** What the server stores is durable with the next event: there is no answer to wait for. */
function isAnswered(facts: Facts, id: string): boolean {
  return facts.found.stored.has(id) || setAnswer(facts, id) !== undefined;
}

/** The conversation as it is before a step, once. */
export function checkpointSoFar(facts: Facts, request: RunRequest): Decision | undefined {
  const { found } = facts;
  const { own } = found.conversation;
  if (!isKept(facts) || isSummarizing(facts) || own.length === found.drafted) return undefined;
  const draft = conversationNow(facts, request, [], undefined);
  // One that is too long is reported at the end of the turn.
  return isTooLong(draft.state) ? undefined : keep(facts, draft);
}

/** The newest checkpoint whose blobs the client has all kept, if there is one. */
export function publishReady(facts: Facts): Decision | undefined {
  const draft = facts.found.drafts.findLast((one) => isWhole(facts, one));
  return draft && { kind: "publish", draft };
}

/** Asks for nothing that was asked for. */
function keep(facts: Facts, draft: Draft, ending?: Ending): Decision {
  const blobs = draft.blobs.filter(({ id }) => !isAsked(facts, id));
  return { kind: "keep", blobs, draft, ...(ending === undefined ? {} : { ending }) };
}

/** The last checkpoint, with the turn for display; then the end. */
export function closing(facts: Facts, request: RunRequest, ending: Ending): Decision {
  const end: Decision = { kind: "end", ending };
  if (!isKept(facts)) return end;
  const draft = facts.found.closing?.draft;
  if (draft === undefined) return closingDraft(facts, request, ending);
  const unanswered = draft.unkept.filter((id) => !isAnswered(facts, id));
  if (unanswered.length > 0) return facts.isClosed ? end : WAIT;
  for (const { id } of draft.blobs) {
    const why = notKept(facts, id);
    if (why !== undefined)
      return endFailed("internal", `the client could not keep a part of the conversation: ${why}`);
  }
  const isTold =
    facts.checkpoint !== undefined &&
    isSameBytes(
      toBinary(ConversationStateSchema, facts.checkpoint),
      toBinary(ConversationStateSchema, draft.state),
    );
  return isTold ? end : { kind: "publish", draft };
}

function closingDraft(facts: Facts, request: RunRequest, ending: Ending): Decision {
  const reader = new Reader(facts);
  const { shown, added } = shownTurn(facts, request, reader);
  if (reader.missing.size > 0) return obtain(facts, reader.missing) ?? closingDraft(facts, request, ending);
  const draft = conversationNow(facts, request, added, shown);
  if (isTooLong(draft.state))
    return endFailed(
      "context_too_long",
      "the conversation is too long to be kept: summarize it, or begin anew",
    );
  return keep(facts, draft, ending);
}

function conversationNow(
  facts: Facts,
  request: RunRequest,
  added: readonly ChatMessage[],
  shown: ShownTurn | undefined,
): Draft {
  const { summary, found } = facts;
  // For display there is the client's own view: the server keeps what the model gets.
  const display = serverKeeps(facts) ? undefined : shown;
  const contents = {
    before: request.conversationState,
    messages: [...newMessages(facts), ...added.map((message) => written(message, found.idOf))],
    todos: todosOf(facts),
    usedTokens: contextTokens(facts),
    maxTokens: found.opened?.contextTokensMax ?? 0,
    ...(summary === undefined ? {} : { summary }),
    ...(display === undefined ? {} : { shown: display }),
  };
  return draftOf(contents, found.idOf);
}

/** A summary stands for everything before it; one that did not come about leaves the conversation as it was. */
function newMessages(facts: Facts): readonly Written[] {
  const { own } = facts.found.conversation;
  if (!isSummary(facts)) return own;
  if (facts.summary === undefined) return [];
  const at = own.findIndex(({ message }) => isAnswer(message));
  return [written(userText(afterSummary(facts.summary)), facts.found.idOf), ...own.slice(at + 1)];
}

/** Words, and nothing left to be done. */
function isAnswer(message: ChatMessage): boolean {
  return message.role === "assistant" && !message.content.some(({ type }) => type === "tool-call");
}

/** The list as the model last wrote it; undefined when it did not in this turn. */
function todosOf({ found: { conversation, opened } }: Facts): readonly Todo[] | undefined {
  const last = conversation.own
    .flatMap(({ message }) => (message.role === "assistant" ? message.content : []))
    .findLast((part) => part.type === "tool-call" && part.tool === "todo_write");
  const plan = last?.type === "tool-call" ? opened?.plans.plan(last.tool, last.args) : undefined;
  return plan?.kind === "todos" ? plan.todos : undefined;
}

/** The turn for display, and what it adds to the messages. */
function shownTurn(
  facts: Facts,
  request: RunRequest,
  reader: Reader,
): { readonly shown: ShownTurn | undefined; readonly added: readonly ChatMessage[] } {
  const action = request.action?.action;
  if (action?.case === "shellCommandAction") {
    const [call] = facts.lastStep?.over.values() ?? [];
    const execId = facts.lastStep?.started[0]?.execIds[0] ?? "";
    const result = decoder.decode(reader.read(call?.result));
    const output = shellOutput(outcomeOf(facts, execId), result);
    const told = userText(ranCommand(action.value.command, result));
    return {
      shown: { kind: "shell", command: action.value, output },
      added: call === undefined ? [] : [told],
    };
  }
  // Of a summary only what was said after it.
  const { shown: all } = facts.found.conversation;
  const said = all.findIndex((one) => !("over" in one));
  if (isSummary(facts) && said === -1) return { shown: undefined, added: [] };
  const shown = isSummary(facts) ? all.slice(said) : all;
  const [first] = shown;
  const user = first !== undefined && !("over" in first) ? first : undefined;
  return { shown: { kind: "agent", user, followed: user === undefined ? shown : shown.slice(1) }, added: [] };
}

function isWhole(facts: Facts, draft: Draft): boolean {
  draft.unkept = draft.unkept.filter((id) => notKept(facts, id) !== undefined);
  return draft.unkept.length === 0;
}

/** Why a blob is not with the client. */
function notKept(facts: Facts, id: string): string | undefined {
  if (facts.found.stored.has(id)) return undefined;
  const answer = setAnswer(facts, id)?.message;
  if (answer?.case !== "setBlobResult") return "it does not know how";
  return answer.value.error;
}
