/**
 * What a provider streams, as the parts of a step.
 *
 * Metadata of a text or a thought may come with its beginning, any piece or its end; it is gathered and goes out with
 * the end, also of one that has no text: a sealed thought is nothing but its metadata, and must go back.
 *
 * A tool call whose arguments cannot be parsed waits for the finish: where the provider ran out of tokens in it, it is no call. So does a last
 * call without arguments: it may have been cut right behind its name.
 *
 * Invariant: `finish` comes out once and last, and only when the provider itself has finished.
 */
import type {
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";
import { isJsonObject, type JsonObject } from "../../protocol/chat-message.ts";
import type { FinishReason, ModelPart, Usage } from "../model.ts";
import { StreamBroken } from "./failures.ts";

/** The parts with which something new begins. */
const BEGINNINGS: ReadonlySet<LanguageModelV4StreamPart["type"]> = new Set([
  "text-start",
  "reasoning-start",
  "tool-input-start",
  "tool-call",
]);

interface OpenBlock {
  hasText: boolean;
  metadata: Record<string, JsonObject>;
}

export class PartReader {
  readonly #blocks = new Map<string, OpenBlock>();
  /** The tools of calls that are being written, by call. */
  readonly #written = new Map<string, string>();
  /** The calls of which arguments were written. */
  readonly #argued = new Set<string>();
  /** Calls that may have been cut: those with half their arguments, and the last one when it has none. */
  readonly #doubtful: ModelPart[] = [];
  #bare: ModelPart | undefined;
  #hasOutput = false;
  #hasToolCall = false;

  /** Throws `StreamBroken` for what a provider says when it fails on the way. */
  read(part: LanguageModelV4StreamPart): readonly ModelPart[] {
    const isMore = this.#bare !== undefined && BEGINNINGS.has(part.type);
    return isMore ? [...this.#wholeBare(), ...this.#partsOf(part)] : this.#partsOf(part);
  }

  #partsOf(part: LanguageModelV4StreamPart): readonly ModelPart[] {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        this.#gather(part);
        return [];
      case "text-delta":
        return this.#piece(part, "text");
      case "reasoning-delta":
        return this.#piece(part, "thinking");
      case "text-end":
        return this.#end(part, "text_end");
      case "reasoning-end":
        return this.#end(part, "thinking_end");
      case "tool-input-start":
        if (part.providerExecuted !== true) this.#written.set(part.id, part.toolName);
        return [];
      case "tool-input-delta":
        return this.#writing(part.id, part.delta);
      case "tool-call":
        return part.providerExecuted === true ? [] : this.#called(part);
      case "finish":
        return this.#finish(part.finishReason, part.usage, stopSequenceOf(part.providerMetadata));
      case "error":
        throw new StreamBroken(part.error);
      // These are no part of a step: tools that the provider ran, files, sources, and notes about the stream itself.
      case "tool-input-end":
      case "tool-approval-request":
      case "tool-result":
      case "custom":
      case "file":
      case "reasoning-file":
      case "source":
      case "stream-start":
      case "response-metadata":
      case "ping":
      case "raw":
        return [];
    }
  }

  #gather({ id, providerMetadata }: BlockPart): OpenBlock {
    const block = this.#blocks.get(id) ?? { hasText: false, metadata: {} };
    this.#blocks.set(id, block);
    const more = plainMetadata(providerMetadata);
    for (const [name, own] of Object.entries(more))
      block.metadata[name] = { ...block.metadata[name], ...own };
    return block;
  }

  #piece(part: BlockPart & { readonly delta: string }, kind: "text" | "thinking"): readonly ModelPart[] {
    const block = this.#gather(part);
    if (part.delta === "") return [];
    block.hasText = true;
    this.#hasOutput = true;
    return [{ kind, text: part.delta }];
  }

  #end(part: BlockPart, kind: "text_end" | "thinking_end"): readonly ModelPart[] {
    const { hasText, metadata } = this.#gather(part);
    this.#blocks.delete(part.id);
    if (Object.keys(metadata).length > 0) return [{ kind, metadata }];
    return hasText ? [{ kind }] : [];
  }

  #writing(toolCallId: string, args: string): readonly ModelPart[] {
    const tool = this.#written.get(toolCallId);
    if (tool === undefined || args === "") return [];
    this.#hasOutput = true;
    this.#argued.add(toolCallId);
    return [{ kind: "tool_call_delta", toolCallId, tool, args }];
  }

  #called(part: Extract<LanguageModelV4StreamPart, { type: "tool-call" }>): readonly ModelPart[] {
    this.#hasOutput = true;
    const metadata = plainMetadata(part.providerMetadata);
    const args = part.input.trim() === "" ? "{}" : part.input;
    const call: ModelPart = {
      kind: "tool_call",
      toolCallId: part.toolCallId,
      tool: part.toolName,
      args,
      ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
    };
    if (args === "{}" && !this.#argued.has(part.toolCallId)) this.#bare = call;
    else if (isJson(args)) {
      this.#hasToolCall = true;
      return [call];
    } else this.#doubtful.push(call);
    return [];
  }

  /** The model wrote on behind it, or ended as it wanted to: nothing of the call is missing. */
  #wholeBare(): readonly ModelPart[] {
    if (this.#bare === undefined) return [];
    const whole = [this.#bare];
    this.#bare = undefined;
    this.#hasToolCall = true;
    return whole;
  }

  #finish(
    { unified, raw }: LanguageModelV4FinishReason,
    usage: LanguageModelV4Usage,
    stopped: { readonly stopSequence?: string },
  ): readonly ModelPart[] {
    // Some SDK providers end a stream that was cut as if nothing had happened; the provider's word is missing then.
    if (unified === "interrupted" || unified === "error" || (unified === "other" && raw === undefined)) {
      throw new StreamBroken(undefined);
    }
    if (unified === "content-filter" && !this.#hasOutput)
      throw new StreamBroken(undefined, "content_filtered");
    const isCut = unified === "length" || unified === "content-filter";
    // Calls that the model has ended as it wanted to: the tool plan answers what is wrong with them.
    const ended = isCut ? [] : [...this.#wholeBare(), ...this.#doubtful];
    if (ended.length > 0) this.#hasToolCall = true;
    return [...ended, { kind: "finish", reason: this.#reason(unified), usage: usageOf(usage), ...stopped }];
  }

  #reason(unified: Exclude<LanguageModelV4FinishReason["unified"], "interrupted" | "error">): FinishReason {
    switch (unified) {
      case "length":
        return "length";
      case "content-filter":
        return "content_filter";
      case "tool-calls":
      case "stop":
      case "other":
        // Local servers say "stop" after a tool call, and sometimes "tool_calls" without one.
        return this.#hasToolCall ? "tool_calls" : "stop";
    }
  }
}

interface BlockPart {
  readonly id: string;
  readonly providerMetadata?: SharedV4ProviderMetadata;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Anthropic alone says which one it was. */
function stopSequenceOf(metadata: SharedV4ProviderMetadata | undefined): { readonly stopSequence?: string } {
  const given = metadata?.["anthropic"]?.["stopSequence"];
  return typeof given === "string" && given !== "" ? { stopSequence: given } : {};
}

/** Through JSON, as it will be stored: what is undefined is gone. */
function plainMetadata(metadata: SharedV4ProviderMetadata | undefined): Record<string, JsonObject> {
  if (metadata === undefined) return {};
  const plain: unknown = JSON.parse(JSON.stringify(metadata));
  const named: Record<string, JsonObject> = {};
  for (const [name, own] of Object.entries(isJsonObject(plain) ? plain : {})) {
    if (isJsonObject(own)) named[name] = own;
  }
  return named;
}

function usageOf({ inputTokens: input, outputTokens: output }: LanguageModelV4Usage): Usage {
  const cacheReadTokens = input.cacheRead ?? 0;
  const cacheWriteTokens = input.cacheWrite ?? 0;
  return {
    inputTokens: input.noCache ?? Math.max(0, (input.total ?? 0) - cacheReadTokens - cacheWriteTokens),
    outputTokens: output.total ?? 0,
    cacheReadTokens,
    cacheWriteTokens,
    reasoningTokens: output.reasoning ?? 0,
  };
}
