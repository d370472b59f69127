/**
 * From a turn's events to an answer's deltas, one event at a time. Pure.
 *
 * The answer pauses when every exec of a completed step was asked for: the exec ids came with `tool_call_started`, so the
 * number to wait for is known. Execs that the gateway carries out itself (files of its workspace) are waited for and not
 * shown. After a pause the state is that of the next answer, so beginning anew there gives the same deltas.
 *
 * A step that begins anew says its text again: what the reader has of it is passed over as long as it is equal. What it thinks is not compared:
 * it is another thought, and follows the old one. At the first
 * difference the reader is lost (`diverged`) and shown no more; the answer itself continues to its pause or end. An answer that was never streamed is taken from
 * the model's message in the step's end.
 *
 * Invariant: the reader's text is always a prefix of the answer, or a `diverged` delta was made.
 */
import {
  type AgentServerMessage,
  type Content,
  type ExecServerMessage,
  FinishReason,
  type InteractionUpdate,
  type StepCompletedUpdate,
  type ToolCall,
  type TurnEndedUpdate,
} from "../protocol/messages.ts";
import type { AnswerCall, AnswerDelta, DeltaBody, Said } from "./answer-delta.ts";
import { blobIn, bytesIn } from "./content.ts";
import { endOf, type TurnEnd } from "./answer-end.ts";
import { cleanUsage, isCounted, NO_USAGE, sumOf, type Usage } from "./usage.ts";
import { spokenIn } from "./messages.ts";

const NOTHING: Said = { text: "", reasoning: "" };
const NO_EXECS: AnswerState["awaited"] = new Map();

export interface AnswerState {
  /** Of the steps of this answer that are complete. */
  readonly earlier: Said;
  /** Of the step under way. */
  readonly current: Said;
  /** What the reader has of the step under way, over all its attempts. */
  readonly shown: Said;
  /** The part of its text that this attempt has not said again. */
  readonly owed: string;
  readonly isStepOpen: boolean;
  readonly step: number;
  /** The event that this attempt at the step began with. */
  readonly attempt: number;
  /** Of the thought under way, as the model said it. */
  readonly thought: string;
  /** The fallback that answers the step; empty = none. */
  readonly servedBy: string;
  /** Exec ids to wait for, with the tool call that they belong to. */
  readonly awaited: ReadonlyMap<string, string>;
  readonly calls: readonly AnswerCall[];
  readonly usage: Usage;
  readonly finish: FinishReason;
  /** Of the last step; empty: none, or not said. */
  readonly stopSequence: string;
  /** The text from here on is not shown: it does not follow the text that was. */
  readonly isDiverged: boolean;
  /** The turn has ended: nothing follows. */
  readonly isOver: boolean;
}

export function initAnswer(): AnswerState {
  return {
    earlier: NOTHING,
    current: NOTHING,
    shown: NOTHING,
    owed: "",
    isStepOpen: false,
    step: 0,
    attempt: 0,
    thought: "",
    servedBy: "",
    awaited: NO_EXECS,
    calls: [],
    usage: NO_USAGE,
    finish: FinishReason.UNSPECIFIED,
    stopSequence: "",
    isDiverged: false,
    isOver: false,
  };
}

type Result = readonly [AnswerState, readonly DeltaBody[]];

/** The blob that must be fetched before this message can be projected: whatever is too large to be in an event. */
export function neededBlob(state: AnswerState, { message }: AgentServerMessage): string | undefined {
  if (state.isOver) return undefined;
  switch (message.case) {
    case "execServerMessage":
      return message.value.message.case === "mcpArgs"
        ? blobIn(message.value.message.value.argsJson)
        : undefined;
    case "interactionUpdate": {
      const update = message.value.message;
      return update.case !== "stepCompleted" || hasSpoken(state) ? undefined : blobIn(update.value.message);
    }
    default:
      return undefined;
  }
}

/** `blob`: the bytes of `neededBlob`. */
export function project(
  state: AnswerState,
  eventId: number,
  message: AgentServerMessage,
  blob?: Uint8Array,
): readonly [AnswerState, readonly AnswerDelta[]] {
  if (state.isOver) return [state, []];
  const [next, bodies] = heard(state, eventId, message, blob);
  const last = bodies.length - 1;
  // Behind a pause the next answer begins.
  const { servedBy } = bodies.at(-1)?.kind === "calls" ? state : next;
  const served = servedBy === "" ? {} : { model: servedBy };
  return [
    next,
    bodies.map((body, at) => Object.assign({ eventId, endsEvent: at === last, ...served }, body)),
  ];
}

function heard(
  state: AnswerState,
  eventId: number,
  { message }: AgentServerMessage,
  blob: Uint8Array | undefined,
): Result {
  switch (message.case) {
    case "interactionUpdate":
      return updated(state, eventId, message.value, blob);
    case "execServerMessage":
      return paused(asked(state, message.value, blob));
    default:
      return [state, []];
  }
}

function updated(
  state: AnswerState,
  eventId: number,
  { message }: InteractionUpdate,
  blob: Uint8Array | undefined,
): Result {
  switch (message.case) {
    case "textDelta":
      return said(state, message.value.text);
    case "thinkingDelta":
      return thought(state, message.value.text);
    case "stepStarted":
      return [{ ...begun(state, eventId), step: message.value.step, shown: NOTHING, owed: "" }, []];
    case "stepRestarted":
      return restarted({ ...begun(state, eventId), step: message.value.step });
    case "stepContinued":
      // Calls that were written behind the text are made anew.
      return [{ ...state, awaited: NO_EXECS, calls: [] }, []];
    case "stepFallback":
      return [{ ...state, servedBy: message.value.model }, []];
    case "toolCallStarted":
      return [planned(state, message.value.toolCall), []];
    case "toolCallCompleted":
      return paused([settled(state, message.value.toolCall?.toolCallId), []]);
    case "stepCompleted":
      return paused(completed(state, message.value, blob));
    case "turnEnded":
      return ended(state, message.value);
    case "thinkingCompleted":
      return thoughtOver(state, message.value.providerMetadataJson);
    // Not shown: calls leave whole, when they are asked for.
    case "partialToolCall":
    case "toolCallDelta":
    case "shellOutputDelta":
    case "tokenDelta":
    case "summary":
    case "userMessageAppended":
    case "stepRequested":
    case "heartbeat":
    case undefined:
      return [state, []];
  }
}

function begun(state: AnswerState, attempt: number): AnswerState {
  return {
    ...state,
    current: NOTHING,
    isStepOpen: true,
    attempt,
    thought: "",
    servedBy: "",
    awaited: NO_EXECS,
    calls: [],
  };
}

function restarted(state: AnswerState): Result {
  return [{ ...state, owed: state.isDiverged ? "" : state.shown.text }, [{ kind: "restarted" }]];
}

function said(state: AnswerState, words: string): Result {
  if (words === "") return [state, []];
  const { shown, owed } = state;
  const text = state.current.text === "" && needsGap(state.earlier.text) ? `\n\n${words}` : words;
  const current = { ...state.current, text: state.current.text + text };
  // Nearly always nothing began anew, and all of it is news.
  if (owed === "" && !state.isDiverged)
    return [{ ...state, current, shown: { ...shown, text: shown.text + text } }, [{ kind: "text", text }]];
  const next = { ...state, current };
  if (state.isDiverged) return [next, []];
  if (owed.startsWith(text)) return [{ ...next, owed: owed.slice(text.length) }, []];
  if (!text.startsWith(owed)) return diverged(next);
  const news = text.slice(owed.length);
  return [
    { ...next, owed: "", shown: { ...shown, text: shown.text + news } },
    [{ kind: "text", text: news }],
  ];
}

function thought(state: AnswerState, words: string): Result {
  if (words === "") return [state, []];
  const { current, shown, earlier } = state;
  const isFirst = current.reasoning === "";
  const reasoning = isFirst && needsGap(earlier.reasoning) ? `\n\n${words}` : words;
  const next = {
    ...state,
    thought: state.thought + words,
    current: { ...current, reasoning: current.reasoning + reasoning },
  };
  // A thought that leads to text which the reader has already comes too late for it.
  if (state.isDiverged || state.owed !== "") return [next, []];
  // Behind the thought of an attempt that was given up, another one begins.
  const text = isFirst && needsGap(shown.reasoning) ? `\n\n${words}` : reasoning;
  const more = { ...shown, reasoning: shown.reasoning + text };
  return [{ ...next, shown: more }, [{ kind: "reasoning", text }]];
}

/** A thought that was not shown is not signed for the reader either. */
function thoughtOver(state: AnswerState, metadataJson: Uint8Array): Result {
  const { thought: text, step, attempt } = state;
  const next = { ...state, thought: "" };
  if (metadataJson.length === 0 || state.isDiverged || state.owed !== "") return [next, []];
  const thought = { text, metadataJson: decoder.decode(metadataJson), step, attempt };
  return [next, [{ kind: "thought", thought, token: "" }]];
}

/** Two steps of one answer are two paragraphs of one text. */
function needsGap(before: string): boolean {
  return before !== "" && !before.endsWith("\n");
}

function diverged(state: AnswerState): Result {
  return [{ ...state, isDiverged: true, owed: "" }, [{ kind: "diverged" }]];
}

function hasSpoken({ current }: AnswerState): boolean {
  return current.text !== "";
}

function completed(state: AnswerState, update: StepCompletedUpdate, blob: Uint8Array | undefined): Result {
  const message = bytesIn(update.message) ?? blob;
  // A text that the model did not stream is shown now.
  const unspoken = message === undefined || hasSpoken(state) ? "" : (spokenIn(message) ?? "");
  const [spoken, before] = said(state, unspoken);
  const [next, after] = closed(spoken);
  const { usage: used } = update;
  const usage = used === undefined ? next.usage : sumOf([next.usage, used]);
  const { step, finishReason: finish, stopSequence } = update;
  return [{ ...next, step, finish, stopSequence, usage }, [...before, ...after]];
}

/** The step's text is whole: it becomes part of the answer. */
function closed(state: AnswerState): Result {
  const [next, parted] = state.owed === "" ? [state, []] : diverged(state);
  return [{ ...next, earlier: wordsOf(next), current: NOTHING, shown: NOTHING, isStepOpen: false }, parted];
}

/** All of the answer so far. */
function wordsOf({ earlier, current }: AnswerState): Said {
  return { text: earlier.text + current.text, reasoning: earlier.reasoning + current.reasoning };
}

function planned(state: AnswerState, call: ToolCall | undefined): AnswerState {
  if (call === undefined || call.execIds.length === 0) return state;
  const awaited = new Map(state.awaited);
  for (const execId of call.execIds) awaited.set(execId, call.toolCallId);
  return { ...state, awaited };
}

/** A call that is over before its exec was asked for (the turn was cancelled) is not waited for. */
function settled(state: AnswerState, toolCallId: string | undefined): AnswerState {
  const awaited = new Map([...state.awaited].filter(([, owner]) => owner !== toolCallId));
  return awaited.size === state.awaited.size ? state : { ...state, awaited };
}

function asked(state: AnswerState, exec: ExecServerMessage, blob: Uint8Array | undefined): Result {
  const awaited = new Map(state.awaited);
  awaited.delete(exec.execId);
  const call = callOf(exec, blob);
  return [{ ...state, awaited, calls: call === undefined ? state.calls : [...state.calls, call] }, []];
}

function callOf({ id, execId, toolCallId, message }: ExecServerMessage, blob: Uint8Array | undefined) {
  if (message.case !== "mcpArgs") return undefined;
  const { name, argsJson } = message.value;
  const args = decoder.decode(bytesOfArgs(argsJson, blob));
  return { execId, id, providerToolCallId: toolCallId, tool: name, args, callId: toolCallId };
}

const decoder = new TextDecoder();
const EMPTY_ARGS = new TextEncoder().encode("{}");

function bytesOfArgs(content: Content | undefined, blob: Uint8Array | undefined): Uint8Array {
  const bytes = bytesIn(content) ?? blob;
  return bytes === undefined || bytes.length === 0 ? EMPTY_ARGS : bytes;
}

/** Ends the answer when the step is complete and nothing more of it will be asked. */
function paused([state, before]: Result): Result {
  if (state.isStepOpen || state.awaited.size > 0 || state.calls.length === 0) return [state, before];
  // A server that tells of no steps has not said that the text is whole.
  const [{ calls, step, usage, earlier }, bodies] = closed(state);
  return [initAnswer(), [...before, ...bodies, { kind: "calls", calls, step, usage, said: earlier }]];
}

function ended(state: AnswerState, update: TurnEndedUpdate): Result {
  const end = endOf(update, state.finish);
  const [said, before] = end.reason === "completed" ? closed(state) : [brokenOff(state), []];
  const [whole, why] = explained(said, end);
  const bodies = [...before, ...why];
  const usage = isCounted(whole.usage) ? whole.usage : cleanUsage(update);
  const stopped = state.stopSequence === "" ? {} : { stopSequence: state.stopSequence };
  const body: DeltaBody = { kind: "ended", ...end, usage, said: wordsOf(whole), ...stopped };
  return [{ ...whole, isOver: true }, [...bodies, body]];
}

/** A turn that broke off has not said everything: what its last attempt has not said again was shown all the same, and is part of the answer. */
function brokenOff(state: AnswerState): AnswerState {
  return { ...state, current: { ...state.current, text: state.current.text + state.owed }, owed: "" };
}

/** An answer without a word that ends in good order would leave the user wondering: why it ended is what it says. */
function explained(state: AnswerState, { finish, failure }: TurnEnd): Result {
  if (finish === undefined || failure === undefined || wordsOf(state).text !== "") return [state, []];
  return said(state, failure.message);
}
