/**
 * A turn's events as four sub-streams: interaction, exec, checkpoint, kv.
 *
 * The events come in one order and are handed out in it. A slow reader of one sub-stream holds up
 * the others for a bounded time, once; then it is cut with an error, and the others continue.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { EndReason } from "../../protocol/frames.ts";
import {
  type AgentServerMessage,
  type ConversationState,
  FailureKind,
  type KvServerMessage,
  TurnEndReason,
} from "../../protocol/messages.ts";
import { systemEnvironment } from "../../transport/environment.ts";
import type { StreamEvent } from "../event-queue.ts";
import { SubStream, type SubStreamBounds } from "./sub-stream.ts";
import { decodeServer, updateMessage, updateOf } from "../../turn/messages.ts";

/** A message with the event that carried it; event id 0 on a degraded stream. */
export interface Heard<Message> {
  readonly eventId: number;
  readonly message: Message;
}

type CaseOf<Case extends string> = Extract<AgentServerMessage["message"], { readonly case: Case }>;

export type InteractionMessage = CaseOf<"interactionUpdate" | "interactionQuery">;
export type ExecMessage = CaseOf<"execServerMessage" | "execServerControlMessage">;

export type SubStreamName = "interaction" | "exec" | "checkpoint" | "kv";

export interface SplitStream {
  /** What happens, and what the user is asked. The last one is `turnEnded`. */
  readonly interaction: AsyncIterableIterator<Heard<InteractionMessage>>;
  /** What the client is asked to carry out. */
  readonly exec: AsyncIterableIterator<Heard<ExecMessage>>;
  readonly checkpoint: AsyncIterableIterator<Heard<ConversationState>>;
  readonly kv: AsyncIterableIterator<Heard<KvServerMessage>>;
  /** Resolves when all events were handed out, rejects as the events did. */
  readonly done: Promise<void>;
}

export interface SplitOptions extends Partial<SubStreamBounds> {
  /** How long one slow reader may hold up the others before it is cut. */
  readonly patienceMs?: number;
  /** A sub-stream was cut because its reader was slow; called once for each. */
  readonly onSlow?: (name: SubStreamName) => void;
  /** A message of a kind that this client does not know: it was skipped. */
  readonly onUnknown?: (eventId: number) => void;
  readonly after?: (delayMs: number, run: () => void) => () => void;
}

export const SPLIT_DEFAULTS = Object.freeze({
  /** A fast model writes some 200 messages in a second. */
  countMax: 1_024,
  /** Four of the largest events. */
  bytesMax: 1024 * 1024,
  /** Longer than any work between two messages should take, shorter than people wait. */
  patienceMs: 5_000,
});

export interface AgentEvent {
  readonly eventId: number;
  readonly message: AgentServerMessage;
  readonly bytes: number;
}

/**
 * What an event says. One that cannot be read fails: it may have been a request that needs an answer. The last one
 * of a stream always says that the turn ended, also when the server had no words for it.
 */
export function readAgentEvent({ eventId, body, end }: StreamEvent): readonly AgentEvent[] {
  const said: AgentEvent = { eventId, message: decode(eventId, body), bytes: body.length };
  if (end === undefined) return [said];
  if (updateOf(said.message).case === "turnEnded") return [said];
  const ended = { eventId, message: turnEnded(end), bytes: 0 };
  return said.message.message.case === undefined ? [ended] : [said, ended];
}

function turnEnded(end: EndReason): AgentServerMessage {
  const reason = {
    completed: TurnEndReason.COMPLETED,
    aborted: TurnEndReason.ABORTED,
    failed: TurnEndReason.FAILED,
  }[end];
  const failure = { kind: FailureKind.INTERNAL, message: "the server ended this turn without saying why" };
  const value = end === "failed" ? { reason, failure } : { reason };
  return updateMessage({ case: "turnEnded", value });
}

function decode(eventId: number, body: Uint8Array): AgentServerMessage {
  try {
    return decodeServer(body);
  } catch (cause) {
    throw new HoldfastError("invalid_frame", `event ${eventId} is no agent message: this is no turn`, {
      cause,
    });
  }
}

export function splitStream(events: AsyncIterable<StreamEvent>, options: SplitOptions = {}): SplitStream {
  return splitMessages(messagesOf(events), options);
}

async function* messagesOf(events: AsyncIterable<StreamEvent>): AsyncGenerator<AgentEvent, void, undefined> {
  for await (const event of events) yield* readAgentEvent(event);
}

/** The same for messages that were read already. */
export function splitMessages(messages: AsyncIterable<AgentEvent>, options: SplitOptions = {}): SplitStream {
  const bounds = { ...SPLIT_DEFAULTS, ...options };
  const streams = {
    interaction: new SubStream<Heard<InteractionMessage>>("interaction", bounds),
    exec: new SubStream<Heard<ExecMessage>>("exec", bounds),
    checkpoint: new SubStream<Heard<ConversationState>>("checkpoint", bounds),
    kv: new SubStream<Heard<KvServerMessage>>("kv", bounds),
  };
  const handOut = ({ eventId, message: { message }, bytes }: AgentEvent): SubStreamName | undefined => {
    switch (message.case) {
      case "interactionUpdate":
      case "interactionQuery":
        streams.interaction.push({ eventId, message }, bytes);
        return "interaction";
      case "execServerMessage":
      case "execServerControlMessage":
        streams.exec.push({ eventId, message }, bytes);
        return "exec";
      case "conversationCheckpointUpdate":
        streams.checkpoint.push({ eventId, message: message.value }, bytes);
        return "checkpoint";
      case "kvServerMessage":
        streams.kv.push({ eventId, message: message.value }, bytes);
        return "kv";
      case undefined:
        options.onUnknown?.(eventId);
        return undefined;
    }
  };
  const pump = async (): Promise<void> => {
    for await (const event of messages) {
      const name = handOut(event);
      if (name !== undefined && streams[name].isFull) await haveRoom(streams[name], name, bounds);
    }
  };
  const finishAll = (failure: Error | undefined): void => {
    for (const stream of Object.values(streams)) stream.finish(failure);
  };
  const done = pump().then(
    () => finishAll(undefined),
    (cause: unknown) => {
      finishAll(cause instanceof Error ? cause : new HoldfastError("internal", String(cause)));
      throw cause;
    },
  );
  // Readers of a sub-stream get the error as well.
  done.catch(() => undefined);
  return { ...streams, done };
}

/** Waits for a reader that is behind, and cuts it when it stays so. */
async function haveRoom(
  stream: SubStream<unknown>,
  name: SubStreamName,
  { patienceMs, onSlow, after }: SplitOptions & { readonly patienceMs: number },
): Promise<void> {
  const impatience = Promise.withResolvers<void>();
  const expire = (): void => impatience.resolve();
  const cancel = after?.(patienceMs, expire) ?? systemEnvironment().after(patienceMs, expire);
  await Promise.race([stream.room(), impatience.promise]);
  cancel();
  if (!stream.isFull) return;
  stream.cut();
  onSlow?.(name);
}
