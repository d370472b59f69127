/**
 * Reads a generation again from its first byte, and passes over what the log has of it already. Pure; changed in place.
 *
 * A model call that is held by another process outlives the server. A server that returns reads it from the beginning through the
 * same parser, and compares: text, thoughts, names of tools and arguments, character by character, however they are cut into pieces. While
 * both are equal the turn emits no event. What the log lacks is news, from its first character on.
 *
 * Some SDKs make up the ids of tool calls, other ones each time: a call keeps the id that the log has of it.
 *
 * Invariant: what was passed over and the news together are what the generation said, or it `differs` and there are no news.
 */
import { create } from "../protocol/message.ts";
import { type Content, ToolCallSchema } from "../protocol/messages.ts";
import { blobIn, textIn } from "./content.ts";
import type { Output } from "./messages.ts";
import type { Run } from "./open-step.ts";

type Words = Extract<Run, { text: string }>;

/** An update that says what the log lacks; or there is nothing new in it; or the log has something else in its place. */
export type Passed = Output | "known" | "differs";

export class PassOver {
  readonly #runs: readonly Run[];
  /** The ids of calls in the log, by those that the generation has now. */
  readonly #ids = new Map<string, string>();
  /** The run that is being compared, and how much of it was. */
  #at = 0;
  #chars = 0;

  /** `runs`: what the log has of the generation. */
  constructor(runs: readonly Run[]) {
    this.#runs = runs.map((run) => ({ ...run }));
  }

  /** Whether the generation has said everything that the log has of it. It may not, and end: then it differs. */
  isPast(): boolean {
    return this.#following() === undefined;
  }

  /** The id of this tool call in the log. */
  idOf(toolCallId: string): string {
    const known = this.#ids.get(toolCallId);
    if (known !== undefined) return known;
    const taken = new Set(this.#ids.values());
    const free = callIdsOf(this.#runs).filter((id) => !taken.has(id));
    const id = free.includes(toolCallId) ? toolCallId : (free[0] ?? toolCallId);
    this.#ids.set(toolCallId, id);
    return id;
  }

  take(update: Output): Passed {
    if (this.#at === this.#runs.length) return update;
    switch (update.case) {
      case "textDelta":
      case "thinkingDelta": {
        const { text = "" } = update.value;
        const kind = update.case === "textDelta" ? "text" : "thinking";
        const rest = this.#words((run) => run.kind === kind, text);
        return rest === undefined ? "differs" : rest === "" ? "known" : { ...update, value: { text: rest } };
      }
      case "partialToolCall": {
        const { toolCallId, tool, argsJsonDelta = "" } = update.value;
        const isSame = (run: Words): boolean =>
          run.kind === "arguments" && run.toolCallId === toolCallId && run.tool === tool;
        const rest = this.#words(isSame, argsJsonDelta);
        if (rest === undefined) return "differs";
        return rest === "" ? "known" : { ...update, value: { ...update.value, argsJsonDelta: rest } };
      }
      case "thinkingCompleted":
        return this.#mark(update, ({ kind }) => kind === "thinking_end");
      case "stepFallback":
        return this.#mark(update, (run) => run.kind === "fallback" && run.model === update.value.model);
      case "toolCallStarted": {
        const call = create(ToolCallSchema, update.value.toolCall);
        const { toolCallId, tool } = call;
        const isSame = (run: Run): boolean =>
          run.kind === "call" &&
          run.toolCallId === toolCallId &&
          run.tool === tool &&
          isEqual(run.args, call.argsJson);
        return this.#mark(update, isSame);
      }
    }
  }

  /** What the log lacks of the words; undefined: it has others. */
  #words(isSame: (run: Words) => boolean, words: string): string | undefined {
    const here = this.#runs[this.#at];
    const isMore = here !== undefined && "text" in here && isSame(here);
    const run = isMore ? here : this.#following();
    if (run === undefined) return words;
    if (!("text" in run) || !isSame(run)) return undefined;
    const known = run.text.slice(this.#chars, this.#chars + words.length);
    if (!words.startsWith(known)) return undefined;
    this.#chars += known.length;
    if (known.length === words.length) return "";
    // The log has something else behind this run.
    if (this.#at + 1 < this.#runs.length) return undefined;
    this.#at++;
    return words.slice(known.length);
  }

  #mark(update: Output, isSame: (run: Run) => boolean): Passed {
    const run = this.#following();
    if (run === undefined) return update;
    if (!isSame(run)) return "differs";
    this.#at++;
    return "known";
  }

  /** The run behind what was compared; the same one while something of it is left. */
  #following(): Run | undefined {
    const run = this.#runs[this.#at];
    if (run !== undefined && "text" in run && this.#chars === run.text.length) {
      this.#at++;
      this.#chars = 0;
    }
    return this.#runs[this.#at];
  }
}

function callIdsOf(runs: readonly Run[]): readonly string[] {
  return [...new Set(runs.flatMap((run) => ("toolCallId" in run ? [run.toolCallId] : [])))];
}

function isEqual(a: Content | undefined, b: Content | undefined): boolean {
  return blobIn(a) === blobIn(b) && textIn(a) === textIn(b);
}
