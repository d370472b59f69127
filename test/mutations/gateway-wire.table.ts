/** Mends of what the provider is told and what the client is told of it, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "the gateway's trailing answer is followed by a message that nobody said",
    file: "test/gateway/as-said.test.ts",
    test: "messages in a row, instructions in the middle and a trailing answer reach the model as they are",
    patches: [
      {
        file: "src/turn/conversation.ts",
        from: 'else if (!isAsItStands && earlier.at(-1)?.role === "assistant")',
        to: 'else if (earlier.at(-1)?.role === "assistant")',
      },
    ],
  },
  {
    name: "a blank message is told as words that nobody said",
    file: "test/agent/models/prompt.test.ts",
    test: "consecutive, trailing and blank messages stay as they are where the provider takes them",
    patches: [
      {
        file: "src/agent/models/prompt-messages.ts",
        from: "(said.length > 0 ? said : content.slice(0, 1))",
        to: '(said.length > 0 ? said : [{ type: "text" as const, text: "(no text)" }])',
      },
    ],
  },
  {
    name: "blank texts go to Anthropic, which refuses them",
    file: "test/agent/models/prompt.test.ts",
    test: "Anthropic refuses blank texts",
    patches: [
      {
        file: "src/agent/models/prompt.ts",
        from: "messages: fitForAnthropic(messages) }",
        to: "messages: fitForAnthropic(messages.slice(messages.length)).concat(messages) }",
      },
    ],
  },
  {
    name: "arguments of a tool call are parsed and written again on their way to the provider",
    file: "test/agent/models/verbatim.test.ts",
    test: "anthropic: arguments come from the provider and go back to it with every byte",
    patches: [
      {
        file: "src/agent/models/prompt-messages.ts",
        from: "return isWhole ? verbatim(args) : input;",
        to: "return isWhole && args.length < 0 ? verbatim(args) : input;",
      },
    ],
  },
  {
    name: "a number that Google wrote is rounded on its way in",
    file: "test/agent/models/verbatim.test.ts",
    test: "google: numbers that JavaScript cannot hold survive the way in",
    patches: [
      {
        file: "src/agent/models/google-numbers.ts",
        from: "if (marked === json) return line;",
        to: "if (marked.length > 0) return line;",
      },
    ],
  },
  {
    name: "instructions in the middle of a conversation move to its beginning",
    file: "test/gateway/as-said.test.ts",
    test: "messages in a row, instructions in the middle and a trailing answer reach the model as they are",
    patches: [
      {
        file: "src/gateway/openai/chat-messages.ts",
        from: 'line.role === "system" && messages.length === 0 && isPlain(line)',
        to: 'line.role === "system" && isPlain(line)',
      },
    ],
  },
  {
    name: "a workspace brings the agent's own instructions along",
    file: "test/gateway/as-said.test.ts",
    test: "a workspace adds no instructions of its own",
    patches: [
      {
        file: "src/turn/prompts.ts",
        from: "if (request.systemPrompt !== undefined || !hasBuiltIns) return given;",
        to: 'if (given !== "" || !hasBuiltIns) return given;',
      },
    ],
  },
  {
    name: "a request of instructions alone is refused",
    file: "test/gateway/as-said.test.ts",
    test: "a request of instructions alone is one, and its conversation goes on",
    patches: [
      {
        file: "src/turn/conversation.ts",
        from: "if (earlier.length === 0 && !(isAsItStands && systemPrompt !== undefined))",
        to: "if (earlier.length === 0 && systemPrompt !== null)",
      },
    ],
  },
  {
    name: "what is said behind tool results loses its form",
    file: "test/gateway/as-said.test.ts",
    test: "what is said behind tool results keeps its form, and goes into the turn that waits",
    patches: [
      {
        file: "src/turn/conversation.ts",
        from: `entry.kind === "user" ? entry.message.messageJson : entry.record.completed.message`,
        to: `entry.kind === "user" ? undefined : entry.record.completed.message`,
      },
    ],
  },
  {
    name: "usage that nobody told is told as zero",
    file: "test/gateway/openai/chunks.test.ts",
    test: "usage that the provider did not tell is absent, not zero",
    patches: [
      {
        file: "src/gateway/openai/chat-usage.ts",
        from: "if (prompt + usage.outputTokens === 0) return undefined;",
        to: "",
      },
    ],
  },
  {
    name: "max_completion_tokens goes out as max_tokens, which reasoning models refuse",
    file: "test/gateway/wishes.test.ts",
    test: "openai-compatible: every word reaches the provider where OpenAI has it",
    patches: [
      {
        file: "src/gateway/openai/chat-options.ts",
        from: 'limitsCompletion: body.has("max_completion_tokens") ? true : undefined,',
        to: "",
      },
    ],
  },
  {
    name: "what the provider has no word for is dropped in silence",
    file: "test/gateway/wishes.test.ts",
    test: "google: what it has no word for is named",
    patches: [
      {
        file: "src/gateway/http/gateway-http.ts",
        from: "ignoredHeader([...providers.unspoken(model, wishes.words), ...wishes.ignored])",
        to: "ignoredHeader(wishes.ignored)",
      },
    ],
  },
  {
    name: "blank texts reach Anthropic's wire",
    file: "test/gateway/wishes.test.ts",
    test: "anthropic: nothing but what was said is on the wire",
    patches: [
      {
        file: "src/agent/models/anthropic-prompt.ts",
        from: 'part.text.trim() !== ""',
        to: 'part.text !== ""',
      },
    ],
  },
  {
    name: "a client's cache marks are replaced by the gateway's own",
    file: "test/gateway/wishes.test.ts",
    test: "anthropic: the client's cache marks stand where it set them, and the rest by name",
    patches: [
      {
        file: "src/agent/models/anthropic-prompt.ts",
        from: "const isClients = marksIn(rest) > 0;",
        to: "const isClients = marksIn(rest) > 99;",
      },
    ],
  },
  {
    name: "the provider's rate limits stay with the gateway",
    file: "test/gateway/wishes.test.ts",
    test: "a request that asks for nothing special is answered without the header; the provider's limits are told",
    patches: [
      {
        file: "src/agent/models/rate-limits.ts",
        from: "if (Object.keys(seen).length > 0) remember(this.#newest, modelId, seen, MODELS_MAX);",
        to: "",
      },
    ],
  },
  {
    name: "the client's cookies go to the provider with what is passed on",
    file: "test/gateway/passed/passed.test.ts",
    test: "over HTTP/1 a body goes up as it is but for the model's name, and few headers cross",
    patches: [
      {
        file: "src/gateway/passed/passed-headers.ts",
        from: 'const UP = ["content-type", "accept"] as const;',
        to: 'const UP = ["content-type", "accept", "cookie"] as const;',
      },
    ],
  },
  {
    name: "every header of the provider comes down with what is passed on",
    file: "test/gateway/passed/passed.test.ts",
    test: "over HTTP/1 a body goes up as it is but for the model's name, and few headers cross",
    patches: [
      {
        file: "src/gateway/passed/passed-headers.ts",
        from: "const isPassed = DOWN.has(name) || LIMITS.test(name);",
        to: 'const isPassed = name !== "connection" || DOWN.has(name) || LIMITS.test(name);',
      },
    ],
  },
  {
    name: "a second model in a body gets around what an API key may use",
    file: "test/gateway/passed/passed.test.ts",
    test: "a second model does not get around what an API key may use, also when the first is on its way",
    patches: [
      {
        file: "src/gateway/passed/json-model.ts",
        from: 'if (this.found !== undefined || this.#name !== "model") throw twoModels();',
        to: "if (this.#open.length > 1) throw twoModels();",
      },
    ],
  },
  {
    name: "a boundary that only some readers see hides a second model in a form",
    file: "test/gateway/passed/model-field.test.ts",
    test: "in a form: a boundary that some readers would see and others not is refused",
    patches: [
      {
        file: "src/gateway/passed/form-model.ts",
        from: "if (size < 0 || !this.#rest.subarray(size, at).equals(LINE_END))",
        to: "if (size < -9 || LINE_END.length === 0)",
      },
    ],
  },
  {
    name: "what is passed on goes to models that the API key may not use",
    file: "test/gateway/passed/passed.test.ts",
    test: "an API key reaches its own models only, at its own rate",
    patches: [
      {
        file: "src/gateway/passed/passed-route.ts",
        from: "if (!mayUse(guest.limits, names)) throw modelNotFound();",
        to: "if (names.length === 0 && !mayUse(guest.limits, names)) throw modelNotFound();",
      },
    ],
  },
  {
    name: "the provider's API key comes down in its own refusal",
    file: "test/gateway/passed/passed.test.ts",
    test: "a provider's refusal reaches the client; what it says of the API key does not",
    patches: [
      {
        file: "src/gateway/passed/pass-through.ts",
        from: '.reduce((all, secret) => all.replaceAll(secret, "***"), text);',
        to: '.reduce((all, secret) => (secret === "" ? "" : all), text);',
      },
    ],
  },
  {
    name: "a client that hangs up leaves its request running at the provider",
    file: "test/gateway/passed/passed.test.ts",
    test: "only so many are under way at once; a client that hangs up makes room, and its provider is let go",
    patches: [
      {
        file: "src/gateway/passed/pass-through.ts",
        from: 'const request = send(target.url, { method: "POST", headers, signal: call.signal, agent: false });',
        to: 'const request = send(target.url, { method: "POST", headers, agent: false });',
      },
      {
        file: "src/gateway/passed/pass-through.ts",
        from: "    request.destroy();",
        to: "    request.flushHeaders();",
      },
    ],
  },
];
