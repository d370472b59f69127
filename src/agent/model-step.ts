/**
 * One model call, from `step_started` to `step_completed`.
 *
 * Pieces are told as they come, and joined while the disk is busy. The whole is durable, as one message, with the event that completes the step: whoever
 * reads the log back needs nothing but that message, and no later code makes another one of it.
 */
import { type AssistantChatMessage, encodeChatMessage, type ToolCallPart } from "../protocol/chat-message.ts";
import { BlobKind, type Content, FinishReason } from "../protocol/messages.ts";
import { type CallPlan, needsExec } from "../turn/call-plan.ts";
import type { StepPlace } from "../turn/decision.ts";
import { execIdOf } from "../turn/exec-ids.ts";
import type { Model, ModelCall, FinishReason as ModelFinish } from "./model.ts";
import { ModelFailure } from "./model.ts";
import { Pieces } from "./pieces.ts";
import { StepOutput } from "./step-output.ts";
import type { TurnIo } from "./turn-io.ts";

export interface StepContext {
  readonly io: TurnIo;
  readonly keepsBlobs: boolean;
  readonly now: () => number;
  /** Of the call at this place among those of the step. */
  readonly plan: (tool: string, args: string, at: number) => CallPlan;
}

const FINISH_REASONS: Readonly<Record<ModelFinish, FinishReason>> = {
  stop: FinishReason.STOP,
  length: FinishReason.LENGTH,
  tool_calls: FinishReason.TOOL_CALLS,
  content_filter: FinishReason.CONTENT_FILTER,
  error: FinishReason.ERROR,
};

const encoder = new TextEncoder();

export class ModelStep {
  readonly #context: StepContext;
  readonly #place: StepPlace;
  readonly #output: StepOutput;
  #callCount = 0;

  constructor(context: StepContext, place: StepPlace) {
    this.#context = context;
    this.#place = place;
    this.#output = new StepOutput(place.step, context.now);
  }

  async run(model: Model, call: Omit<ModelCall, "signal">): Promise<void> {
    const { io } = this.#context;
    beginStep(io, this.#place, model.id);
    // A call is paid for, so a crash may cost one at most: what the step before it said is on disk.
    await io.untilDurable(io.facts.lastStep?.eventId ?? 0);
    // It may be this call that took the run before down: it is counted before it is made again (F1).
    if (this.#place.isRepeated) await io.untilDurable(io.head);
    const signal = AbortSignal.any([io.stream.signal, io.cancelSignal]);
    const pieces = new Pieces(io);
    try {
      // Cancelled while it waited for the disk: there is nobody to ask the model for.
      for await (const part of signal.aborted ? [] : model.call({ ...call, signal })) {
        const { updates, call: made } = this.#output.take(part);
        for (const update of updates) await pieces.say(update);
        if (made !== undefined) {
          await pieces.flush();
          await this.#announce(made);
        }
        if (signal.aborted) break;
      }
    } catch (error) {
      // A call that was stopped fails in whatever way its transport does.
      if (!signal.aborted) throw error;
    } finally {
      await pieces.flush();
    }
    await this.#complete(signal.aborted);
  }

  /** The exec ids are in the log before the step is complete: a restart issues the same ones. */
  async #announce(part: ToolCallPart): Promise<void> {
    const { io, plan } = this.#context;
    const { step, attempt } = this.#place;
    const at = this.#callCount++;
    const place = execIdOf(step, attempt, at);
    const argsJson = await io.content(encoder.encode(part.args));
    const { toolCallId, tool } = part;
    const execIds = needsExec(plan(tool, part.args, at)) ? [place] : [];
    const toolCall = { toolCallId, tool, argsJson, execIds };
    await io.update({ case: "toolCallStarted", value: { toolCall } });
  }

  /** A call that the user cancelled is complete with what there is of it. */
  async #complete(isCut: boolean): Promise<void> {
    const { io } = this.#context;
    const { finish, message, usage } = this.#output;
    if (finish === undefined && !isCut) {
      const message = "the model's answer ended in the middle; try again";
      throw new ModelFailure("unavailable", message, { isPassing: true });
    }
    if (finish === undefined) this.#output.take({ kind: "text_end" });
    const content = await this.#content(message);
    if (usage.outputTokens > 0) void io.update({ case: "tokenDelta", value: { tokens: usage.outputTokens } });
    await io.update({
      case: "stepCompleted",
      value: {
        step: this.#place.step,
        finishReason: FINISH_REASONS[finish?.reason ?? "stop"],
        message: content,
        usage: { ...usage },
      },
    });
  }

  #content(message: AssistantChatMessage): Promise<Content> {
    const { io, keepsBlobs } = this.#context;
    const bytes = encodeChatMessage(message);
    return keepsBlobs ? io.setBlob(bytes, BlobKind.ASSISTANT_MESSAGE) : io.content(bytes);
  }
}

export function beginStep(io: TurnIo, place: StepPlace, model: string): void {
  const { step, attempt, rollbackTo, requestsBefore } = place;
  if (rollbackTo === undefined) {
    void io.update({ case: "stepStarted", value: { step, model, requestsBefore } });
  } else {
    const value = { step, rollbackToEventId: String(rollbackTo), attempt, requestsBefore };
    void io.update({ case: "stepRestarted", value });
  }
}
