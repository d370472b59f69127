/**
 * What the two logs of a turn say: who asked for what, how far it got, what was answered.
 *
 * A fold over both logs from their beginning and then over everything that happens, in the same way: a run that lives through a
 * turn and one that reads it back know the same. What follows from the facts is decided in `next.ts`. Beside the logs there is
 * only what this run has found out by itself (`Found`); a restart loses it and finds it out again.
 *
 * The facts are changed in place, so that a fact costs the same early and late in a turn.
 */
import { assert } from "../protocol/assert.ts";
import { hexOf } from "../protocol/bytes.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  type AgentServerMessage,
  type ConversationAction,
  type ConversationState,
  type ExecClientControlMessage,
  type ExecClientMessage,
  type InteractionResponse,
  type InteractionUpdate,
  type KvClientMessage,
  type RunRequest,
  type StepCompletedUpdate,
  type StepOptions,
  type ToolCall,
  type UserMessage,
} from "../protocol/messages.ts";
import { precededBy } from "./exec-ids.ts";
import { type ExecPiece, type ExecReply, isTerminal, piecesOf } from "./exec-reply.ts";
import {
  answerExec,
  closeBook,
  type ExecBook,
  issueExec,
  newExecBook,
  planExec,
  rollBackPlans,
  takeOver,
} from "./execs.ts";
import { type Found, forgetBreak, type IdOf, newFound } from "./found.ts";
import { begunAgain, newOpenStep, noteOutput, type OpenStep } from "./open-step.ts";
import { NO_USAGE, sumOf, type Usage } from "./usage.ts";
import { lightestBytes } from "./written.ts";
import { decodeClient } from "./messages.ts";

/** What comes from the client's side, in log order. */
export type Heard =
  | { readonly kind: "chunk"; readonly seqno: number; readonly body: Uint8Array }
  | { readonly kind: "takeover"; readonly sinceSeqno: number; readonly sinceEvent: number }
  | { readonly kind: "close"; readonly seqno: number };

/** A step whose model output is complete. */
export interface StepRecord {
  readonly step: number;
  /** Of the event that completed it. */
  readonly eventId: number;
  readonly completed: StepCompletedUpdate;
  /** Its tool calls with their exec ids, in the order of the model's message. */
  readonly started: readonly ToolCall[];
  /** The calls that are over, by the provider's id, which is unique within a step. */
  readonly over: Map<string, ToolCall>;
}

export type Entry =
  | { readonly kind: "user"; readonly message: UserMessage }
  | { readonly kind: "step"; readonly record: StepRecord };

/** A question to the user, asked for a tool call of a step. */
interface Query {
  readonly id: number;
  readonly step: number;
  readonly toolCallId: string;
}

export interface Facts {
  request: RunRequest | undefined;
  /** Why the client's side of the log makes no sense. */
  violation: string | undefined;
  /** Replaced as a whole by what comes with a tool result. */
  options: StepOptions | undefined;
  cancelled: string | undefined;
  /** The client has said everything: nothing that is asked from here on will be answered. */
  isClosed: boolean;
  heardBytes: number;
  /** Steps begun so far; a restarted step counts once. */
  steps: number;
  /** The step whose model output is under way, or was when it broke off. */
  open: OpenStep | undefined;
  /** What the user said and the steps, in the order of the log. */
  readonly entries: Entry[];
  lastStep: StepRecord | undefined;
  /** Of all steps that are complete. */
  usage: Usage;
  readonly book: ExecBook;
  readonly replies: Map<string, ExecReply>;
  /** What running execs have said, and how much of it the readers have got. */
  readonly pieces: Map<string, ExecPiece[]>;
  readonly relayed: Map<string, number>;
  /** Execs that the server has taken back: the client stops them. */
  readonly stopped: Set<string>;
  readonly queries: Query[];
  /** Answers may be read before the questions they belong to: the two logs have no common order. */
  readonly answers: Map<number, InteractionResponse>;
  readonly kvAnswers: Map<number, KvClientMessage>;
  kvIdMax: number;
  /** Blob ids that the client was asked to keep, and to give: the number of the request. */
  readonly sets: Map<string, number>;
  readonly gets: Map<string, number>;
  /** What the user said, in order; the first `appended` of them are part of the conversation. */
  readonly said: UserMessage[];
  appended: number;
  checkpoint: ConversationState | undefined;
  summary: string | undefined;
  hasEnded: boolean;
  readonly found: Found;
}

export function newFacts(idOf: IdOf): Facts {
  return {
    request: undefined,
    violation: undefined,
    options: undefined,
    cancelled: undefined,
    isClosed: false,
    heardBytes: 0,
    steps: 0,
    open: undefined,
    entries: [],
    lastStep: undefined,
    usage: NO_USAGE,
    book: newExecBook(),
    replies: new Map(),
    pieces: new Map(),
    relayed: new Map(),
    stopped: new Set(),
    queries: [],
    answers: new Map(),
    kvAnswers: new Map(),
    kvIdMax: 0,
    sets: new Map(),
    gets: new Map(),
    said: [],
    appended: 0,
    checkpoint: undefined,
    summary: undefined,
    hasEnded: false,
    found: newFound(idOf),
  };
}

/** Much of what a client says is held until the turn ends; a turn has no use for so much (F2). */
const HEARD_BYTES_MAX = 256 * 1024 * 1024;

const MESSAGE_BYTES_MAX = LIMITS.eventBytesMax - 1_024;

/** The client's terminal reply, when it came in time; "unknown" when none will; undefined while there is no outcome. */
export function outcomeOf(facts: Facts, execId: string): ExecReply | "unknown" | undefined {
  const stage = facts.book.execs.get(execId)?.stage;
  if (stage === "unknown") return "unknown";
  return stage === "answered" ? facts.replies.get(execId) : undefined;
}

/** Undefined while there is no answer. */
export function setAnswer({ kvAnswers, sets }: Facts, blobId: string): KvClientMessage | undefined {
  return kvAnswers.get(sets.get(blobId) ?? 0);
}

export function getAnswer({ kvAnswers, gets }: Facts, blobId: string): KvClientMessage | undefined {
  return kvAnswers.get(gets.get(blobId) ?? 0);
}

/** How full the model's context was after the last step. */
export function contextTokens({ lastStep }: Facts): number {
  const used = lastStep?.completed.usage;
  if (used === undefined) return 0;
  return used.inputTokens + used.cacheReadTokens + used.cacheWriteTokens + used.outputTokens;
}

/** Something from the client's side. */
export function heard(facts: Facts, input: Heard): void {
  switch (input.kind) {
    case "takeover":
      takeOver(facts.book, input);
      return;
    case "close":
      facts.isClosed = true;
      closeBook(facts.book, input.seqno);
      return;
    case "chunk":
      heardChunk(facts, input.seqno, input.body);
  }
}

function heardChunk(facts: Facts, seqno: number, body: Uint8Array): void {
  facts.heardBytes += body.length;
  if (facts.heardBytes > HEARD_BYTES_MAX) {
    facts.violation ??= `a client says at most ${HEARD_BYTES_MAX} bytes in a turn: put what is large into blobs`;
    return;
  }
  let message;
  try {
    ({ message } = decodeClient(body));
  } catch {
    facts.violation ??= `chunk ${seqno} is no message of an agent's client`;
    return;
  }
  if ((seqno === 0) !== (message.case === "runRequest")) {
    facts.violation ??= "a stream begins with one run request, and has no other";
    return;
  }
  switch (message.case) {
    case "runRequest":
      facts.request = message.value;
      facts.options = message.value.options;
      if (message.value.action?.action.case === "userMessageAction") heardAction(facts, message.value.action);
      return;
    case "execClientMessage":
      heardReply(facts, seqno, message.value);
      return;
    case "execClientControlMessage":
      heardControl(facts, seqno, message.value);
      return;
    case "kvClientMessage":
      putFirst(facts.kvAnswers, message.value.id, message.value);
      return;
    case "conversationAction":
      heardAction(facts, message.value);
      return;
    case "interactionResponse":
      // One answer per query; a second one is ignored (A8).
      putFirst(facts.answers, message.value.id, message.value);
      return;
    case "clientHeartbeat":
      return;
    case undefined:
      facts.violation ??= `chunk ${seqno} is of a kind that this server does not know`;
  }
}

function heardReply(facts: Facts, seqno: number, reply: ExecClientMessage): void {
  const { execId } = reply;
  if (!isTerminal(reply)) {
    if (facts.replies.has(execId)) return;
    const pieces = facts.pieces.get(execId) ?? [];
    facts.pieces.set(execId, pieces);
    pieces.push(...piecesOf(reply));
    return;
  }
  if (ended(facts, seqno, execId, { kind: "reply", reply }))
    facts.options = reply.stepOptions ?? facts.options;
}

function heardControl(facts: Facts, seqno: number, { message }: ExecClientControlMessage): void {
  switch (message.case) {
    case "throw":
      ended(facts, seqno, message.value.execId, { kind: "throw", error: message.value.error });
      return;
    case "streamClose": {
      // Behind a terminal reply it says nothing new; without one the exec ended without a result.
      const error = "the client closed it without a result";
      ended(facts, seqno, message.value.execId, { kind: "throw", error });
      return;
    }
    case undefined:
      facts.violation ??= `chunk ${seqno} is of a kind that this server does not know`;
  }
}

/** The first terminal reply counts, and no other (A8). */
function ended(facts: Facts, seqno: number, execId: string, reply: ExecReply): boolean {
  const isFirst = answerExec(facts.book, execId, seqno);
  if (isFirst) facts.replies.set(execId, reply);
  return isFirst;
}

function heardAction(facts: Facts, { action }: ConversationAction): void {
  switch (action.case) {
    case "userMessageAction": {
      const { userMessage } = action.value;
      const isKnown = facts.said.some(({ messageId: id }) => id !== "" && id === userMessage?.messageId);
      if (userMessage === undefined || isKnown) return;
      // The turn repeats the message to all readers, in one event. It takes one id once: a client that does not know whether it arrived sends it again (A8).
      if (lightestBytes(userMessage) <= MESSAGE_BYTES_MAX) facts.said.push(userMessage);
      else facts.violation ??= `a message has at most ${MESSAGE_BYTES_MAX} bytes: attach the rest as a file`;
      return;
    }
    case "cancelAction":
      facts.cancelled ??= action.value.reason === "" ? "cancelled" : action.value.reason;
      return;
    default:
      facts.violation ??= `while a turn runs it can be cancelled or told something, not ${String(action.case)}`;
  }
}

/** An event of our own is in the log, or will be before anything that follows from it. */
export function logged(facts: Facts, eventId: number, { message }: AgentServerMessage): void {
  switch (message.case) {
    case "interactionUpdate":
      loggedUpdate(facts, eventId, message.value);
      return;
    case "execServerMessage": {
      const { execId } = message.value;
      assert(facts.open === undefined, "an exec is issued when its step is complete");
      issueExec(facts.book, execId, eventId, precededBy(execId));
      return;
    }
    case "execServerControlMessage":
      if (message.value.message.case === "abort") facts.stopped.add(message.value.message.value.execId);
      return;
    case "kvServerMessage": {
      const { id, message: asked } = message.value;
      facts.kvIdMax = Math.max(facts.kvIdMax, id);
      if (asked.case === "getBlobArgs") facts.gets.set(hexOf(asked.value.blobId), id);
      if (asked.case !== "setBlobArgs") return;
      const blobId = hexOf(asked.value.blobId);
      facts.sets.set(blobId, id);
      // What the client is asked to keep is in our own log.
      if (asked.value.blobData !== undefined) facts.found.inHand.set(blobId, asked.value.blobData);
      return;
    }
    case "interactionQuery": {
      const { id, query } = message.value;
      const toolCallId = query.case === undefined ? "" : query.value.toolCallId;
      facts.queries.push({ id, step: facts.lastStep?.step ?? 0, toolCallId });
      return;
    }
    case "conversationCheckpointUpdate":
      facts.checkpoint = message.value;
      return;
    case undefined:
  }
}

function loggedUpdate(facts: Facts, eventId: number, update: InteractionUpdate): void {
  const { message } = update;
  if (facts.open !== undefined) noteOutput(facts.open, eventId, update);
  switch (message.case) {
    case "userMessageAppended":
      facts.appended++;
      if (message.value.userMessage !== undefined) {
        facts.entries.push({ kind: "user", message: message.value.userMessage });
      }
      return;
    case "stepStarted":
      assert(facts.open === undefined && facts.book.pending.size === 0, "a step begins when nothing is open");
      facts.steps++;
      facts.open = newOpenStep(message.value, eventId);
      return;
    case "stepRestarted":
    case "stepContinued":
      assert(facts.open !== undefined, "only an unfinished step is restarted, or continued");
      rollBackPlans(facts.book);
      facts.open = begunAgain(facts.open, message, eventId);
      forgetBreak(facts.found);
      return;
    case "toolCallStarted":
      assert(facts.open !== undefined, "an open step plans execs");
      for (const execId of message.value.toolCall?.execIds ?? []) planExec(facts.book, execId);
      return;
    case "stepCompleted":
      stepCompleted(facts, eventId, message.value);
      return;
    case "toolCallCompleted":
      if (message.value.toolCall !== undefined) callOver(facts, message.value.toolCall);
      return;
    case "shellOutputDelta":
    case "toolCallDelta": {
      const { execId } = message.value;
      facts.relayed.set(execId, (facts.relayed.get(execId) ?? 0) + 1);
      return;
    }
    case "summary":
      facts.summary = message.value.text;
      return;
    case "turnEnded":
      facts.hasEnded = true;
      return;
    default:
  }
}

function stepCompleted(facts: Facts, eventId: number, completed: StepCompletedUpdate): void {
  assert(facts.open !== undefined, "only an open step is completed");
  const { started } = facts.open;
  const record = { step: completed.step, eventId, completed, started, over: new Map<string, ToolCall>() };
  facts.open = undefined;
  facts.lastStep = record;
  facts.usage = sumOf([facts.usage, completed.usage]);
  facts.entries.push({ kind: "step", record });
}

function callOver(facts: Facts, call: ToolCall): void {
  facts.lastStep?.over.set(call.toolCallId, call);
  // What it has said is in its result, and no longer needed.
  for (const execId of call.execIds) facts.pieces.delete(execId);
}

function putFirst<Id, Value>(map: Map<Id, Value>, id: Id, value: Value): void {
  if (!map.has(id)) map.set(id, value);
}
