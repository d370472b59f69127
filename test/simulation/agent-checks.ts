/**
 * Checks of a production turn as it becomes durable: A8, B3, C0, C1, F1, and the rule of checkpoints.
 *
 * Everything is read from the two logs, as any later reader would, event by event.
 */
import { fromBinary } from "../../src/protocol/message.ts";
import {
  type ChatMessage,
  decodeChatMessage,
  textOf,
  type ToolCallPart,
} from "../../src/protocol/chat-message.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
  type ConversationAction,
  type ConversationState,
  type ExecClientMessage,
  FailureKind,
  type InteractionUpdate,
  type KvServerMessage,
  type RunRequest,
  TurnEndReason,
} from "../../src/protocol/messages.ts";
import type { StreamState } from "../../src/core/stream-state.ts";
import type { LogEntry } from "../../src/server/entries.ts";
import { TurnAccount } from "./agent-account.ts";
import { fail } from "./log-checks.ts";
import type { ProviderChecks } from "./provider-checks.ts";
import { nameId, type TruthListener, type TrueStream } from "./truth.ts";
import type { World } from "./world/index.ts";

export class TurnChecks implements TruthListener {
  readonly #world: World;
  readonly #accounts = new Map<string, TurnAccount>();
  readonly #pending: { readonly eventId: number; readonly entry: LogEntry }[] = [];
  /** Told when an event is durable; `count` is the number over all streams. */
  onEvent: (count: number) => void = () => undefined;
  events = 0;

  /** Of a stream that has run without its store what is repeated later is an echo, and proves nothing. */
  readonly #isEcho: (idempotencyKey: string) => boolean;
  /** Where it is known what the providers have said. */
  readonly #provider: ProviderChecks | undefined;

  constructor(
    world: World,
    isEcho: (idempotencyKey: string) => boolean = () => false,
    provider?: ProviderChecks,
  ) {
    this.#world = world;
    this.#isEcho = isEcho;
    this.#provider = provider;
  }

  /** Of a conversation that is no echo. */
  turnOf(conversationId: string): TurnAccount | undefined {
    return this.turns.find(
      (turn) => turn.conversationId === conversationId && !this.#isEcho(turn.idempotencyKey),
    );
  }

  /** In the order in which the streams began. */
  get turns(): readonly TurnAccount[] {
    return [...this.#accounts.values()];
  }

  began(stream: TrueStream): void {
    this.#accounts.set(nameId(stream.name), new TurnAccount(stream.name.idempotencyKey));
  }

  chunk(stream: TrueStream, seqno: number, { mark, body }: LogEntry): void {
    this.#world.trace("truth", "chunk durable", stream.name.idempotencyKey, seqno);
    const turn = this.#of(stream);
    if (mark === "close") turn.isClosed = true;
    if (mark === "close" || this.#isEcho(turn.idempotencyKey)) return;
    const { message } = fromBinary(AgentClientMessageSchema, body);
    if (message.case === "runRequest") {
      begun(turn, message.value);
      this.#provider?.requested(turn.conversationId);
    }
    if (message.case === "conversationAction") acted(turn, message.value);
    if (message.case === "execClientMessage") heardReply(turn, message.value);
    if (message.case === "kvClientMessage" && message.value.message.case === "setBlobResult") {
      const { error } = message.value.message.value;
      if (error === undefined) turn.kept(message.value.id);
    }
  }

  /**
   * One commit is there whole or not at all, and what the client said in it came first: events are looked at when the
   * chunks beside them are known.
   */
  event(_: TrueStream, eventId: number, entry: LogEntry): void {
    this.#pending.push({ eventId, entry });
  }

  changed(stream: TrueStream, before: StreamState): void {
    const { writers } = stream.state;
    if (writers.length > before.writers.length && before.writers.length > 0) this.#of(stream).takenOver();
    for (const { eventId, entry } of this.#pending.splice(0)) this.#event(stream, eventId, entry);
    // Also by an abort, which may end a turn without a word of it.
    if (stream.state.end !== undefined) this.#of(stream).endedBy ??= stream.state.hostEpoch;
  }

  #event(stream: TrueStream, eventId: number, { mark, body }: LogEntry): void {
    const turn = this.#of(stream);
    const isSkipped = body.length === 0 || this.#isEcho(turn.idempotencyKey);
    const { message } = fromBinary(AgentServerMessageSchema, isSkipped ? new Uint8Array() : body);
    if (isSkipped || isForged(message)) return;
    // Execs up to here are the writer's before, and answered by it or by nobody (D2).
    const takenOverAt = Math.max(0, ...stream.state.writers.slice(1).map(({ sinceEvent }) => sinceEvent));
    this.#world.trace("truth", "event durable", stream.name.idempotencyKey, eventId, message.case);
    if (turn.end !== undefined) fail("B6", "an event follows the end");
    const met = conditionOf(message);
    if (met !== undefined) this.#world.hit(`sometimes.${met}`);
    switch (message.case) {
      case "interactionUpdate":
        updated(turn, eventId, message.value, takenOverAt, stream.state.hostEpoch);
        this.#heardOfProvider(turn, message.value);
        break;
      case "execServerMessage":
        turn.issued(message.value.execId, eventId, takenOverAt);
        break;
      case "kvServerMessage":
        asked(turn, message.value);
        break;
      case "conversationCheckpointUpdate":
        checkpoint(turn, message.value);
        break;
      case "interactionQuery":
        turn.askedUser(message.value.query.value?.toolCallId ?? "");
        break;
      case "execServerControlMessage":
        break;
      default:
        fail("B1", `nothing in these turns says ${String(message.case)}`);
    }
    if ((mark !== "plain") !== (turn.end !== undefined)) fail("B6", "a turn ends with its stream");
    this.onEvent(++this.events);
  }

  /** What the log says of the model's output is held against what the providers really said. */
  #heardOfProvider(turn: TurnAccount, { message }: InteractionUpdate): void {
    if (this.#provider === undefined || turn.isCommand) return;
    const { conversationId } = turn;
    if (message.case === "stepRestarted" || message.case === "stepContinued")
      this.#provider.counted(conversationId, message.value.step, message.value.requestsBefore);
    if (message.case === "stepContinued" && message.value.isUnproved) this.#provider.unproved(conversationId);
    if (message.case !== "stepCompleted") return;
    const said = messageOf(turn, message.value);
    const calls = said === undefined ? [] : callsOf(said).map(({ args }) => args);
    const text = said === undefined ? "" : textOf(said);
    this.#provider.completed({ conversationId, text, calls, mayBeCut: turn.isCancelled });
  }

  gone(stream: TrueStream): void {
    this.#accounts.delete(nameId(stream.name));
  }

  #of(stream: TrueStream): TurnAccount {
    return this.#accounts.get(nameId(stream.name)) ?? fail("B2", "a stream that never began");
  }
}

function begun(turn: TurnAccount, { conversationState, action, conversationId, options }: RunRequest): void {
  turn.conversationId = conversationId;
  turn.isShownFinal = options?.shownIsFinal === true;
  if (conversationState !== undefined) turn.keptBefore(namedBy(conversationState));
  turn.isCommand = action?.action.case === "shellCommandAction";
  if (action !== undefined) acted(turn, action);
}

function acted(turn: TurnAccount, { action }: ConversationAction): void {
  if (action.case === "userMessageAction") turn.said(action.value.userMessage?.text ?? "");
  if (action.case === "cancelAction") turn.isCancelled = true;
}

function heardReply(turn: TurnAccount, { execId, message }: ExecClientMessage): void {
  const result = message.case === undefined ? undefined : message.value.result;
  if (result?.case === "output")
    turn.partial(execId, Buffer.from(result.value.output.value ?? []).toString());
  else if (result?.case === "progress") turn.partial(execId, result.value.text);
  else if (result?.case === "started") turn.partial(execId, undefined);
  else turn.replied(execId, result?.case ?? "nothing");
}

/** What a campaign must have met, or it has not run every decision of a turn. */
function conditionOf(message: AgentServerMessage["message"]): string | undefined {
  switch (message.case) {
    case "interactionQuery":
      return "asked_user";
    case "conversationCheckpointUpdate":
      return "checkpoint";
    case "kvServerMessage":
      return message.value.message.case === "getBlobArgs" ? "blob_asked_for" : undefined;
    case "execServerMessage":
      if (message.value.toolCallId === "command") return "command";
      return message.value.execId.endsWith(".write") ? "edit_written" : undefined;
    case "interactionUpdate":
      if (message.value.message.case === "summary") return "summary";
      return message.value.message.case === "shellOutputDelta" ? "relayed" : undefined;
    default:
      return undefined;
  }
}

/** A second voice said it, not the turn. */
function isForged(message: AgentServerMessage["message"]): boolean {
  return message.case === "execServerMessage" && message.value.message.case === "shellArgs";
}

function updated(
  turn: TurnAccount,
  eventId: number,
  { message }: InteractionUpdate,
  takenOverAt: number,
  hostEpoch: number,
): void {
  switch (message.case) {
    case "stepStarted":
      turn.stepStarted(eventId, message.value.step);
      return;
    case "stepRestarted":
      turn.stepRestarted(message.value.step, Number(message.value.rollbackToEventId), hostEpoch);
      return;
    case "stepContinued":
      turn.stepContinued(message.value.step, Number(message.value.rollbackToEventId));
      return;
    case "textDelta":
      turn.wrote(eventId, message.value.text, hostEpoch);
      return;
    case "toolCallStarted":
      turn.planned(eventId, message.value.toolCall?.toolCallId ?? "", message.value.toolCall?.execIds ?? []);
      return;
    case "stepCompleted": {
      const said = messageOf(turn, message.value);
      // A command of the user's is a step without a message.
      if (said === undefined) return turn.stepCompleted(message.value.step, "", 1);
      turn.stepCompleted(message.value.step, textOf(said), callsOf(said).length);
      return;
    }
    case "toolCallCompleted":
      turn.callOver(
        message.value.toolCall?.toolCallId ?? "",
        message.value.toolCall?.execIds ?? [],
        takenOverAt,
      );
      return;
    case "userMessageAppended":
      turn.appended(message.value.userMessage?.text ?? "");
      return;
    case "shellOutputDelta":
      turn.relayed(message.value.execId, Buffer.from(message.value.output.value ?? []).toString());
      return;
    case "toolCallDelta":
      turn.relayed(message.value.execId, message.value.text);
      return;
    case "summary":
      turn.summed(message.value.text);
      return;
    case "turnEnded":
      turn.end = message.value.reason;
      if (turn.end === TurnEndReason.COMPLETED) turn.completed();
      failedAs(turn, message.value.failure?.kind);
      return;
    default:
  }
}

function messageOf(
  turn: TurnAccount,
  { message }: Extract<InteractionUpdate["message"], { case: "stepCompleted" }>["value"],
): ChatMessage | undefined {
  const content = message?.content;
  if (content === undefined) return undefined;
  const bytes =
    content.case === "inline"
      ? content.value
      : turn.bytesOf(Buffer.from(content.value ?? []).toString("hex"));
  return decodeChatMessage(bytes ?? fail("C0", "a step's message is not in the log"));
}

function callsOf(said: ChatMessage): readonly ToolCallPart[] {
  return said.role === "assistant" ? said.content.filter((part) => part.type === "tool-call") : [];
}

/** Providers fail, and steps are cut off too often; but the user has every blob, and the server makes no mistake. */
function failedAs({ isClosed }: TurnAccount, kind: FailureKind | undefined): void {
  if (kind === FailureKind.INTERNAL) fail("F1", "a turn failed by a mistake of the server");
  if (kind === FailureKind.BLOB_MISSING && !isClosed) fail("C4", "a blob that the user keeps was not found");
}

function asked(turn: TurnAccount, { id, message }: KvServerMessage): void {
  if (message.case !== "setBlobArgs") return;
  const { blobId, blobData } = message.value;
  turn.askedToKeep(id, Buffer.from(blobId).toString("hex"), blobData);
}

function namedBy(state: ConversationState): readonly string[] {
  const pages = [...state.messagePages, ...state.turnPages].map(({ page }) => page);
  return [...state.messages, ...state.turns, ...state.todos, ...pages].map((id) =>
    Buffer.from(id).toString("hex"),
  );
}

function checkpoint(turn: TurnAccount, state: ConversationState): void {
  turn.checkpoint(
    namedBy(state),
    state.turns.map((id) => Buffer.from(id).toString("hex")),
  );
  turn.lastCheckpoint = state;
}
