/**
 * The conversation as a provider is told it.
 *
 * The one idea: every message is translated by itself, from nothing but itself and its neighbours, so the same
 * messages give the same bytes and each prompt begins with the one before. What providers refuse (an empty
 * text, a tool call without a result, two answers in a row) is put right in place, the same way each time.
 *
 * Invariant: the prompt of messages[0..n] is a prefix of the prompt of messages[0..m], n < m, when messages[n] is
 * a user's or a tool's. Anthropic's cache marks move; they are no part of what is cached.
 */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ReasoningPart,
  LanguageModelV4TextPart,
  LanguageModelV4ToolCallPart,
  LanguageModelV4ToolResultOutput,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type {
  AssistantChatMessage,
  ChatMessage,
  FilePart,
  JsonObject,
  TextPart,
  ToolCallPart,
  ToolChatMessage,
  ToolResultPart,
  UserChatMessage,
} from "../../protocol/chat-message.ts";
import { isJsonObject } from "../../protocol/chat-message.ts";
import { type ModelCall, ModelFailure } from "../model.ts";
import { CONTINUE } from "../prompts.ts";
import { type Dialect, NAMESPACES } from "./dialect.ts";

type AssistantPart = LanguageModelV4TextPart | LanguageModelV4ReasoningPart | LanguageModelV4ToolCallPart;
type PromptRequest = Pick<ModelCall, "system" | "messages" | "file">;

/** Anthropic's mark: everything up to here is worth keeping. */
const CACHED: SharedV4ProviderOptions = { anthropic: { cacheControl: { type: "ephemeral" } } };

export async function promptOf(call: PromptRequest, dialect: Dialect): Promise<LanguageModelV4Prompt> {
  const teller = new Teller(call.file, dialect);
  const prompt: LanguageModelV4Prompt = [];
  if (call.system !== "") prompt.push({ role: "system", content: call.system });
  for (const [at, message] of call.messages.entries()) {
    prompt.push(...(await teller.tell(message)));
    for (const missing of mended(call.messages, at)) prompt.push(...(await teller.tell(missing)));
  }
  return dialect === "anthropic" ? withCacheMarks(prompt) : prompt;
}

/** What has to follow a message so that the next one may. */
function mended(messages: readonly ChatMessage[], at: number): readonly ChatMessage[] {
  const message = messages[at];
  const next = messages[at + 1];
  if (next?.role === "tool" || message === undefined || message.role === "user") return [];
  const missing = unansweredBefore(messages, at);
  if (missing.length > 0) return [{ role: "tool", content: missing.map(unanswered) }];
  // The conversation goes on without a new message of the user: providers want to hear that from the user.
  if (message.role === "tool" || next?.role === "user") return [];
  return [{ role: "user", content: [{ type: "text", text: CONTINUE }] }];
}

/** The tool calls of the step that ends with messages[at] which nobody has answered. */
function unansweredBefore(messages: readonly ChatMessage[], at: number): readonly ToolCallPart[] {
  const answered = new Set<string>();
  for (let place = at; place >= 0; place--) {
    const message = messages[place];
    if (message === undefined || message.role === "user") return [];
    if (message.role === "assistant")
      return toolCallsOf(message).filter((part) => !answered.has(part.toolCallId));
    for (const { toolCallId } of message.content) answered.add(toolCallId);
  }
  return [];
}

function toolCallsOf({ content }: AssistantChatMessage): readonly ToolCallPart[] {
  return content.filter((part) => part.type === "tool-call");
}

function unanswered({ toolCallId, tool }: ToolCallPart): ToolResultPart {
  const text = "the conversation has no result of this call.";
  return { type: "tool-result", toolCallId, tool, outcome: "unknown", text };
}

/**
 * The system prompt (and the tools before it), the end of this prompt, and the end of the one before: a step adds one
 * answer and one message of results, so the mark that was last is the last but one now.
 */
function withCacheMarks(prompt: LanguageModelV4Prompt): LanguageModelV4Prompt {
  const asking = prompt.flatMap(({ role }, at) => (role === "user" || role === "tool" ? [at] : []));
  const ends = new Set(asking.slice(-2));
  return prompt.map((message, at) =>
    message.role === "system" || ends.has(at) ? { ...message, providerOptions: CACHED } : message,
  );
}

class Teller {
  readonly #file: ModelCall["file"];
  readonly #dialect: Dialect;

  constructor(file: ModelCall["file"], dialect: Dialect) {
    this.#file = file;
    this.#dialect = dialect;
  }

  async tell(message: ChatMessage): Promise<readonly LanguageModelV4Message[]> {
    switch (message.role) {
      case "user":
        return [await this.#user(message)];
      case "assistant":
        return this.#assistant(message);
      case "tool":
        return this.#tool(message);
    }
  }

  async #user({ content }: UserChatMessage): Promise<LanguageModelV4Message> {
    const told = await Promise.all(
      content.filter((part) => saysSomething(part)).map((part) => this.#userPart(part)),
    );
    return { role: "user", content: told.length > 0 ? told : [{ type: "text", text: "(no text)" }] };
  }

  async #userPart(part: TextPart | FilePart): Promise<LanguageModelV4TextPart | LanguageModelV4FilePart> {
    if (part.type === "file") return this.#filePart(part);
    return { type: "text", text: part.text, ...returned(part.providerMetadata) };
  }

  #assistant({ content }: AssistantChatMessage): readonly LanguageModelV4Message[] {
    const told = content
      .filter((part) => saysSomething(part, part.type === "text" ? this.#dialect : undefined))
      .flatMap((part) => this.#assistantPart(part));
    // A thought that led to nothing, because it was stopped or ran out of tokens, is refused by those who sign them.
    const said = told.slice(0, told.findLastIndex(({ type }) => type !== "reasoning") + 1);
    return said.length > 0 ? [{ role: "assistant", content: said }] : [];
  }

  #assistantPart(part: AssistantChatMessage["content"][number]): AssistantPart[] {
    const own = returned(part.providerMetadata);
    switch (part.type) {
      case "text":
        return [{ type: "text", text: part.text, ...own }];
      case "reasoning":
        return this.#isOwnReasoning(part.providerMetadata)
          ? [{ type: "reasoning", text: part.text, ...own }]
          : [];
      case "tool-call": {
        const toolCallId = this.#callId(part.toolCallId);
        return [{ type: "tool-call", toolCallId, toolName: part.tool, input: inputOf(part.args), ...own }];
      }
    }
  }

  /** Another provider's thoughts are no use to this one, and may be refused. Thoughts without a mark could be its own. */
  #isOwnReasoning(metadata: JsonObject | undefined): boolean {
    return metadata === undefined || NAMESPACES[this.#dialect] in metadata;
  }

  /** Of another provider, when the model was changed on the way; only Anthropic minds. */
  #callId(id: string): string {
    return this.#dialect === "anthropic" ? id.replaceAll(/[^\w-]/g, "_") : id;
  }

  async #tool({ content }: ToolChatMessage): Promise<readonly LanguageModelV4Message[]> {
    const takesFiles = this.#dialect !== "openai-compatible";
    const results = await Promise.all(
      content.map(async (part) => ({
        type: "tool-result" as const,
        toolCallId: this.#callId(part.toolCallId),
        toolName: part.tool,
        output: await this.#output(part, takesFiles),
      })),
    );
    const told: LanguageModelV4Message[] = [{ role: "tool", content: results }];
    const files = content.flatMap((part) => part.files ?? []);
    if (takesFiles || files.length === 0) return told;
    // Chat completions have no place for a file in a result: the user shows it.
    const shown = await Promise.all(files.map((file) => this.#filePart(file)));
    const note = { type: "text" as const, text: "Files of the tool results above:" };
    return [...told, { role: "user", content: [note, ...shown] }];
  }

  async #output(part: ToolResultPart, takesFiles: boolean): Promise<LanguageModelV4ToolResultOutput> {
    const { outcome, files = [] } = part;
    // Most providers have no flag for it on the wire, so that the words must tell.
    const text = outcome === "done" ? part.text : `${outcome}: ${part.text}`;
    if (files.length > 0 && takesFiles) {
      const shown = await Promise.all(files.map((file) => this.#filePart(file)));
      return { type: "content", value: [{ type: "text", text }, ...shown] };
    }
    return { type: outcome === "done" ? "text" : "error-text", value: text };
  }

  /** Text is told as text: every model reads it, while few take it as a file. */
  async #filePart(part: FilePart): Promise<LanguageModelV4TextPart | LanguageModelV4FilePart> {
    const { mediaType, fileName, blobId, url } = part;
    const named = fileName === undefined ? {} : { filename: fileName };
    if (url !== undefined)
      return { type: "file", mediaType, data: { type: "url", url: addressOf(url) }, ...named };
    const data = await this.#file(blobId ?? "");
    if (!isText(mediaType)) return { type: "file", mediaType, data: { type: "data", data }, ...named };
    return { type: "text", text: `File ${fileName ?? "without a name"}:\n${new TextDecoder().decode(data)}` };
  }
}

function addressOf(url: string): URL {
  if (URL.canParse(url)) return new URL(url);
  throw new ModelFailure("invalid_request", "a file of the conversation has an address that is none");
}

function isText(mediaType: string): boolean {
  return /^(?:text\/|application\/(?:json|xml|yaml|javascript|x-sh|[^;]*\+(?:json|xml))\b)/i.test(mediaType);
}

/** Providers refuse empty texts; one that carries a signature must go back all the same, to whoever signed it. */
function saysSomething(
  part: { readonly type: string; readonly text?: string; readonly providerMetadata?: JsonObject },
  signer?: Dialect,
): boolean {
  const { text, providerMetadata } = part;
  if (text?.trim() !== "") return true;
  if (providerMetadata === undefined) return false;
  return signer === undefined || NAMESPACES[signer] in providerMetadata;
}

/** Arguments that are no JSON object cannot be sent as the model wrote them; it is shown what it wrote. */
function inputOf(args: string): JsonObject {
  try {
    const input: unknown = JSON.parse(args, wellFormed);
    if (isJsonObject(input)) return input;
  } catch {
    // Said below, and by the tool's result.
  }
  return { invalid_arguments: args };
}

/** Half a character, which JSON can write and providers refuse to read. */
function wellFormed(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.toWellFormed() : value;
}

/** What a provider attached to its words goes back to it unread. */
function returned(metadata: JsonObject | undefined): { providerOptions?: SharedV4ProviderOptions } {
  if (metadata === undefined) return {};
  const providerOptions: SharedV4ProviderOptions = {};
  for (const [name, own] of Object.entries(metadata)) if (isJsonObject(own)) providerOptions[name] = own;
  return { providerOptions };
}
