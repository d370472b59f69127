/**
 * What the two logs of a turn say: who asked for what, how far it got, what was answered.
 *
 * Fed with both logs from their beginning and then with everything that happens, in the same way: a run that lives
 * through a turn and one that reads it back know the same. It holds facts only; what follows from
 * them is decided in `turn.ts`.
 *
 * Invariant: nothing in here that is not in one of the logs, or accepted into it: a restart invents nothing, and what it
 * loses nobody has heard of.
 */
import { fromBinary } from "@bufbuild/protobuf";
import * as ledger from "../core/exec-ledger.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  type ConversationAction,
  type ConversationState,
  type ExecClientControlMessage,
  type ExecClientMessage,
  type InteractionUpdate,
  type InteractionResponse,
  type KvClientMessage,
  type KvServerMessage,
  type RunRequest,
  type StepCompletedUpdate,
  type StepOptions,
  type ToolCall,
  type UserMessage,
} from "../protocol/messages.ts";
import type { ClientInput } from "../server/application.ts";
import { LIMITS } from "../protocol/limits.ts";
import { hexOf } from "./blobs.ts";
import { lightestBytes } from "./messages.ts";
import type { Usage } from "./model.ts";
import { sumOf } from "./usage.ts";
import { precededBy } from "./exec-ids.ts";
import { type OpenStep, openStepAfter } from "./open-step.ts";
import { type ExecReply, isTerminal, type Partial, partialsOf } from "./exec-reply.ts";

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
export interface Query {
  readonly id: number;
  readonly step: number;
  readonly toolCallId: string;
}

/** Much of what a client says is held until the turn ends; a turn has no use for so much (F2). */
const HEARD_BYTES_MAX = 256 * 1024 * 1024;

const MESSAGE_BYTES_MAX = LIMITS.eventBytesMax - 1_024;

export class TurnLog {
  request: RunRequest | undefined;
  /** Why the client's side of the log makes no sense. */
  violation: string | undefined;
  /** Replaced as a whole by what comes with a tool result. */
  options: StepOptions | undefined;
  cancelled: string | undefined;
  /** The client has said everything: nothing that is asked from here on will be answered. */
  isClosed = false;
  book: ledger.State = ledger.init();
  /** The step whose model output is under way. */
  open: OpenStep | undefined;
  readonly entries: Entry[] = [];
  readonly queries: Query[] = [];
  checkpoint: ConversationState | undefined;
  summary: string | undefined;
  hasEnded = false;
  execsIssued = 0;
  kvIdMax = 0;
  /** Execs that the client was told to stop. */
  readonly stopped = new Set<string>();
  readonly #replies = new Map<string, ExecReply>();
  readonly #partials = new Map<string, Partial[]>();
  readonly #relayed = new Map<string, number>();
  /** Answers may be read before the questions they belong to: the two logs have no common order. */
  readonly #answers = new Map<number, InteractionResponse>();
  readonly #kvAnswers = new Map<number, KvClientMessage>();
  /** Blob ids that the client was asked to keep, and to give: the number of the request. */
  readonly #sets = new Map<string, number>();
  readonly #gets = new Map<string, number>();
  /** What the user said, in order; the first `#appended` of them are part of the conversation. */
  readonly #said: UserMessage[] = [];
  #appended = 0;
  #heardBytes = 0;

  get nextQueryId(): number {
    return this.queries.length + 1;
  }

  get lastStep(): StepRecord | undefined {
    const last = this.entries.findLast((entry) => entry.kind === "step");
    return last?.record;
  }

  /** Of all steps that are complete. */
  get usage(): Usage {
    return sumOf(
      this.entries.map((entry) => (entry.kind === "step" ? entry.record.completed.usage : undefined)),
    );
  }

  /** How full the model's context was after the last step. */
  get contextTokens(): number {
    const used = this.lastStep?.completed.usage;
    if (used === undefined) return 0;
    return used.inputTokens + used.cacheReadTokens + used.cacheWriteTokens + used.outputTokens;
  }

  /** What the user said and the model has not been told. */
  get nextMessage(): UserMessage | undefined {
    return this.#said[this.#appended];
  }

  isSetAsked(blobId: string): boolean {
    return this.#sets.has(blobId);
  }

  /** Undefined while there is no answer. */
  setAnswer(blobId: string): KvClientMessage | undefined {
    return this.#kvAnswers.get(this.#sets.get(blobId) ?? 0);
  }

  isGetAsked(blobId: string): boolean {
    return this.#gets.has(blobId);
  }

  getAnswer(blobId: string): KvClientMessage | undefined {
    return this.#kvAnswers.get(this.#gets.get(blobId) ?? 0);
  }

  answerTo(queryId: number): InteractionResponse | undefined {
    return this.#answers.get(queryId);
  }

  /** The client's terminal reply, when it came in time; "unknown" when none will. */
  outcomeOf(execId: string): ExecReply | "unknown" | undefined {
    const stage = this.book.execs.get(execId)?.stage;
    if (stage === "unknown") return "unknown";
    return stage === "answered" ? this.#replies.get(execId) : undefined;
  }

  stageOf(execId: string): ledger.ExecStage | undefined {
    return this.book.execs.get(execId)?.stage;
  }

  /** What a running exec has said. */
  partialsOf(execId: string): readonly Partial[] {
    return this.#partials.get(execId) ?? [];
  }

  /** What of it has not been passed on to the readers. */
  unrelayedOf(execId: string): readonly Partial[] {
    return this.partialsOf(execId).slice(this.#relayed.get(execId) ?? 0);
  }

  feed(input: ledger.Input): readonly ledger.Effect[] {
    const [book, effects] = ledger.step(this.book, input);
    this.book = book;
    return effects;
  }

  /** Something from the client's side. */
  heard(input: ClientInput): void {
    switch (input.kind) {
      case "takeover":
        this.feed({ kind: "takeover", takeover: input });
        return;
      case "close":
        this.isClosed = true;
        this.feed({ kind: "closed", seqno: input.seqno });
        return;
      case "chunk":
        this.#heardChunk(input.seqno, input.body);
    }
  }

  #heardChunk(seqno: number, body: Uint8Array): void {
    this.#heardBytes += body.length;
    if (this.#heardBytes > HEARD_BYTES_MAX) {
      this.violation ??= `a client says at most ${HEARD_BYTES_MAX} bytes in a turn: put what is large into blobs`;
      return;
    }
    let message;
    try {
      ({ message } = fromBinary(AgentClientMessageSchema, body));
    } catch {
      this.violation ??= `chunk ${seqno} is no message of an agent's client`;
      return;
    }
    if ((seqno === 0) !== (message.case === "runRequest")) {
      this.violation ??= "a stream begins with one run request, and has no other";
      return;
    }
    switch (message.case) {
      case "runRequest":
        this.request = message.value;
        this.options = message.value.options;
        if (message.value.action?.action.case === "userMessageAction")
          this.#heardAction(message.value.action);
        return;
      case "execClientMessage":
        this.#heardReply(seqno, message.value);
        return;
      case "execClientControlMessage":
        this.#heardControl(seqno, message.value);
        return;
      case "kvClientMessage":
        putFirst(this.#kvAnswers, message.value.id, message.value);
        return;
      case "conversationAction":
        this.#heardAction(message.value);
        return;
      case "interactionResponse":
        // One answer per query; a second one is ignored (A8).
        putFirst(this.#answers, message.value.id, message.value);
        return;
      case "clientHeartbeat":
        return;
      case undefined:
        this.violation ??= `chunk ${seqno} is of a kind that this server does not know`;
    }
  }

  #heardReply(seqno: number, reply: ExecClientMessage): void {
    const { execId } = reply;
    if (!isTerminal(reply)) {
      if (this.#replies.has(execId)) return;
      const partials = this.#partials.get(execId) ?? [];
      this.#partials.set(execId, partials);
      partials.push(...partialsOf(reply));
      return;
    }
    if (!this.book.results.has(execId)) this.options = reply.stepOptions ?? this.options;
    this.#terminal(seqno, execId, { kind: "reply", reply });
  }

  #heardControl(seqno: number, { message }: ExecClientControlMessage): void {
    switch (message.case) {
      case "throw":
        this.#terminal(seqno, message.value.execId, { kind: "throw", error: message.value.error });
        return;
      case "streamClose":
        // Behind a terminal reply it says nothing new; without one the exec ended without a result.
        this.#terminal(seqno, message.value.execId, {
          kind: "throw",
          error: "the client closed it without a result",
        });
        return;
      case undefined:
        this.violation ??= `chunk ${seqno} is of a kind that this server does not know`;
    }
  }

  #terminal(seqno: number, execId: string, reply: ExecReply): void {
    if (!this.book.results.has(execId)) this.#replies.set(execId, reply);
    this.feed({ kind: "result", execId, seqno });
    // The book keeps no more results of execs that nobody asked for than it must; neither do we.
    if (!this.book.results.has(execId)) this.#replies.delete(execId);
  }

  #heardAction({ action }: ConversationAction): void {
    switch (action.case) {
      case "userMessageAction":
        if (action.value.userMessage !== undefined) this.#heardMessage(action.value.userMessage);
        return;
      case "cancelAction":
        this.cancelled ??= action.value.reason === "" ? "cancelled" : action.value.reason;
        return;
      default:
        this.violation ??= `while a turn runs it can be cancelled or told something, not ${String(action.case)}`;
    }
  }

  /** It is said again to all readers, in one event. */
  #heardMessage(message: UserMessage): void {
    if (lightestBytes(message) <= MESSAGE_BYTES_MAX) this.#said.push(message);
    else this.violation ??= `a message has at most ${MESSAGE_BYTES_MAX} bytes: attach the rest as a file`;
  }

  /** An event of our own is in the log, or will be before anything that follows from it. */
  logged(eventId: number, { message }: AgentServerMessage): void {
    switch (message.case) {
      case "interactionUpdate":
        this.#loggedUpdate(eventId, message.value);
        return;
      case "execServerMessage": {
        const { execId } = message.value;
        this.execsIssued++;
        this.feed({ kind: "exec_issued", execId, eventId, after: precededBy(execId) });
        return;
      }
      case "execServerControlMessage":
        if (message.value.message.case === "abort") this.stopped.add(message.value.message.value.execId);
        return;
      case "kvServerMessage":
        this.#loggedKv(message.value);
        return;
      case "interactionQuery": {
        const { id, query } = message.value;
        const toolCallId = query.case === undefined ? "" : query.value.toolCallId;
        this.queries.push({ id, step: this.lastStep?.step ?? 0, toolCallId });
        return;
      }
      case "conversationCheckpointUpdate":
        this.checkpoint = message.value;
        return;
      case undefined:
    }
  }

  #loggedUpdate(eventId: number, update: InteractionUpdate): void {
    const started = this.open?.started ?? [];
    this.open = openStepAfter(this.open, update);
    const { message } = update;
    switch (message.case) {
      case "userMessageAppended":
        this.#appended++;
        if (message.value.userMessage !== undefined) {
          this.entries.push({ kind: "user", message: message.value.userMessage });
        }
        return;
      case "stepStarted":
        this.feed({ kind: "step_started", eventId });
        return;
      case "stepRestarted":
        this.feed({ kind: "step_restarted", eventId });
        return;
      case "toolCallStarted":
        for (const execId of (this.open && message.value.toolCall?.execIds) ?? [])
          this.feed({ kind: "exec_planned", execId });
        return;
      case "stepCompleted":
        this.#stepCompleted(eventId, message.value, started);
        return;
      case "toolCallCompleted":
        if (message.value.toolCall !== undefined) this.#callOver(message.value.toolCall);
        return;
      case "shellOutputDelta":
      case "toolCallDelta": {
        const { execId } = message.value;
        this.#relayed.set(execId, (this.#relayed.get(execId) ?? 0) + 1);
        return;
      }
      case "summary":
        this.summary = message.value.text;
        return;
      case "turnEnded":
        this.hasEnded = true;
        return;
      default:
    }
  }

  #callOver(call: ToolCall): void {
    this.lastStep?.over.set(call.toolCallId, call);
    // What it has said is in its result, and no longer needed.
    for (const execId of call.execIds) this.#partials.delete(execId);
  }

  #stepCompleted(eventId: number, completed: StepCompletedUpdate, started: readonly ToolCall[]): void {
    this.feed({ kind: "step_completed" });
    const { step } = completed;
    this.entries.push({ kind: "step", record: { step, eventId, completed, started, over: new Map() } });
  }

  #loggedKv({ id, message }: KvServerMessage): void {
    this.kvIdMax = Math.max(this.kvIdMax, id);
    if (message.case === "setBlobArgs") this.#sets.set(hexOf(message.value.blobId), id);
    else if (message.case === "getBlobArgs") this.#gets.set(hexOf(message.value.blobId), id);
  }
}

function putFirst<Id, Value>(map: Map<Id, Value>, id: Id, value: Value): void {
  if (!map.has(id)) map.set(id, value);
}
