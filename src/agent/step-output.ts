/**
 * The output of one model call, as it comes: said piece by piece, kept as one message.
 *
 * The message is what goes back to the provider, with whatever the provider wants to have back unread. Tool calls
 * get ids that are unique within the step: providers have been seen to repeat them.
 *
 * A character may come in two halves, and an event holds whole ones. The first half waits for the second; where none comes, it is not said: the answer was
 * broken off or cancelled there, and may be continued behind what was said.
 */
import { cutAt, firstChars } from "../protocol/characters.ts";
import type { AssistantChatMessage, JsonObject, ToolCallPart } from "../protocol/chat-message.ts";
import type { ModelPart, Usage } from "./model.ts";
import { TurnFailure } from "./turn-failure.ts";
import type { Output } from "../turn/messages.ts";
import { cleanUsage, NO_USAGE } from "../turn/usage.ts";

type Part = AssistantChatMessage["content"][number];
type Finish = Extract<ModelPart, { kind: "finish" }>;

/** Longer pieces are cut: far below an event's limit, whatever the model writes at once. */
export const PIECE_CHARS_MAX = 16_000;

/** Some providers put a whole signature into an id; names are short. Both stand in events (E8). */
const ID_CHARS_MAX = 32_000;
const NAME_CHARS_MAX = 1_000;

/** Of what a provider attaches to a thought: it stands in an event, and some put a whole thought into it (E8). */
const SIGNED_BYTES_MAX = 128 * 1024;

/** Of one step, many times what any model writes at once: a provider that writes for ever must come to an end. */
const STEP_CHARS_MAX = 16 * 1024 * 1024;

export class StepOutput {
  readonly #parts: Part[] = [];
  readonly #toolCallIds = new Set<string>();
  readonly #step: number;
  readonly #now: () => number;
  #writing: { readonly type: "text" | "reasoning"; text: string; readonly sinceMs: number } | undefined;
  /** First halves of characters, by the call whose arguments they are of; undefined: of the text or the thought. */
  readonly #halves = new Map<string | undefined, string>();
  #chars = 0;
  finish: Finish | undefined;

  constructor(step: number, now: () => number) {
    this.#step = step;
    this.#now = now;
  }

  get message(): AssistantChatMessage {
    return { role: "assistant", content: this.#parts };
  }

  get calls(): readonly ToolCallPart[] {
    return this.#parts.filter((part) => part.type === "tool-call");
  }

  get usage(): Usage {
    return cleanUsage(this.finish?.usage ?? NO_USAGE);
  }

  /** What is to be said, in order. A complete tool call is given back for the caller to announce. */
  take(part: ModelPart): { readonly updates: readonly Output[]; readonly call?: ToolCallPart } {
    this.#count(part);
    switch (part.kind) {
      case "fallback":
        return { updates: [{ case: "stepFallback", value: { step: this.#step, model: part.model } }] };
      case "text":
        return { updates: [...this.#write("text"), ...this.#more(part.text)] };
      case "thinking":
        return { updates: [...this.#write("reasoning"), ...this.#more(part.text)] };
      case "text_end":
      case "thinking_end": {
        const type = part.kind === "text_end" ? "text" : "reasoning";
        // Some reasoning has no text that may be shown, and must go back all the same.
        if (part.metadata !== undefined && this.#writing?.type !== type) {
          const before = this.#end();
          return { updates: [...before, ...this.#write(type), ...this.#end(part.metadata)] };
        }
        return { updates: this.#writing?.type === type ? this.#end(part.metadata) : [] };
      }
      case "tool_call_delta": {
        const value = {
          toolCallId: cut(part.toolCallId, ID_CHARS_MAX),
          tool: cut(part.tool, NAME_CHARS_MAX),
        };
        const pieces = piecesOf(this.#whole(part.toolCallId, part.args)).map((argsJsonDelta): Output => ({
          case: "partialToolCall",
          value: { ...value, argsJsonDelta },
        }));
        return { updates: [...this.#end(), ...pieces] };
      }
      case "tool_call": {
        const updates = this.#end();
        this.#halves.delete(part.toolCallId);
        const call: ToolCallPart = {
          type: "tool-call",
          toolCallId: this.#unique(cut(part.toolCallId, ID_CHARS_MAX)),
          tool: cut(part.tool, NAME_CHARS_MAX),
          args: part.args.toWellFormed(),
          ...(part.metadata === undefined ? {} : { providerMetadata: part.metadata }),
        };
        this.#parts.push(call);
        return { updates, call };
      }
      case "finish":
        this.finish = part;
        return { updates: this.#end() };
    }
  }

  #write(type: "text" | "reasoning"): readonly Output[] {
    if (this.#writing?.type === type) return [];
    const updates = this.#end();
    this.#writing = { type, text: "", sinceMs: this.#now() };
    return updates;
  }

  #more(text: string): readonly Output[] {
    if (this.#writing === undefined) return [];
    const whole = this.#whole(undefined, text);
    this.#writing.text += whole;
    const isText = this.#writing.type === "text";
    return piecesOf(whole).map((piece) => {
      const value = { text: piece };
      return isText ? { case: "textDelta", value } : { case: "thinkingDelta", value };
    });
  }

  /** What can be said of it by now. */
  #whole(toolCallId: string | undefined, text: string): string {
    const all = (this.#halves.get(toolCallId) ?? "") + text;
    const end = cutAt(all, all.length);
    this.#halves.set(toolCallId, all.slice(end));
    return all.slice(0, end).toWellFormed();
  }

  #count(part: ModelPart): void {
    if (part.kind === "text" || part.kind === "thinking") this.#chars += part.text.length;
    if (part.kind === "tool_call" || part.kind === "tool_call_delta") this.#chars += part.args.length;
    if (this.#chars > STEP_CHARS_MAX) {
      throw new TurnFailure("token_limit", "the model wrote on and on and was stopped; try another one");
    }
  }

  #end(metadata?: JsonObject): readonly Output[] {
    const writing = this.#writing;
    if (writing === undefined) return [];
    this.#halves.delete(undefined);
    this.#writing = undefined;
    const { type, text, sinceMs } = writing;
    if (text !== "" || metadata !== undefined) {
      this.#parts.push({ type, text, ...(metadata === undefined ? {} : { providerMetadata: metadata }) });
    }
    if (type === "text") return [];
    const durationMs = Math.max(0, Math.round(this.#now() - sinceMs));
    const signed = metadata === undefined ? undefined : new TextEncoder().encode(JSON.stringify(metadata));
    const isFit = signed !== undefined && signed.length <= SIGNED_BYTES_MAX;
    const value = { durationMs, ...(isFit ? { providerMetadataJson: signed } : {}) };
    return [{ case: "thinkingCompleted", value }];
  }

  #unique(toolCallId: string): string {
    let id = toolCallId;
    for (let count = 2; this.#toolCallIds.has(id); count++) id = `${toolCallId}#${count}`;
    this.#toolCallIds.add(id);
    return id;
  }
}

function cut(text: string, charsMax: number): string {
  return firstChars(text, charsMax).toWellFormed();
}

function piecesOf(text: string): readonly string[] {
  if (text.length <= PIECE_CHARS_MAX) return text === "" ? [] : [text];
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    const end = cutAt(text, Math.min(at + PIECE_CHARS_MAX, text.length));
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}
