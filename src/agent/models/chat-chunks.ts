/**
 * The chunks of a chat completion, as the parts that the AI SDK makes of them.
 *
 * The SDK reads a body through four web streams and checks each chunk with a schema: half the processor time of a short answer. The chunks are
 * parsed here anyway, to tell content from signs of life, so they are read here too (decision 110). Which delta belongs to which tool call is still
 * the SDK's own knowledge: its tracker is used as it is.
 *
 * What a chunk has that is not of the right type counts as absent: a server may put anything there.
 */
import type { LanguageModelV4StreamPart, LanguageModelV4Usage } from "@ai-sdk/provider";
import { StreamingToolCallTracker } from "@ai-sdk/provider-utils";
import { fieldsOf } from "../../protocol/fields.ts";
import { NAMESPACES } from "./dialect.ts";
import { listOf } from "./upstream/wire-events.ts";

type Part = LanguageModelV4StreamPart;
type Fields = Readonly<Record<string, unknown>>;
type Finish = Extract<Part, { type: "finish" }>["finishReason"]["unified"];

/** A call whose name has not come yet. */
interface Nameless {
  readonly id: string | null;
  readonly args: string;
  readonly signature: string | undefined;
}

interface CallDelta {
  readonly index: number | null;
  readonly id: string | null;
  readonly function: { readonly name?: string | null; readonly arguments?: string | null };
  readonly signature: string | undefined;
}

export class ChatChunkReader {
  #parts: Part[] = [];
  #tracker: StreamingToolCallTracker<CallDelta> | undefined;
  readonly #nameless = new Map<number, Nameless>();
  readonly #named = new Set<number>();
  /** What is being written, and how much of it is no part yet: words that came at once are one. */
  #open: "text" | "reasoning" | undefined;
  #words = "";
  #finish: string | undefined;
  #hasRefused = false;
  #usage: Fields | undefined;

  /** The parts in chunks that came at once; `[DONE]` is none. */
  read(...values: readonly unknown[]): readonly Part[] {
    this.#parts = [];
    for (const value of values) this.#chunk(fieldsOf(value));
    this.#say();
    return this.#parts;
  }

  #chunk(chunk: Fields): void {
    const { error, usage } = chunk;
    if (error !== undefined && error !== null) return this.#say({ type: "error", error });
    if (usage !== undefined && usage !== null) this.#usage = fieldsOf(usage);
    const choice = fieldsOf(listOf(chunk["choices"])[0]);
    this.#finish = textOf(choice["finish_reason"]) ?? this.#finish;
    this.#delta(fieldsOf(choice["delta"]));
  }

  /** The body is over. */
  end(): readonly Part[] {
    this.#parts = [];
    this.#close();
    for (const [index, { id, args, signature }] of this.#nameless)
      this.#calls.processDelta({ index, id, function: { arguments: args }, signature });
    this.#nameless.clear();
    this.#tracker?.flush();
    if (this.#finish === undefined) this.#parts.push({ type: "error", error: undefined });
    else {
      const finishReason = { unified: finishOf(this.#finish, this.#hasRefused), raw: this.#finish };
      this.#parts.push({ type: "finish", finishReason, usage: usageOf(this.#usage) });
    }
    return this.#parts;
  }

  #delta(delta: Fields): void {
    const { content } = delta;
    const reasoning = textOf(delta["reasoning_content"]) ?? textOf(delta["reasoning"]);
    if (reasoning !== undefined) this.#write("reasoning", reasoning);
    if (typeof content === "string") this.#write("text", content);
    else for (const part of listOf(content)) this.#contentPart(fieldsOf(part));
    const refusal = textOf(delta["refusal"]);
    if (refusal !== undefined) {
      this.#hasRefused ||= refusal !== "";
      this.#write("text", refusal);
    }
    const calls = listOf(delta["tool_calls"]);
    if (calls.length === 0) return;
    if (this.#open === "reasoning") this.#close();
    for (const call of calls) this.#call(callDeltaOf(fieldsOf(call)));
  }

  #contentPart(part: Fields): void {
    if (part["type"] === "text") this.#write("text", textOf(part["text"]) ?? "");
    if (part["type"] !== "thinking") return;
    const thoughts = listOf(part["thinking"]).map(fieldsOf);
    const texts = thoughts.map((thought) =>
      thought["type"] === "text" ? textOf(thought["text"]) : undefined,
    );
    this.#write("reasoning", texts.join(""));
  }

  #write(what: "text" | "reasoning", delta: string): void {
    if (delta === "") return;
    if (this.#open !== what) {
      this.#close();
      this.#open = what;
      this.#parts.push({ type: `${what}-start`, id: `${what}-0` });
    }
    this.#words += delta;
  }

  #close(): void {
    const open = this.#open;
    if (open !== undefined) this.#say({ type: `${open}-end`, id: `${open}-0` });
    this.#open = undefined;
  }

  /** Behind the words before it. */
  #say(part?: Part): void {
    const open = this.#open;
    const delta = this.#words;
    this.#words = "";
    if (open !== undefined && delta !== "")
      this.#parts.push({ type: `${open}-delta`, id: `${open}-0`, delta });
    if (part !== undefined) this.#parts.push(part);
  }

  get #calls(): StreamingToolCallTracker<CallDelta> {
    return (this.#tracker ??= new StreamingToolCallTracker(
      { enqueue: (part) => this.#say(part) },
      {
        extractMetadata: ({ signature }) =>
          signature === undefined
            ? undefined
            : { [NAMESPACES["openai-compatible"]]: { thoughtSignature: signature } },
        buildToolCallProviderMetadata: (metadata) => metadata,
      },
    ));
  }

  /** The tracker wants the name first; some servers send it behind the id, or behind arguments. */
  #call(delta: CallDelta): void {
    const { index, function: said } = delta;
    if (index === null || this.#named.has(index)) return this.#calls.processDelta(delta);
    const before = this.#nameless.get(index);
    const id = before?.id ?? delta.id;
    const args = (before?.args ?? "") + (said.arguments ?? "");
    const signature = before?.signature ?? delta.signature;
    if (said.name === null || said.name === undefined)
      return void this.#nameless.set(index, { id, args, signature });
    this.#nameless.delete(index);
    this.#named.add(index);
    this.#calls.processDelta({ index, id, function: { name: said.name, arguments: args }, signature });
  }
}

function callDeltaOf(call: Fields): CallDelta {
  const { index } = call;
  const said = fieldsOf(call["function"]);
  const google = fieldsOf(fieldsOf(call["extra_content"])["google"]);
  return {
    index: typeof index === "number" ? index : null,
    id: textOf(call["id"]) ?? null,
    function: { name: textOf(said["name"]) ?? null, arguments: textOf(said["arguments"]) ?? null },
    signature: textOf(google["thought_signature"]),
  };
}

function finishOf(reason: string, hasRefused: boolean): Finish {
  switch (reason) {
    case "stop":
      return hasRefused ? "content-filter" : "stop";
    case "length":
      return "length";
    case "content_filter":
      return "content-filter";
    case "function_call":
    case "tool_calls":
      return "tool-calls";
    default:
      return "other";
  }
}

function usageOf(usage: Fields | undefined): LanguageModelV4Usage {
  const total = countOf(usage?.["prompt_tokens"]);
  const output = countOf(usage?.["completion_tokens"]);
  const cacheRead = countOf(fieldsOf(usage?.["prompt_tokens_details"])["cached_tokens"]);
  const reasoning = countOf(fieldsOf(usage?.["completion_tokens_details"])["reasoning_tokens"]);
  return {
    inputTokens: { total, noCache: total - cacheRead, cacheRead, cacheWrite: undefined },
    outputTokens: { total: output, text: Math.max(0, output - reasoning), reasoning },
  };
}

function countOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
