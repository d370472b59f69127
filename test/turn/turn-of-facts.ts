/**
 * A turn made of facts alone: both logs are said to it, and it says what is next. No server, no client, no waiting.
 */
import { create, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import { createHash } from "node:crypto";
import { TURN_LIMITS } from "../../src/agent/index.ts";
import { offerOf } from "../../src/agent/tool-plan.ts";
import { encodeChatMessage } from "../../src/protocol/chat-message.ts";
import {
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  ExecKind,
  type InteractionUpdateSchema,
  type RunRequestSchema,
} from "../../src/protocol/messages.ts";
import type { Decision } from "../../src/turn/decision.ts";
import { failure } from "../../src/turn/failure.ts";
import { type Facts, heard, type Heard, logged, newFacts } from "../../src/turn/facts.ts";
import { next } from "../../src/turn/next.ts";

export type Said = NonNullable<MessageInitShape<typeof AgentClientMessageSchema>["message"]>;
export type Told = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;
export type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;
export type Request = Omit<MessageInitShape<typeof RunRequestSchema>, "$typeName">;

export function idOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

const KINDS = [ExecKind.SHELL_STREAM, ExecKind.READ, ExecKind.WRITE, ExecKind.SUBAGENT];

export class TurnOfFacts {
  readonly facts: Facts = newFacts(idOf);
  #seqno = 0;
  #eventId = 0;

  /** With a request that asks, and the user's words in the log, unless told otherwise. */
  static asked(request: Request = {}): TurnOfFacts {
    const turn = new TurnOfFacts();
    turn.request(request);
    if (request.action === undefined)
      turn.update({ case: "userMessageAppended", value: { userMessage: { text: "go" } } });
    return turn;
  }

  request(request: Request): void {
    const action = { action: { case: "userMessageAction", value: { userMessage: { text: "go" } } } } as const;
    const whole = { conversationId: "c", execKinds: KINDS, action, ...request };
    this.say({ case: "runRequest", value: whole });
    const made = this.facts.request;
    if (made !== undefined)
      this.facts.found.opened = {
        plans: offerOf(made),
        contextTokensMax: 1_000,
        holdsCalls: false,
        keepsConversation: made.serverKeepsBlobs,
      };
  }

  say(message: Said, seqno: number = this.#seqno++): void {
    const body = toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message }));
    this.hear({ kind: "chunk", seqno, body });
  }

  hear(input: Heard): void {
    heard(this.facts, input);
  }

  tell(message: Told, eventId: number = this.#eventId + 1): void {
    this.#eventId = Math.max(this.#eventId, eventId);
    logged(this.facts, eventId, create(AgentServerMessageSchema, { message }));
  }

  update(message: Update, eventId?: number): void {
    this.tell({ case: "interactionUpdate", value: { message } }, eventId);
  }

  next(limits: Partial<typeof TURN_LIMITS> = {}): Decision {
    return next(this.facts, { ...TURN_LIMITS, ...limits });
  }

  started(eventId?: number, requestsBefore = 0): void {
    this.update({ case: "stepStarted", value: { step: this.facts.steps, requestsBefore } }, eventId);
  }

  restarted(eventId?: number): void {
    this.update({ case: "stepRestarted", value: { step: this.facts.steps - 1 } }, eventId);
  }

  /** A call whose first exec has this id, and so has the call. */
  planned(execId: string, tool = "read"): void {
    this.update({
      case: "toolCallStarted",
      value: { toolCall: { toolCallId: execId, tool, execIds: [execId] } },
    });
  }

  /** With the calls that the open step has planned; an edit's arguments replace `a` by `b`. */
  completed(text = "", eventId?: number): void {
    const edits = [{ old_text: "a", new_text: "b" }];
    const calls = (this.facts.open?.started ?? []).map(({ toolCallId, tool }) => ({
      type: "tool-call" as const,
      toolCallId,
      tool,
      args: JSON.stringify({ path: toolCallId, command: toolCallId, edits }),
    }));
    const texts = text === "" ? [] : [{ type: "text" as const, text }];
    const value = encodeChatMessage({ role: "assistant", content: [...texts, ...calls] });
    const message = { content: { case: "inline", value } } as const;
    this.update({ case: "stepCompleted", value: { step: this.facts.steps - 1, message } }, eventId);
  }

  issued(execId: string, eventId?: number): void {
    const message = { case: "readArgs", value: { path: execId } } as const;
    this.tell({ case: "execServerMessage", value: { execId, message } }, eventId);
  }

  result(execId: string, seqno?: number, text = "a"): void {
    const content = { content: { case: "inline", value: Buffer.from(text) } } as const;
    const success = { content, sizeBytes: text.length, totalLines: 1 };
    const message = { case: "readResult", value: { result: { case: "success", value: success } } } as const;
    this.say({ case: "execClientMessage", value: { execId, message } }, seqno);
  }

  over(toolCallId: string, execIds: readonly string[] = [toolCallId]): void {
    this.update({ case: "toolCallCompleted", value: { toolCall: { toolCallId, execIds: [...execIds] } } });
  }
}

/** The decision, in the words that matter for a rule. */
export function wanted(turn: TurnOfFacts): string {
  const decision = turn.next();
  switch (decision.kind) {
    case "issue":
      return `issue ${decision.execs.map(({ execId }) => execId).join(" ")}`;
    case "complete":
      return `complete ${decision.calls.map(({ part, result }) => `${part.toolCallId} ${result.outcome}`).join(", ")}`;
    case "stop":
      return `stop ${decision.execIds.join(" ")}`;
    case "fetch":
    case "get":
      return `${decision.kind} ${decision.blobIds.length}`;
    case "call_model": {
      const { step, attempt, begin } = decision.place;
      if (begin.how === "attach") return `attach to step ${step}, attempt ${attempt}`;
      if (begin.how === "prefill") {
        const { join, rollbackTo, continuation } = begin;
        const how = `${continuation}${join.isUnproved ? ", unproved" : ""}`;
        return `continue step ${step} behind ${rollbackTo}, attempt ${attempt}, continuation ${how}`;
      }
      return begin.how === "start"
        ? `call the model for step ${step}`
        : `restart step ${step} from ${begin.rollbackTo}, attempt ${attempt}`;
    }
    case "end":
      return decision.ending.reason === "failed"
        ? `fail: ${decision.ending.failure.message}`
        : decision.ending.reason;
    default:
      return decision.kind;
  }
}

/** The provider broke off what the open step has said. */
export function broke(
  turn: TurnOfFacts,
  more: Partial<NonNullable<typeof turn.facts.found.broken>> = {},
): void {
  turn.facts.found.broken = {
    failure: failure("internal", "the provider broke off"),
    isPassing: true,
    retryAfterMs: undefined,
    requests: 1,
    passedMs: 0,
    random: 0.5,
    wasHeld: false,
    isUnjoined: false,
    ...more,
  };
}
