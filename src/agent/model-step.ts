/**
 * One model call, from `step_started` to `step_completed`.
 *
 * Pieces are said as they come, and joined while the disk is busy. The whole is durable, as one message, with the event that completes the step: a
 * reader of the log needs nothing but that message, and no later code makes another one of it.
 *
 * A call that was held while the server was away is read again from its beginning: the message is made of all of it, the events are what the log lacks.
 */
import { type AssistantChatMessage, encodeChatMessage, type ToolCallPart } from "../protocol/chat-message.ts";
import { BlobKind, type Content, FinishReason } from "../protocol/messages.ts";
import { type CallPlan, needsExec } from "../turn/call-plan.ts";
import type { StepPlace } from "../turn/decision.ts";
import { execIdOf } from "../turn/exec-ids.ts";
import type { Run } from "../turn/open-step.ts";
import { textIn } from "../turn/content.ts";
import type { Output } from "../turn/messages.ts";
import { Join } from "../turn/join.ts";
import { PassOver } from "../turn/pass-over.ts";
import type { Model, ModelCall, FinishReason as ModelFinish, ModelPart, RequestBudget } from "./model.ts";
import { ModelFailure } from "./model.ts";
import { Pieces } from "./pieces.ts";
import { StepOutput } from "./step-output.ts";
import type { TurnIo } from "./turn-io.ts";

interface StepContext {
  readonly io: TurnIo;
  readonly keepsBlobs: boolean;
  readonly now: () => number;
  /** Of the call at this place among those of the step. */
  readonly plan: (tool: string, args: string, at: number) => CallPlan;
  /** The model writes on behind the text so far. */
  readonly onJoined: () => void;
}

const FINISH_REASONS: Readonly<Record<ModelFinish, FinishReason>> = {
  stop: FinishReason.STOP,
  length: FinishReason.LENGTH,
  tool_calls: FinishReason.TOOL_CALLS,
  content_filter: FinishReason.CONTENT_FILTER,
  error: FinishReason.ERROR,
};

const encoder = new TextEncoder();

const NO_REQUESTS: RequestBudget = { take: async () => undefined, mayWait: () => false };

/** The generation says something else than the log has in its place. */
export class Diverged extends Error {}

/** The model was to write on behind the text so far, and did not. */
export class Unjoined extends ModelFailure {
  constructor() {
    const message = "the provider broke the answer off, and the model does not continue it; send it again";
    super("unavailable", message, { isPassing: true });
  }
}

export class ModelStep {
  readonly #context: StepContext;
  readonly #place: StepPlace;
  readonly #passOver: PassOver;
  /** For an attempt that continues the text of another one. */
  readonly #join: Join | undefined;
  #output: StepOutput;
  #callCount = 0;

  constructor(context: StepContext, place: StepPlace) {
    this.#context = context;
    this.#place = place;
    const { begin, step } = place;
    this.#output = new StepOutput(step, context.now);
    const joined = "join" in begin ? begin.join : undefined;
    this.#join = joined === undefined ? undefined : new Join(joined);
    // The step's message has all of its text; the rest is added to it.
    if (joined !== undefined) this.#output.take({ kind: "text", text: joined.text });
    this.#passOver = new PassOver(begin.how === "attach" ? begin.runs : []);
  }

  /** Throws `Diverged` when a held call says something else than the log has of it. */
  async run(model: Model, call: Omit<ModelCall, "signal">): Promise<void> {
    const { io } = this.#context;
    const isHeld = this.#place.begin.how === "attach";
    beginStep(io, this.#place, model.id);
    // A call is paid for, so a crash may cost one at most: what the step before it said is on disk.
    await io.untilDurable(io.facts.lastStep?.eventId ?? 0);
    // It may be this call that took the run before down: it is counted before it is made again (F1).
    if (this.#place.isRepeated) await io.untilDurable(io.head);
    const signal = io.stopSignal;
    const pieces = new Pieces(io);
    // No request leaves for a call that is held, so none is counted (G2).
    const held = isHeld
      ? ({ requests: NO_REQUESTS, mode: "attach", isLogged: () => !this.#passOver.isPast() } as const)
      : ({ mode: this.#mayBeHeld ? "begin" : "fresh" } as const);
    try {
      // Cancelled while it waited for the disk: no client wants the answer any more.
      for await (const part of signal.aborted ? [] : model.call({ ...call, ...held, signal })) {
        for (const own of this.#joined(part)) await this.#take(own, pieces);
        if (signal.aborted) break;
      }
    } catch (error) {
      // A call that was stopped fails in whatever way its transport does.
      if (!signal.aborted) throw error;
    } finally {
      await pieces.flush();
    }
    if (signal.aborted) this.#takeLogged();
    await this.#complete(signal.aborted);
    // A run that is gone by then says nothing: what is held is dropped when its time is over.
    io.untilDurable(io.head)
      .then(() => model.done?.(call))
      .catch(() => undefined);
  }

  /** A run that died may have made this call, and left nothing in the log. Of a stream whose name is new there was none. */
  get #mayBeHeld(): boolean {
    const { step, isRepeated } = this.#place;
    return isRepeated || (step === 0 && this.#context.io.stream.lasting?.isNew === false);
  }

  async #take(part: ModelPart, pieces: Pieces): Promise<void> {
    const { updates, call } = this.#output.take(this.#named(part));
    for (const update of updates) {
      const news = this.#news(update);
      if (news !== undefined) await pieces.say(news);
    }
    if (call === undefined) return;
    await pieces.flush();
    await this.#announce(call);
  }

  /** What the model wrote behind the text so far. Thoughts of another generation are none of this answer's. */
  #joined(part: ModelPart): readonly ModelPart[] {
    const join = this.#join;
    if (join === undefined) return [part];
    switch (part.kind) {
      case "fallback":
        return [part];
      case "thinking":
      case "thinking_end":
        return [];
      case "text_end":
        return join.isMade ? [part] : [];
      case "text":
        return this.#written(join, join.isMade, join.take(part.text));
      case "tool_call_delta":
      case "tool_call":
      case "finish":
        return [...this.#written(join, join.isMade, join.end()), part];
    }
  }

  #written(join: Join, wasMade: boolean, news: string | undefined): readonly ModelPart[] {
    if (news === undefined) throw new Unjoined();
    if (!wasMade && join.isMade) this.#context.onJoined();
    return news === "" ? [] : [{ kind: "text", text: news }];
  }

  /** A tool call that the model repeats keeps its id. */
  #named(part: ModelPart): ModelPart {
    if (part.kind !== "tool_call" && part.kind !== "tool_call_delta") return part;
    return { ...part, toolCallId: this.#passOver.idOf(part.toolCallId) };
  }

  /** What the log lacks of it. */
  #news(update: Output): Output | undefined {
    const passed = this.#passOver.take(update);
    if (passed === "differs") throw new Diverged();
    return passed === "known" ? undefined : passed;
  }

  /** Cancelled before all was read again that the log has: it was said all the same. */
  #takeLogged(): void {
    const { begin, step } = this.#place;
    if (begin.how !== "attach" || this.#passOver.isPast()) return;
    this.#output = new StepOutput(step, this.#context.now);
    if (begin.join !== undefined) this.#output.take({ kind: "text", text: begin.join.text });
    for (const part of begin.runs.flatMap(partsOf)) this.#output.take(part);
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
    const news = this.#news({ case: "toolCallStarted", value: { toolCall } });
    if (news !== undefined) await io.update(news);
  }

  /** A call that the user cancelled is complete with what there is of it. */
  async #complete(isCut: boolean): Promise<void> {
    const { io } = this.#context;
    const { finish, message, usage } = this.#output;
    if (finish === undefined && !isCut) {
      const message = "the model's answer ended in the middle; try again";
      throw new ModelFailure("unavailable", message, { isPassing: true });
    }
    if (!isCut && !this.#passOver.isPast()) throw new Diverged();
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
        stopSequence: finish?.stopSequence ?? "",
      },
    });
  }

  #content(message: AssistantChatMessage): Promise<Content> {
    const { io, keepsBlobs } = this.#context;
    const bytes = encodeChatMessage(message);
    return keepsBlobs ? io.setBlob(bytes, BlobKind.ASSISTANT_MESSAGE) : io.content(bytes);
  }
}

/** Of what the log has: how its calls are written is not known again when their arguments lie in a blob. */
function partsOf(run: Run): readonly ModelPart[] {
  switch (run.kind) {
    case "text":
    case "thinking":
      return [{ kind: run.kind, text: run.text }];
    case "thinking_end":
      return [{ kind: "thinking_end" }];
    case "call": {
      const args = textIn(run.args);
      return args === undefined
        ? []
        : [{ kind: "tool_call", toolCallId: run.toolCallId, tool: run.tool, args }];
    }
    case "arguments":
    case "fallback":
      return [];
  }
}

export function beginStep(io: TurnIo, place: StepPlace, model: string): void {
  const { step, begin, requestsBefore } = place;
  switch (begin.how) {
    case "start":
      void io.update({ case: "stepStarted", value: { step, model, requestsBefore } });
      return;
    case "restart": {
      // `attempt` of the wire counts the times that a step began anew; continuations are no such times.
      const rollbackToEventId = String(begin.rollbackTo);
      const value = { step, rollbackToEventId, attempt: begin.restart, requestsBefore };
      void io.update({ case: "stepRestarted", value });
      return;
    }
    case "prefill": {
      const { join, rollbackTo, continuation } = begin;
      const { isUnproved } = join;
      const value = { step, rollbackToEventId: String(rollbackTo), continuation, requestsBefore, isUnproved };
      void io.update({ case: "stepContinued", value });
      return;
    }
    case "attach":
      void io.update({ case: "stepRequested", value: { step, requests: requestsBefore } });
  }
}
