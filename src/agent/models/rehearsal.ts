/**
 * The rehearsal model: no AI and no network, it answers by the script in the user's message.
 *
 * Its one idea: it looks at nothing but the prompt. The last message of the user is the script, the answers after it tell
 * which step is due, so it can be called again after any crash and says the same. That stands for a held call: asked to attach, it says
 * its answer again from the first word, and does not pause in what the log has.
 */
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import { firstChars } from "../../protocol/characters.ts";
import { type ChatMessage, textOf, type ToolResultPart } from "../../protocol/chat-message.ts";
import {
  type FinishReason,
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelFailureKind,
  type ModelPart,
} from "../model.ts";
import { CONTINUE, SUMMARIZE } from "../../turn/prompts.ts";
import { type Act, readScript, type Step } from "./rehearsal-script.ts";

/** A piece of text: far below an event's limit, whatever was sent. */
const PIECE_CHARS_MAX = 4_096;
/** Pieces without a pause between them; then others get their turn. */
const PIECES_AT_ONCE = 500;
const SUMMARY_CHARS_MAX = 100;

interface RehearsalOptions extends Pick<Model, "noteContinued"> {
  readonly id?: string;
  readonly contextTokensMax?: number | undefined;
  /** Before each call that is not said again. */
  readonly onCall?: () => void;
}

export function rehearsalModel({
  id = "rehearsal/rehearsal",
  contextTokensMax,
  onCall,
  ...noting
}: RehearsalOptions = {}): Model {
  const call = (asked: ModelCall): AsyncIterable<ModelPart> => {
    if (asked.mode !== "attach") onCall?.();
    return new Rehearsal(asked).parts();
  };
  return { id, contextTokensMax, holdsCalls: true, call, ...noting };
}

class Rehearsal {
  readonly #call: ModelCall;
  #wordsSaid = 0;
  #wordsThought = 0;
  #pieces = 0;
  /** What is left of the beginning of the answer that it was given: it is not said again, and not waited for. */
  #given: string;

  constructor(call: ModelCall) {
    this.#call = call;
    this.#given = call.prefill ?? "";
  }

  async *parts(): AsyncGenerator<ModelPart, void> {
    let reason: FinishReason = "stop";
    let calls = 0;
    let before: Act["kind"] | undefined;
    for (const act of stepOf(this.#call)) {
      if (act.kind === "finish") ({ reason } = act);
      else if (act.kind === "call") yield* this.#toolCall(act, ++calls);
      else {
        if (before !== undefined && before !== "think" && act.kind !== "think") {
          const text = this.#unsaid("text", "\n");
          if (text !== "") yield { kind: "text", text };
        }
        yield* this.#words(act);
      }
      before = act.kind;
    }
    if (calls > 0 && reason === "stop") reason = "tool_calls";
    yield { kind: "finish", reason, usage: this.#usage() };
  }

  async *#words(act: Exclude<Act, { kind: "finish" | "call" }>): AsyncGenerator<ModelPart, void> {
    switch (act.kind) {
      case "say":
        yield* this.#paced("text", piecesOf(act.text), act.paceMs);
        break;
      case "think":
        yield* this.#paced("thinking", piecesOf(act.text), act.paceMs);
        yield { kind: "thinking_end" };
        break;
      case "count":
        yield* this.#paced("text", numbersTo(act.to), act.paceMs);
        break;
      case "long":
        yield* this.#paced("text", wordsOf(act.words), act.paceMs);
        break;
      case "result":
        yield* this.#paced("text", piecesOf(resultWords(this.#call.messages)), act.paceMs);
        break;
      case "error":
        yield* this.#paced("text", wordsOf(act.afterWords), act.paceMs);
        throw rehearsedFailure(act.failure);
    }
  }

  async *#paced(
    kind: "text" | "thinking",
    pieces: Iterable<string>,
    paceMs: number,
  ): AsyncGenerator<ModelPart, void> {
    const { signal } = this.#call;
    for (const piece of pieces) {
      signal.throwIfAborted();
      const text = this.#unsaid(kind, piece);
      if (text === "") continue;
      if (kind === "text") this.#wordsSaid++;
      else this.#wordsThought++;
      yield { kind, text };
      await this.#pause(paceMs);
    }
  }

  /** What the log has is not waited for again. */
  async #pause(paceMs: number): Promise<void> {
    const { signal, isLogged } = this.#call;
    if (paceMs > 0 && isLogged?.() !== true) await delay(paceMs, undefined, { signal });
    else if (++this.#pieces % PIECES_AT_ONCE === 0) await nextTurn(undefined, { signal });
  }

  /** What of this piece was not given. Thoughts before given words are not thought again. */
  #unsaid(kind: "text" | "thinking", piece: string): string {
    if (kind === "thinking") return this.#given === "" ? piece : "";
    const text = piece.slice(this.#given.length);
    this.#given = this.#given.slice(piece.length);
    return text;
  }

  async *#toolCall(
    { tool, args, paceMs = 0 }: Extract<Act, { kind: "call" }>,
    count: number,
  ): AsyncGenerator<ModelPart, void> {
    const toolCallId = `rehearsal-${this.#call.messages.length}-${count}`;
    const half = Math.ceil(args.length / 2);
    for (const piece of [args.slice(0, half), args.slice(half)]) {
      if (piece === "") continue;
      yield { kind: "tool_call_delta", toolCallId, tool, args: piece };
      await this.#pause(paceMs);
    }
    this.#wordsSaid += wordCount(args);
    yield { kind: "tool_call", toolCallId, tool, args };
  }

  /** Words stand for tokens; all but the last message is taken for cached, as it would be. */
  #usage() {
    const { system, messages } = this.#call;
    const counts = messages.map((message) => wordCount(textOf(message)));
    const all = counts.reduce((sum, count) => sum + count, wordCount(system));
    const fresh = counts.at(-1) ?? 0;
    return {
      inputTokens: fresh,
      outputTokens: this.#wordsSaid + this.#wordsThought,
      cacheReadTokens: all - fresh,
      cacheWriteTokens: 0,
      reasoningTokens: this.#wordsThought,
    };
  }
}

const ENDED: Step = [{ kind: "say", text: "Rehearsal, no AI: the script has ended.", paceMs: 0 }];

function stepOf({ messages, tools }: ModelCall): Step {
  const at = messages.findLastIndex((message) => message.role === "user" && textOf(message) !== CONTINUE);
  const script = messages[at];
  if (script === undefined) return ENDED;
  if (textOf(script) === SUMMARIZE)
    return [{ kind: "say", text: summaryOf(messages.slice(0, at)), paceMs: 0 }];
  const steps = readScript(textOf(script), tools);
  const due = messages.slice(at).filter(({ role }) => role === "assistant").length;
  return steps[due] ?? ENDED;
}

function summaryOf(messages: readonly ChatMessage[]): string {
  const said = messages.filter(({ role }) => role === "user").map((message) => shortened(textOf(message)));
  return ["A rehearsed summary, made without AI. The user said:", ...said.map((text) => `- ${text}`)].join(
    "\n",
  );
}

function shortened(text: string): string {
  return firstChars(text.replace(/\s+/g, " ").trim(), SUMMARY_CHARS_MAX, " ...");
}

function resultWords(messages: readonly ChatMessage[]): string {
  const last = messages.findLast(({ role }) => role === "tool");
  const results: readonly ToolResultPart[] = last?.role === "tool" ? last.content : [];
  if (results.length === 0) return "There is no tool result.";
  return results
    .map(({ tool, outcome, text }) => {
      const whose = results.length === 1 ? "The tool's outcome" : `The outcome of ${tool}`;
      return `${whose} is "${outcome}": ${text}`;
    })
    .join("\n");
}

const STATUSES: Readonly<Record<ModelFailureKind, number>> = {
  invalid_request: 400,
  model_not_found: 404,
  rate_limited: 429,
  unavailable: 503,
  unauthenticated: 401,
  context_too_long: 400,
  content_filtered: 400,
  not_held: 0,
};

function rehearsedFailure(kind: ModelFailureKind): ModelFailure {
  return new ModelFailure(kind, `rehearsal: the script asked for this failure (${kind}). Nothing is wrong.`, {
    status: STATUSES[kind],
    ...(kind === "rate_limited" ? { retryAfterMs: 1_000 } : {}),
  });
}

function* numbersTo(last: number): Generator<string> {
  for (let number = 1; number <= last; number++) yield `${number} `;
}

const FILLER = "the sea keeps what it is given and gives it back in the order in which it came".split(" ");

function* wordsOf(count: number): Generator<string> {
  for (let at = 0; at < count; at++) yield `${FILLER[at % FILLER.length] ?? ""} `;
}

/** Words with the space behind them, cut where they are too long for an event. */
function piecesOf(text: string): readonly string[] {
  const pieces = text.match(new RegExp(`\\S{1,${PIECE_CHARS_MAX}}\\s{0,16}|\\s{1,${PIECE_CHARS_MAX}}`, "gu"));
  return pieces ?? [];
}

function wordCount(text: string): number {
  return text.match(/\S+/g)?.length ?? 0;
}
