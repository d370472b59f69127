/**
 * One turn: model calls and tool calls in turn, until the agent waits again.
 *
 * What is to be done next follows from the log alone, asked again after every step, so a restart is nothing special:
 * finished steps are not run again, answered execs are not asked again, and a step that was cut off begins anew and
 * says so. Execs stand in the log behind the output of their step, so they leave when it is durable (C0).
 * `turn_ended` is the stream's last event, so there is one, exactly.
 */
import { type ChatMessage, type ToolCallPart, textOf } from "../protocol/chat-message.ts";
import { LIMITS } from "../protocol/limits.ts";
import { FinishReason, type RunRequest } from "../protocol/messages.ts";
import type { BlobCache } from "./blobs.ts";
import { type Draft, draftOf, type ShownTurn, type Todo } from "./checkpoint.ts";
import { Checkpoints } from "./checkpoints.ts";
import { History } from "./history.ts";
import { lighter, userText, type Written, written } from "./messages.ts";
import type { Model, Models } from "./model.ts";
import type { StepPlace } from "./model-step.ts";
import { afterSummary, CONTINUE, ranCommand, SUMMARIZE, systemPrompt } from "./prompts.ts";
import { runStep } from "./step-attempts.ts";
import { ATTEMPT_REQUESTS_MAX } from "./step-requests.ts";
import { announceShell, shellCall, shellOutput } from "./shell-turn.ts";
import { type CallPlan, canRunCommands, type Offer, offerOf } from "./tool-plan.ts";
import { type OpenCall, ToolCalls } from "./tool-calls.ts";
import { TurnFailure } from "./turn-failure.ts";
import type { TurnIo } from "./turn-io.ts";
export interface TurnLimits {
  /** Model calls in one turn. A turn that needs more can be continued. */
  readonly stepsMax: number;
  /** Execs in one turn; far below what the book of execs can hold. */
  readonly execsMax: number;
  /** Tokens that a turn may use, cached ones not counted. */
  readonly tokensMax: number;
  /** So many steps in a row that ask for the same and get the same are a loop. */
  readonly sameStepsMax: number;
}

export const TURN_LIMITS: TurnLimits = {
  stepsMax: 200,
  execsMax: 2_000,
  tokensMax: 10_000_000,
  sameStepsMax: 4,
};

export interface TurnContext {
  readonly models: Models;
  readonly cache: BlobCache;
  readonly limits: TurnLimits;
  readonly now: () => number;
  /** Before a step that its provider broke off begins anew. */
  readonly backoffMs: number;
}

/** Calls of one step: with them a turn still has fewer execs than the book of execs keeps results of. */
const CALLS_MAX = 256;

/** In one event (E8); a longer one would not be a summary. */
const SUMMARY_CHARS_MAX = 64_000;

/** How the work came to its end. */
export type Ending = "completed" | "cancelled";

export class Turn {
  readonly #context: TurnContext;
  readonly #io: TurnIo;
  readonly #request: RunRequest;
  readonly #offer: Offer;
  readonly #history: History;
  readonly #calls: ToolCalls;
  readonly #checkpoints: Checkpoints;
  #model: Model | undefined;
  /** What was before is known, so that something can be added to it. */
  isLoaded = false;

  /** Throws a TurnFailure when the request makes no sense. */
  constructor(context: TurnContext, io: TurnIo, request: RunRequest) {
    this.#context = context;
    this.#io = io;
    this.#request = request;
    this.#offer = offerOf(request);
    this.#history = new History(io, request);
    this.#calls = new ToolCalls(io, request);
    this.#checkpoints = new Checkpoints(io);
  }

  /** Everything up to the point where only the last checkpoint and the end are missing. */
  async work(): Promise<Ending> {
    this.#check();
    await this.#history.load(this.#request);
    this.isLoaded = true;
    this.#addUnsaid();
    await this.#recover();
    for (;;) {
      const ending = await this.#advance();
      if (ending !== undefined) return ending;
    }
  }

  #check(): void {
    const { action, subagentDepth } = this.#request;
    const kind = action?.action.case;
    if (kind === undefined) throw new TurnFailure("invalid_request", "the request says nothing to do");
    if (kind === "cancelAction") throw new TurnFailure("invalid_request", "there is nothing to cancel yet");
    if (subagentDepth > LIMITS.subagentDepthMax) {
      const message = `subagents nest at most ${LIMITS.subagentDepthMax} deep`;
      throw new TurnFailure("invalid_request", message);
    }
    if (kind !== "shellCommandAction") this.#model = this.#context.models.resolve(this.#request.model);
    else if (!canRunCommands(this.#request)) {
      throw new TurnFailure("invalid_request", "this client does not run commands");
    }
  }

  /** Words of our own that the action needs: no client said them. */
  #addUnsaid(): void {
    const action = this.#request.action?.action;
    if (action?.case !== "summarizeAction" && action?.case !== "continueAction") return;
    const { earlier } = this.#history;
    const isAsItStands = action.case === "continueAction" && action.value.asItStands;
    const isInstructed = isAsItStands && this.#request.systemPrompt !== undefined;
    if (earlier.length === 0 && !isInstructed)
      throw new TurnFailure("invalid_request", "there is no conversation to go on with");
    if (action.case === "summarizeAction") this.#history.add(userText(SUMMARIZE));
    else if (!isAsItStands && earlier.at(-1)?.role === "assistant") this.#history.add(userText(CONTINUE));
  }

  /** A step that was cut off begins anew; nothing of it had an effect (C0). */
  async #recover(): Promise<void> {
    const { log } = this.#io;
    const restarts = log.book.open?.restarts ?? 0;
    for (const effect of log.feed({ kind: "recovered" })) {
      if (effect.kind === "fail_turn") throw new TurnFailure("restarts_exhausted", effect.message);
      if (effect.kind !== "restart_step" || log.open === undefined) continue;
      await this.#history.take(log);
      const { step, requestsBefore } = log.open;
      const attempt = restarts + 1;
      await this.#step({
        step,
        attempt,
        rollbackTo: effect.rollbackTo,
        requestsBefore: requestsBefore + ATTEMPT_REQUESTS_MAX,
      });
    }
  }

  /** The next thing that is to be done; an ending when there is none. */
  async #advance(): Promise<Ending | undefined> {
    const { log } = this.#io;
    const seen = this.#io.changes;
    if (log.violation !== undefined) throw new TurnFailure("invalid_request", log.violation);
    await this.#history.take(log);
    const open = this.#openCalls();
    if (open.length > 0) {
      if (log.cancelled !== undefined) await this.#stopExecs();
      const isMoved = await this.#calls.advance(open);
      if (isMoved) return undefined;
      this.#checkpoints.publishReady();
      await this.#io.changeSince(seen);
      return undefined;
    }
    if (log.cancelled !== undefined) return "cancelled";
    if (this.#isSummarizing && this.#isDone()) {
      await this.#tellSummary();
      return undefined;
    }
    // What is said meanwhile follows the summary: it is neither summed up nor taken for one.
    if (log.nextMessage !== undefined && !this.#isSummarizing) {
      const value = { userMessage: await lighter(log.nextMessage, this.#io) };
      await this.#io.update({ case: "userMessageAppended", value });
      return undefined;
    }
    if (this.#isDone()) return "completed";
    this.#checkLimits();
    if (this.#request.keepsBlobs && this.#history.own.length > 0 && !this.#isSummarizing)
      await this.#checkpointSoFar();
    // A run that was killed may have sent a first request, and lost the event that tells of it.
    const requestsBefore = this.#io.isRestartedBehind(log.lastStep?.eventId ?? 0) ? 1 : 0;
    await this.#step({ step: log.book.steps, attempt: 0, rollbackTo: undefined, requestsBefore });
    return undefined;
  }

  #isDone(): boolean {
    const last = this.#io.log.entries.at(-1);
    if (last?.kind !== "step") return false;
    if (this.#shell !== undefined) return true;
    if (last.record.completed.finishReason === FinishReason.CONTENT_FILTER) {
      throw new TurnFailure("content_filtered", "the provider refused to answer this; say it in another way");
    }
    return last.record.started.length === 0;
  }

  get #shell(): ReturnType<typeof shellCall> | undefined {
    const action = this.#request.action?.action;
    return action?.case === "shellCommandAction" ? shellCall(action.value) : undefined;
  }

  /** Of the last step, those that are not over. */
  #openCalls(): readonly OpenCall[] {
    const record = this.#io.log.lastStep;
    if (record === undefined) return [];
    const parts: readonly ToolCallPart[] =
      this.#shell === undefined ? (this.#history.openStep?.calls ?? []) : [this.#shell];
    return parts.flatMap((part, at): readonly OpenCall[] => {
      if (record.over.has(part.toolCallId)) return [];
      const { step, started } = record;
      const place = started[at]?.execIds[0] ?? `${step}.unasked.${at}`;
      return [{ part, place, step, plan: this.#plan(part.tool, part.args, at) }];
    });
  }

  /** What the call at this place among those of its step asks for. */
  #plan(tool: string, args: string, at: number): CallPlan {
    if (this.#isSummarizing)
      return { kind: "invalid", why: "There are no tools now: answer with the summary." };
    if (at < CALLS_MAX) return this.#offer.plan(tool, args);
    return {
      kind: "invalid",
      why: `A step has at most ${CALLS_MAX} calls: ask for the rest in the next one.`,
    };
  }

  /** The client is told once; each exec is still answered. */
  async #stopExecs(): Promise<void> {
    const { log } = this.#io;
    for (const [execId, { stage }] of log.book.execs) {
      if (stage !== "issued" || log.stopped.has(execId)) continue;
      const message = { case: "abort", value: { execId } } as const;
      await this.#io.emit({ case: "execServerControlMessage", value: { message } });
    }
  }

  #checkLimits(): void {
    const { stepsMax, execsMax, tokensMax, sameStepsMax } = this.#context.limits;
    const { steps } = this.#io.log.book;
    const used = this.#io.log.usage;
    if (steps >= stepsMax) {
      throw new TurnFailure("step_limit", `the turn took ${steps} steps; continue to let it go on`);
    }
    const { execsIssued } = this.#io.log;
    if (execsIssued >= execsMax) {
      throw new TurnFailure("step_limit", `the turn ran ${execsIssued} tools; continue to let it go on`);
    }
    const tokens = used.inputTokens + used.outputTokens + used.cacheWriteTokens;
    if (tokens >= tokensMax) {
      throw new TurnFailure("token_limit", `the turn used ${tokens} tokens; continue to let it go on`);
    }
    const { sameSteps } = this.#history;
    // Whoever runs its own tools may wait by asking again and again: that is its affair.
    if (this.#offer.hasBuiltIns && sameSteps >= sameStepsMax) {
      const message = `the model asked for the same ${sameSteps} times in a row and was told the same`;
      throw new TurnFailure("no_progress", message);
    }
  }

  async #step(place: StepPlace): Promise<void> {
    const { models, now, backoffMs } = this.#context;
    if (this.#shell !== undefined) return announceShell(this.#io, place, this.#shell);
    const model = this.#model ?? models.resolve(this.#request.model);
    const given = decoder.decode(await this.#io.read(this.#request.systemPrompt));
    const context = {
      io: this.#io,
      keepsBlobs: this.#request.keepsBlobs,
      now,
      plan: (tool: string, args: string, at: number) => this.#plan(tool, args, at),
      backoffMs,
    };
    await runStep(context, place, model, {
      system: systemPrompt(this.#request, this.#offer, given),
      messages: this.#history.prompt,
      tools: this.#isSummarizing ? [] : this.#offer.tools,
      options: this.#io.log.options,
      file: (blobId) => this.#io.blob(blobId),
      conversationId: this.#request.conversationId,
    });
  }

  async #checkpointSoFar(): Promise<void> {
    await this.#checkpoints.prepare(this.#draft(undefined));
    this.#checkpoints.publishReady();
  }

  /** The conversation as it is now, with the turn for display: the last checkpoint of the turn. */
  async keep(): Promise<void> {
    if (!this.#request.keepsBlobs) return;
    await this.#history.take(this.#io.log);
    await this.#checkpoints.publishLast(this.#draft(await this.#shown()));
  }

  #draft(shown: ShownTurn | undefined): Draft {
    const { log } = this.#io;
    const { summary } = log;
    return draftOf({
      before: this.#request.conversationState,
      messages: this.#newMessages(),
      todos: this.#todos(),
      usedTokens: log.contextTokens,
      maxTokens: this.#model?.contextTokensMax ?? 0,
      ...(summary === undefined ? {} : { summary }),
      ...(shown === undefined ? {} : { shown }),
    });
  }

  /** A summary stands for everything before it; one that did not come about leaves the conversation as it was. */
  #newMessages(): readonly Written[] {
    if (!this.#isSummary) return this.#history.own;
    const { summary } = this.#io.log;
    if (summary === undefined) return [];
    const at = this.#history.own.findIndex(({ message }) => isAnswer(message));
    return [written(userText(afterSummary(summary))), ...this.#history.own.slice(at + 1)];
  }

  get #isSummary(): boolean {
    return this.#request.action?.action.case === "summarizeAction";
  }

  get #isSummarizing(): boolean {
    return this.#isSummary && this.#io.log.summary === undefined;
  }

  async #shown(): Promise<ShownTurn | undefined> {
    const action = this.#request.action?.action;
    const record = this.#io.log.lastStep;
    if (action?.case === "shellCommandAction") {
      const over = [...(record?.over.values() ?? [])][0];
      const execId = record?.started[0]?.execIds[0] ?? "";
      const output = await shellOutput(this.#io, this.#io.log.outcomeOf(execId), over);
      const result = decoder.decode(await this.#io.read(over?.result));
      if (over !== undefined) this.#history.add(userText(ranCommand(action.value.command, result)));
      return { kind: "shell", command: action.value, output };
    }
    // Of a summary only what was said after it.
    const { shown: all } = this.#history;
    const said = all.findIndex((one) => !("over" in one));
    if (this.#isSummary && said === -1) return undefined;
    const shown = this.#isSummary ? all.slice(said) : all;
    const [first] = shown;
    const user = first !== undefined && !("over" in first) ? first : undefined;
    return { kind: "agent", user, followed: user === undefined ? shown : shown.slice(1) };
  }

  /** The list as the model last wrote it; undefined when it did not in this turn. */
  #todos(): readonly Todo[] | undefined {
    const calls = this.#history.own.flatMap(({ message }) =>
      message.role === "assistant" ? message.content : [],
    );
    const last = calls.findLast((part) => part.type === "tool-call" && part.tool === "todo_write");
    const plan = last?.type === "tool-call" ? this.#offer.plan(last.tool, last.args) : undefined;
    return plan?.kind === "todos" ? plan.todos : undefined;
  }

  /** A summary is told before it takes the place of what it sums up; one that is none takes nobody's place. */
  async #tellSummary(): Promise<void> {
    const last = this.#history.own.at(-1)?.message;
    const text = last === undefined ? "" : textOf(last);
    const isCut = this.#io.log.lastStep?.completed.finishReason === FinishReason.LENGTH;
    if (text.trim() === "" || isCut || text.length > SUMMARY_CHARS_MAX) {
      const what = text.trim() === "" ? "gave no summary" : "did not come to the end of a summary";
      throw new TurnFailure("no_progress", `the model ${what}; the conversation stays as it was: try again`);
    }
    await this.#io.update({ case: "summary", value: { text } });
  }
}

/** Words, and nothing left to be done. */
function isAnswer(message: ChatMessage): boolean {
  return message.role === "assistant" && !message.content.some(({ type }) => type === "tool-call");
}

const decoder = new TextDecoder();
