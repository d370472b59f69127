/**
 * The step whose model output is under way: what of it is in the log. Changed in place.
 *
 * By these facts a turn decides what to do when the output breaks off, and passes over what a generation that is read again has
 * in common with the log. They follow from the log alone, so a run that reads it back decides by the same ones.
 *
 * Invariant: `runs` hold everything that the attempt said, in order, and nothing of the attempts before it.
 */
import type {
  AgentServerMessage,
  Content,
  InteractionUpdate,
  PartialToolCallUpdate,
  ToolCall,
} from "../protocol/messages.ts";
import type { JoinAt } from "./join.ts";
import { updateOf } from "./messages.ts";

/** What the model said without a change of subject. How it was cut into pieces is forgotten. */
export type Run =
  | { readonly kind: "text" | "thinking"; text: string }
  | { readonly kind: "thinking_end" }
  /** More arguments of a call that is being written. */
  | { readonly kind: "arguments"; readonly toolCallId: string; readonly tool: string; text: string }
  | {
      readonly kind: "call";
      readonly toolCallId: string;
      readonly tool: string;
      readonly args: Content | undefined;
    }
  /** Another model answers from here on. */
  | { readonly kind: "fallback"; readonly model: string };

export interface OpenStep {
  readonly step: number;
  /** The event after which everything is rolled back when the step begins anew. */
  readonly sinceEvent: number;
  /** How many attempts there were before this one. */
  readonly attempt: number;
  readonly restarts: number;
  /** Requests to providers that the attempts before this one may have sent (G2). */
  readonly requestsBefore: number;
  /** Requests that the step had sent when this attempt last said so; 0 = it has said nothing. */
  requestsTold: number;
  /** How often a restarted run has looked for the held call of this attempt, and the attempt has said nothing new since. */
  attaches: number;
  /** The model that step_started names, and the one that answers this attempt. */
  readonly model: string;
  servedBy: string;
  /** The model that said what was shown of the step, over all attempts; empty = nothing was. */
  shownBy: string;
  /** The text of the step that counts, and the last event with a piece of it. */
  text: string;
  textEvent: number;
  /** How this attempt continues the one before it; undefined: it began anew. */
  readonly joined: JoinAt | undefined;
  /** How often the text was continued by another generation. */
  readonly continuations: number;
  /** Its tool calls with their exec ids. */
  readonly started: ToolCall[];
  readonly runs: Run[];
  /** Of this attempt: whether the model has said anything, and what of it an OpenAI stream has shown. */
  hasContent: boolean;
  hasThinking: boolean;
  hasText: boolean;
}

/**
 * What an attempt may have sent without a word about it in the log: a model asks three times at the most while nothing was said. By further
 * requests an answer is continued; each of them is in the log before it leaves.
 */
export const UNTOLD_REQUESTS_MAX = 3;

/** All requests of the step, when its attempt was killed: those that the log does not tell of may have left, too (G2). */
export function mayHaveSent({ requestsBefore, requestsTold }: OpenStep): number {
  return Math.max(requestsBefore + UNTOLD_REQUESTS_MAX, requestsTold);
}

interface Begun {
  readonly step: number;
  readonly requestsBefore: number;
}

export function newOpenStep(
  { step, requestsBefore, model }: Begun & { readonly model: string },
  sinceEvent: number,
): OpenStep {
  return {
    step,
    sinceEvent,
    attempt: 0,
    restarts: 0,
    requestsBefore,
    requestsTold: 0,
    attaches: 0,
    model,
    servedBy: model,
    shownBy: "",
    text: "",
    textEvent: 0,
    joined: undefined,
    continuations: 0,
    started: [],
    runs: [],
    hasContent: false,
    hasThinking: false,
    hasText: false,
  };
}

/** The same step, by another attempt: anew, or behind its text. */
export function begunAgain(
  open: OpenStep,
  { case: how, value }: Extract<InteractionUpdate["message"], { case: "stepRestarted" | "stepContinued" }>,
  eventId: number,
): OpenStep {
  const { model, shownBy, attempt, restarts } = open;
  const anew = { ...newOpenStep({ ...value, model }, eventId), shownBy, attempt: attempt + 1 };
  if (how === "stepRestarted") return { ...anew, restarts: restarts + 1 };
  // What was said behind the text does not count.
  const { sinceEvent, servedBy, text, textEvent, hasThinking } = open;
  const { continuation: continuations, isUnproved } = value;
  const kept = { sinceEvent, servedBy, text, textEvent, hasThinking, hasText: true, hasContent: true };
  return { ...anew, ...kept, restarts, continuations, joined: { text, isUnproved } };
}

/** Notes what an update shows of the model's output. */
export function noteOutput(open: OpenStep, eventId: number, { message }: InteractionUpdate): void {
  switch (message.case) {
    case "textDelta":
      open.hasText = true;
      open.shownBy = open.servedBy;
      open.text += message.value.text;
      open.textEvent = eventId;
      write(open, "text", message.value.text);
      break;
    case "thinkingDelta":
      open.hasThinking = true;
      open.shownBy = open.servedBy;
      write(open, "thinking", message.value.text);
      break;
    case "stepFallback":
      open.servedBy = message.value.model;
      open.runs.push({ kind: "fallback", model: message.value.model });
      return;
    // A thought without words: sealed, and part of the answer.
    case "thinkingCompleted":
      open.runs.push({ kind: "thinking_end" });
      break;
    case "partialToolCall":
      writeArguments(open, message.value);
      break;
    case "stepRequested":
      // A run that looks for a held call says how many may have been sent, and sends none.
      if (message.value.requests <= mayHaveSent(open)) open.attaches++;
      open.requestsTold = message.value.requests;
      return;
    case "toolCallStarted": {
      const { toolCall } = message.value;
      if (toolCall === undefined) return;
      const { toolCallId, tool, argsJson: args } = toolCall;
      open.started.push(toolCall);
      open.runs.push({ kind: "call", toolCallId, tool, args });
      break;
    }
    // Not of the model's output.
    case "stepStarted":
    case "stepRestarted":
    case "stepContinued":
    case "stepCompleted":
    case "toolCallDelta":
    case "toolCallCompleted":
    case "shellOutputDelta":
    case "tokenDelta":
    case "summary":
    case "userMessageAppended":
    case "turnEnded":
    case "heartbeat":
    case undefined:
      return;
  }
  open.hasContent = true;
  open.attaches = 0;
}

function write({ runs }: OpenStep, kind: "text" | "thinking", text: string): void {
  const last = runs.at(-1);
  if (last?.kind === kind) last.text += text;
  else runs.push({ kind, text });
}

function writeArguments(
  { runs }: OpenStep,
  { toolCallId, tool, argsJsonDelta }: PartialToolCallUpdate,
): void {
  const last = runs.at(-1);
  if (last?.kind === "arguments" && last.toolCallId === toolCallId) last.text += argsJsonDelta;
  else runs.push({ kind: "arguments", toolCallId, tool, text: argsJsonDelta });
}

/** Which attempt at which step. */
export interface StepAttempt {
  readonly step: number;
  readonly attempt: number;
}

/** Of the step that these events leave open. */
export function openAttempt(
  events: readonly { readonly message: AgentServerMessage }[],
): StepAttempt | undefined {
  let open: StepAttempt | undefined;
  for (const { message } of events) {
    const update = updateOf(message);
    if (update.case === "stepStarted") open = { step: update.value.step, attempt: 0 };
    else if (update.case === "stepCompleted") open = undefined;
    else if (update.case === "stepRestarted" || update.case === "stepContinued")
      open = { step: update.value.step, attempt: (open?.attempt ?? 0) + 1 };
  }
  return open;
}

/** What a request of an attempt is named by, under the stream key. */
export function requestText({ step, attempt }: StepAttempt, request: number): string {
  return `request/${step}/${attempt}/${request}`;
}
