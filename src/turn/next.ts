/**
 * What a turn does next, decided from its facts and from nothing else.
 *
 * The driver asks after every fact, so a restart is nothing special: finished steps are not run again, answered execs are not
 * asked again, and a step that was cut off gets its next attempt (`attempts.ts`). A decision that needs bytes which are not in hand becomes the
 * decision to get them. `next` is never asked while the model speaks: a step that is open then was cut off.
 *
 * Invariants: execs are issued when the model's output of their step is complete in the log, and such a step never calls the model
 * again, so no restart can roll back an effect (C0); a turn ends once, after its last checkpoint.
 */
import { LIMITS } from "../protocol/limits.ts";
import { textOf } from "../protocol/chat-message.ts";
import { ExecKind, FinishReason, type RunRequest } from "../protocol/messages.ts";
import { type Backoff, firstPlace, nextPlace } from "./attempts.ts";
import type { Plans } from "./call-plan.ts";
import { openCalls, type OpenCall, overCall, progressOf } from "./calls.ts";
import { closing, checkpointSoFar, publishReady } from "./checkpoints.ts";
import { isSummarizing, promptOf, readOn, sameSteps } from "./conversation.ts";
import { type Decision, type Ending, type OverCall, type StepPlace, WAIT } from "./decision.ts";
import type { Facts } from "./facts.ts";
import { endFailed, failed } from "./failure.ts";
import { systemPrompt } from "./prompts.ts";
import { obtain, Reader } from "./reader.ts";
import { shellCall } from "./shell-turn.ts";

export interface TurnLimits extends Backoff {
  /** Model calls in one turn. A turn that needs more can be continued. */
  readonly stepsMax: number;
  /** Execs in one turn; far below what the book of execs can hold. */
  readonly execsMax: number;
  /** Tokens that a turn may use, cached ones not counted. */
  readonly tokensMax: number;
  /** So many steps in a row that ask for the same and get the same are a loop. */
  readonly sameStepsMax: number;
  /** So much of the log is made into messages before others get their turn. */
  readonly readBytesMax: number;
}

const decoder = new TextDecoder();

/** In one event (E8); a longer one would not be a summary. */
const SUMMARY_CHARS_MAX = 64_000;

export function next(facts: Facts, limits: TurnLimits): Decision {
  const { request, found } = facts;
  if (request === undefined) {
    if (facts.violation === undefined && !facts.isClosed) return WAIT;
    return endFailed("invalid_request", facts.violation ?? "there is no request");
  }
  const refusal = refusalOf(request);
  if (refusal !== undefined) return refusal;
  const isKnown = found.conversation.earlier !== undefined;
  if (found.failure !== undefined && !isKnown)
    return { kind: "end", ending: { reason: "failed", failure: found.failure } };
  if (found.opened === undefined) return { kind: "open", request };
  const reading = readOn(facts, request, limits.readBytesMax);
  if (reading !== undefined) return reading;
  if (found.closing !== undefined) return closing(facts, request, found.closing.ending);
  const work = workOf(facts, request, found.opened.plans, limits);
  return "kind" in work ? work : closing(facts, request, work);
}

/** Why there is nothing to begin with. */
function refusalOf({ action, subagentDepth, execKinds }: RunRequest): Decision | undefined {
  const kind = action?.action.case;
  if (kind === undefined) return endFailed("invalid_request", "the request says nothing to do");
  if (kind === "cancelAction") return endFailed("invalid_request", "there is nothing to cancel yet");
  if (subagentDepth > LIMITS.subagentDepthMax)
    return endFailed("invalid_request", `subagents nest at most ${LIMITS.subagentDepthMax} deep`);
  const runsCommands = execKinds.some((one) => one === ExecKind.SHELL || one === ExecKind.SHELL_STREAM);
  return kind !== "shellCommandAction" || runsCommands
    ? undefined
    : endFailed("invalid_request", "this client does not run commands");
}

/** The next thing to do; an ending when there is none. */
function workOf(facts: Facts, request: RunRequest, plans: Plans, limits: TurnLimits): Decision | Ending {
  if (facts.violation !== undefined) return failed("invalid_request", facts.violation);
  if (facts.found.failure !== undefined) return { reason: "failed", failure: facts.found.failure };
  if (facts.open !== undefined) {
    const place = nextPlace(facts, facts.open, limits);
    return "reason" in place ? place : begin(facts, request, plans, place);
  }
  const calls = openCalls(facts, plans);
  if (calls.length > 0) return carryOn(facts, calls);
  if (facts.cancelled !== undefined) return { reason: "cancelled" };
  const isDone = isAnswered(facts, request);
  if (isSummarizing(facts)) {
    if (isDone) return summary(facts);
  } else {
    // A message that comes while a summary is written follows it: it is neither summed up nor taken for one.
    // A turn that only runs a command has no model to get it.
    const isCommand = request.action?.action.case === "shellCommandAction";
    const message = isCommand ? undefined : facts.said[facts.appended];
    if (message !== undefined) return { kind: "append_user", message };
    if (isDone) return ended(facts);
  }
  return (
    exceeded(facts, plans, limits) ??
    checkpointSoFar(facts, request) ??
    publishReady(facts) ??
    begin(facts, request, plans, firstPlace(facts))
  );
}

/** The calls of the last step, as far as they go: all that can be done at once is one decision. */
function carryOn(facts: Facts, calls: readonly OpenCall[]): Decision {
  const pieces = calls.flatMap(({ place, part: { toolCallId } }) =>
    (facts.pieces.get(place) ?? [])
      .slice(facts.relayed.get(place) ?? 0)
      .map((piece) => ({ execId: place, toolCallId, piece })),
  );
  if (pieces.length > 0) return { kind: "relay", pieces };
  if (facts.cancelled !== undefined) {
    const { pending, execs } = facts.book;
    const execIds = [...pending].filter((id) => execs.get(id)?.stage === "issued" && !facts.stopped.has(id));
    if (execIds.length > 0) return { kind: "stop", execIds };
  }
  const execs: Extract<Decision, { kind: "issue" }>["execs"][number][] = [];
  const over: OverCall[] = [];
  const missing = new Set<string>();
  let asked: Decision | undefined;
  for (const call of calls) {
    const reader = new Reader(facts);
    const progress = progressOf(facts, call, reader);
    const { toolCallId } = call.part;
    if (reader.missing.size > 0) for (const blobId of reader.missing) missing.add(blobId);
    else if (progress.kind === "issue")
      execs.push({ execId: progress.execId, toolCallId, plan: progress.plan });
    else if (progress.kind === "ask") asked ??= { kind: "ask", toolCallId, questions: progress.questions };
    else if (progress.kind === "over") over.push(overCall(facts, call, progress.result));
  }
  if (execs.length > 0) return { kind: "issue", execs };
  if (asked !== undefined) return asked;
  if (over.length > 0) return { kind: "complete", calls: over };
  if (missing.size > 0) return obtain(facts, missing) ?? carryOn(facts, calls);
  return publishReady(facts) ?? WAIT;
}

/** Whether the last thing in the log is a step that asks for nothing more. */
function isAnswered(facts: Facts, { action }: RunRequest): boolean {
  const last = facts.entries.at(-1);
  if (last?.kind !== "step") return false;
  const { started, completed } = last.record;
  const isFiltered = completed.finishReason === FinishReason.CONTENT_FILTER;
  return isFiltered || started.length === 0 || action?.action.case === "shellCommandAction";
}

function ended({ lastStep }: Facts): Ending {
  if (lastStep?.completed.finishReason === FinishReason.CONTENT_FILTER)
    return failed("content_filtered", "the provider refused to answer this; say it in another way");
  return { reason: "completed" };
}

/** A summary is said before it takes the place of what it sums up; one that is none takes the place of nothing. */
function summary(facts: Facts): Decision | Ending {
  const filtered = ended(facts);
  if (filtered.reason === "failed") return filtered;
  const last = facts.found.conversation.own.at(-1)?.message;
  const text = last === undefined ? "" : textOf(last);
  const isCut = facts.lastStep?.completed.finishReason === FinishReason.LENGTH;
  if (text.trim() !== "" && !isCut && text.length <= SUMMARY_CHARS_MAX) return { kind: "tell_summary", text };
  const what = text.trim() === "" ? "gave no summary" : "did not come to the end of a summary";
  return failed("no_progress", `the model ${what}; the conversation stays as it was: try again`);
}

function exceeded(
  { steps, book, usage, found }: Facts,
  { hasBuiltIns }: Plans,
  limits: TurnLimits,
): Ending | undefined {
  if (steps >= limits.stepsMax)
    return failed("step_limit", `the turn took ${steps} steps; continue it to allow more`);
  if (book.issued >= limits.execsMax)
    return failed("step_limit", `the turn ran ${book.issued} tools; continue it to allow more`);
  const tokens = usage.inputTokens + usage.outputTokens + usage.cacheWriteTokens;
  if (tokens >= limits.tokensMax)
    return failed("token_limit", `the turn used ${tokens} tokens; continue it to allow more`);
  // A client that runs its own tools may wait by asking again and again: that is its affair.
  const same = hasBuiltIns ? sameSteps(found.conversation) : 0;
  if (same < limits.sameStepsMax) return undefined;
  return failed("no_progress", `the model asked for the same ${same} times in a row and got the same`);
}

/** A step, once everything that its prompt needs is in hand. */
function begin(facts: Facts, request: RunRequest, plans: Plans, place: StepPlace): Decision {
  const action = request.action?.action;
  if (action?.case === "shellCommandAction")
    return { kind: "run_command", place, call: shellCall(action.value) };
  const reader = new Reader(facts);
  const messages = promptOf(facts.found.conversation);
  const given = decoder.decode(reader.read(request.systemPrompt));
  const named = [...facts.found.conversation.files];
  const files = new Map(named.map((blobId) => [blobId, reader.blob(blobId)]));
  if (reader.missing.size > 0) return obtain(facts, reader.missing) ?? begin(facts, request, plans, place);
  const system = systemPrompt(request, plans.hasBuiltIns, given);
  return { kind: "call_model", place, prompt: { system, messages, withTools: !isSummarizing(facts), files } };
}
