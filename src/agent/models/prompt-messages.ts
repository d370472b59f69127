/**
 * One message of the conversation, in the SDK's words, for one provider.
 *
 * What a client said for providers that have a word for it (`name`, `detail`, `cache_control`) is given to those; `words.ts` says which.
 */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
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
  SystemChatMessage,
  TextPart,
  ToolChatMessage,
  ToolResultPart,
  UserChatMessage,
} from "../../protocol/chat-message.ts";
import { isJsonObject, textOf } from "../../protocol/chat-message.ts";
import { type ModelCall, ModelFailure } from "../model.ts";
import type { Dialect } from "./dialect.ts";
import { isOwn, returned } from "./own-words.ts";
import { verbatim } from "./verbatim.ts";

type AssistantPart = LanguageModelV4TextPart | LanguageModelV4ReasoningPart | LanguageModelV4ToolCallPart;
export type PromptRequest = Pick<ModelCall, "system" | "messages" | "file"> &
  Partial<Pick<ModelCall, "options">>;

/** They sign every thought, and take none back without. */
const SIGNERS: ReadonlySet<Dialect> = new Set(["anthropic", "openai"]);

export class Teller {
  readonly #file: ModelCall["file"];
  readonly #dialect: Dialect;
  readonly #modelId: string | undefined;

  /** `modelId`: the model that gets the prompt. */
  constructor(file: ModelCall["file"], dialect: Dialect, modelId?: string) {
    this.#file = file;
    this.#dialect = dialect;
    this.#modelId = modelId;
  }

  /** At once where no file has to be got: a history is long, and nearly all of it is text. */
  tell(message: ChatMessage): Soon<readonly LanguageModelV4Message[]> {
    switch (message.role) {
      case "system":
        return [this.#system(message)];
      case "user":
        return this.#user(message);
      case "assistant":
        return this.#assistant(message);
      case "tool":
        return this.#tool(message);
    }
  }

  #system(message: SystemChatMessage): LanguageModelV4Message {
    const { name } = message;
    const cacheControl = message.content.findLast((part) => part.cacheControl !== undefined)?.cacheControl;
    return { role: "system", content: textOf(message), ...this.#spoken({ name, cacheControl }) };
  }

  #user({ content, name }: UserChatMessage): Soon<readonly LanguageModelV4Message[]> {
    const said = content.filter((part) => part.type === "file" || part.text !== "");
    const parts = (said.length > 0 ? said : content.slice(0, 1)).map((part) => this.#userPart(part));
    return withAll(parts, (told) => {
      const named = this.#spoken({ name });
      const [only] = told;
      // The SDK makes a bare string of a single text, and reads what belongs to the message from there.
      if (told.length === 1 && only?.type === "text") {
        return [{ role: "user", content: [{ ...only, ...both(only, named) }] }];
      }
      return [{ role: "user", content: told, ...named }];
    });
  }

  #userPart(part: TextPart | FilePart): Soon<LanguageModelV4TextPart | LanguageModelV4FilePart> {
    if (part.type === "file") return this.#filePart(part);
    const own = this.#returned(part.providerMetadata);
    return { type: "text", text: part.text, ...both(own, this.#spoken(part)) };
  }

  #assistant({ content, name }: AssistantChatMessage): readonly LanguageModelV4Message[] {
    const told = content
      .filter((part) => part.type !== "text" || part.text !== "" || this.#isOwn(part.providerMetadata))
      .flatMap((part) => this.#assistantPart(part));
    // Providers that sign thoughts refuse one that led to nothing, because it was stopped or ran out of tokens.
    const said = told.slice(0, told.findLastIndex(({ type }) => type !== "reasoning") + 1);
    if (said.length === 0) return [];
    const marked = content.findLast((part) => part.type === "text" && part.cacheControl !== undefined);
    const cacheControl = marked?.type === "text" ? marked.cacheControl : undefined;
    return [{ role: "assistant", content: said, ...this.#spoken({ name, cacheControl }) }];
  }

  /** What the client wants this provider to know beside the words, as far as the provider has a word for it. */
  #spoken({ name, detail, cacheControl }: Asked): Optioned {
    if (name === undefined && detail === undefined && cacheControl === undefined) return {};
    switch (this.#dialect) {
      case "openai":
        return detail === undefined ? {} : { providerOptions: { openai: { imageDetail: detail } } };
      case "anthropic":
        return cacheControl === undefined ? {} : { providerOptions: { anthropic: { cacheControl } } };
      case "google":
        return {};
      case "openai-compatible":
        return {
          providerOptions: {
            openaiCompatible: {
              ...(name === undefined ? {} : { name }),
              ...(detail === undefined ? {} : { detail }),
              ...(cacheControl === undefined ? {} : { cache_control: cacheControl }),
            },
          },
        };
    }
  }

  #assistantPart(part: AssistantChatMessage["content"][number]): AssistantPart[] {
    const own = this.#returned(part.providerMetadata);
    switch (part.type) {
      case "text":
        return [{ type: "text", text: part.text, ...own }];
      case "reasoning":
        // Another model's thoughts are no use to this one, and may be refused. Those without a signature are for models that sign none.
        return this.#isOwn(part.providerMetadata) ||
          (part.providerMetadata === undefined && !SIGNERS.has(this.#dialect))
          ? [{ type: "reasoning", text: part.text, ...own }]
          : [];
      case "tool-call": {
        const toolCallId = this.#callId(part.toolCallId);
        return [{ type: "tool-call", toolCallId, toolName: part.tool, input: inputOf(part.args), ...own }];
      }
    }
  }

  /** Signed by this provider, for this model: it must go back, whatever it says. */
  #isOwn(metadata: JsonObject | undefined): boolean {
    return isOwn(metadata, this.#dialect, this.#modelId);
  }

  #returned(metadata: JsonObject | undefined): Optioned {
    return returned(metadata, this.#dialect, this.#modelId);
  }

  /** Of another provider, when the model was changed on the way; only Anthropic minds. */
  #callId(id: string): string {
    return this.#dialect === "anthropic" ? id.replaceAll(/[^\w-]/g, "_") : id;
  }

  #tool({ content }: ToolChatMessage): Soon<readonly LanguageModelV4Message[]> {
    const takesFiles = this.#dialect !== "openai-compatible";
    const outputs = content.map((part) => this.#output(part, takesFiles));
    const files = takesFiles ? [] : content.flatMap((part) => part.files ?? []);
    return withAll(outputs, (given) => {
      const results = content.flatMap(({ toolCallId, tool: toolName }, at) => {
        const output = given[at];
        if (output === undefined) return [];
        return [{ type: "tool-result" as const, toolCallId: this.#callId(toolCallId), toolName, output }];
      });
      const told = { role: "tool" as const, content: results };
      if (files.length === 0) return [told];
      // Chat completions have no place for a file in a result: the user shows it.
      const note = { type: "text" as const, text: "Files of the tool results above:" };
      const parts = files.map((file) => this.#filePart(file));
      return withAll(parts, (shown) => [told, { role: "user" as const, content: [note, ...shown] }]);
    });
  }

  #output(part: ToolResultPart, takesFiles: boolean): Soon<LanguageModelV4ToolResultOutput> {
    const { outcome, files = [] } = part;
    // Most providers have no flag for it on the wire, so that the words must tell.
    const text = outcome === "done" ? part.text : `${outcome}: ${part.text}`;
    if (files.length === 0 || !takesFiles)
      return { type: outcome === "done" ? "text" : "error-text", value: text };
    const parts = files.map((file) => this.#filePart(file));
    return withAll(parts, (shown) => ({ type: "content", value: [{ type: "text", text }, ...shown] }));
  }

  /** Text is sent as text: every model reads it, while few take it as a file. */
  async #filePart(part: FilePart): Promise<LanguageModelV4TextPart | LanguageModelV4FilePart> {
    const { mediaType, fileName, blobId, url } = part;
    const more = { ...(fileName === undefined ? {} : { filename: fileName }), ...this.#spoken(part) };
    if (url !== undefined)
      return { type: "file", mediaType, data: { type: "url", url: addressOf(url) }, ...more };
    const data = await this.#file(blobId ?? "");
    if (!isText(mediaType)) return { type: "file", mediaType, data: { type: "data", data }, ...more };
    return { type: "text", text: `File ${fileName ?? "without a name"}:\n${new TextDecoder().decode(data)}` };
  }
}

type Soon<Value> = Value | Promise<Value>;

/** At once when all of them are there. */
function withAll<Value, Made>(
  values: readonly Soon<Value>[],
  make: (all: Value[]) => Soon<Made>,
): Soon<Made> {
  const there: Value[] = [];
  for (const value of values) {
    if (value instanceof Promise) return Promise.all(values).then(make);
    there.push(value);
  }
  return make(there);
}

function addressOf(url: string): URL {
  if (URL.canParse(url)) return new URL(url);
  throw new ModelFailure("invalid_request", "a file of the conversation has an address that is none");
}

function isText(mediaType: string): boolean {
  return /^(?:text\/|application\/(?:json|xml|yaml|javascript|x-sh|[^;]*\+(?:json|xml))\b)/i.test(mediaType);
}

interface Asked {
  readonly name?: string | undefined;
  readonly detail?: string | undefined;
  readonly cacheControl?: JsonObject | undefined;
}

interface Optioned {
  readonly providerOptions?: SharedV4ProviderOptions;
}

function both(first: Optioned, second: Optioned): Optioned {
  if (second.providerOptions === undefined) return first;
  const providerOptions = { ...first.providerOptions };
  for (const [name, own] of Object.entries(second.providerOptions))
    providerOptions[name] = { ...providerOptions[name], ...own };
  return { providerOptions };
}

/** The model's own bytes. Arguments that are no JSON object cannot be sent as the model wrote them; it is shown what it wrote. */
function inputOf(args: string): JsonObject {
  let isWhole = true;
  try {
    const input: unknown = JSON.parse(args, (_, value: unknown) => {
      // Half a character, which JSON can write and providers refuse to read.
      if (typeof value !== "string" || value.isWellFormed()) return value;
      isWhole = false;
      return value.toWellFormed();
    });
    if (isJsonObject(input)) return isWhole ? verbatim(args) : input;
  } catch {
    // Said below, and by the tool's result.
  }
  return { invalid_arguments: args };
}
