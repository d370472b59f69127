/**
 * Checks of a production turn as it becomes durable: A8, B3, C0, C1, F1, and the rule of checkpoints.
 *
 * Everything is read from the two logs, as any later reader would, event by event.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { decodeChatMessage, textOf } from "../../src/protocol/chat-message.ts";
import {
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  type ConversationState,
  type ExecClientMessage,
  type InteractionUpdate,
  type KvServerMessage,
} from "../../src/protocol/messages.ts";
import type { StreamState } from "../../src/core/stream-state.ts";
import type { LogEntry } from "../../src/server/entries.ts";
import { TurnAccount } from "./agent-account.ts";
import { fail } from "./log-checks.ts";
import { nameId, type TruthListener, type TrueStream } from "./truth.ts";
import type { World } from "./world/index.ts";

export class TurnChecks implements TruthListener {
  readonly #world: World;
  readonly #accounts = new Map<string, TurnAccount>();
  readonly #pending: { readonly eventId: number; readonly entry: LogEntry }[] = [];
  /** Told when an event is durable; `count` is the number over all streams. */
  onEvent: (count: number) => void = () => undefined;
  events = 0;

  constructor(world: World) {
    this.#world = world;
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
    if (mark === "close") return;
    const turn = this.#of(stream);
    const { message } = fromBinary(AgentClientMessageSchema, body);
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
  }

  #event(stream: TrueStream, eventId: number, { mark, body }: LogEntry): void {
    const turn = this.#of(stream);
    const { message } = fromBinary(AgentServerMessageSchema, body);
    this.#world.trace("truth", "event durable", stream.name.idempotencyKey, eventId, message.case);
    if (turn.end !== undefined) fail("B6", "an event follows the end");
    switch (message.case) {
      case "interactionUpdate":
        updated(turn, eventId, message.value);
        break;
      case "execServerMessage":
        turn.issued(message.value.execId);
        break;
      case "kvServerMessage":
        asked(turn, message.value);
        break;
      case "conversationCheckpointUpdate":
        checkpoint(turn, message.value);
        break;
      default:
        fail("B1", `nothing in these turns says ${String(message.case)}`);
    }
    if ((mark !== "plain") !== (turn.end !== undefined)) fail("B6", "a turn ends with its stream");
    this.onEvent(++this.events);
  }

  gone(): void {
    fail("A7", "a stream was given up");
  }

  #of(stream: TrueStream): TurnAccount {
    return this.#accounts.get(nameId(stream.name)) ?? fail("B2", "a stream that never began");
  }
}

function heardReply(turn: TurnAccount, { execId, message }: ExecClientMessage): void {
  const result = message.case === undefined ? undefined : message.value.result.case;
  if (result === "output" || result === "started") turn.partial(execId);
  else turn.replied(execId, result ?? "nothing");
}

function updated(turn: TurnAccount, eventId: number, { message }: InteractionUpdate): void {
  switch (message.case) {
    case "stepStarted":
      turn.stepStarted(eventId, message.value.step);
      return;
    case "stepRestarted":
      turn.stepRestarted(message.value.step, Number(message.value.rollbackToEventId));
      return;
    case "textDelta":
      turn.wrote(eventId, message.value.text);
      return;
    case "toolCallStarted":
      turn.planned(eventId, message.value.toolCall?.toolCallId ?? "", message.value.toolCall?.execIds ?? []);
      return;
    case "stepCompleted": {
      const content = message.value.message?.content;
      if (content?.case !== "blobId") return fail("C0", "a step's message is not named");
      const bytes = turn.bytesOf(Buffer.from(content.value).toString("hex"));
      const said = decodeChatMessage(bytes ?? fail("C0", "a step's message is not in the log"));
      const calls = said.role === "assistant" ? said.content.filter(({ type }) => type === "tool-call") : [];
      turn.stepCompleted(message.value.step, textOf(said), calls.length);
      return;
    }
    case "toolCallCompleted":
      turn.callOver(message.value.toolCall?.toolCallId ?? "", message.value.toolCall?.execIds ?? []);
      return;
    case "turnEnded":
      turn.end = message.value.reason;
      return;
    default:
  }
}

function asked(turn: TurnAccount, { id, message }: KvServerMessage): void {
  if (message.case !== "setBlobArgs") return;
  const { blobId, blobData } = message.value;
  turn.askedToKeep(id, Buffer.from(blobId).toString("hex"), blobData);
}

function checkpoint(turn: TurnAccount, state: ConversationState): void {
  const pages = [...state.messagePages, ...state.turnPages].map(({ page }) => page);
  const own = [...state.messages, ...state.turns, ...state.todos, ...pages].map((id) =>
    Buffer.from(id).toString("hex"),
  );
  turn.checkpoint(
    own,
    state.turns.map((id) => Buffer.from(id).toString("hex")),
  );
  turn.lastCheckpoint = state;
}
