/** Rules of signed thoughts, of background responses, and of `holdfast/fetch` over Responses, taken back. */
import type { Mutation } from "./mutation.ts";

const TOKENS = "test/gateway/thought-tokens.test.ts";
const PROMPT = "test/agent/models/prompt.test.ts";
const EVENTS = "test/gateway/responses/events.test.ts";
const CALL = "test/fetch/call.test.ts";
const RULES = "test/fetch/rules.test.ts";
const BEGUN_ANEW = "test/gateway/begun-anew.test.ts";
const OF_ONE = "a token opens for its principal, in every process, and for no other";
const LAST =
  "a history has each thought where it was thought, once, of the last attempt; what does not open is left out";
const FOREIGN =
  "a thought without a signature, or of another model, does not go back; nor do marks of another model's words";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "an API key has one background response more than it may",
    file: "test/gateway/responses/breaks.test.ts",
    test: "background: an API key has as many under way as it may, and one more is refused until one is over",
    patches: [
      {
        file: "src/gateway/wanted.ts",
        from: "underWay.length >= max",
        to: "underWay.length > max",
      },
    ],
  },
  {
    name: "E2: a thought opens whoever brings it",
    file: TOKENS,
    test: OF_ONE,
    patches: [
      {
        file: "src/gateway/thought-tokens.ts",
        from: "decipher.setAAD(Buffer.from(principal))",
        to: "decipher.setAAD(Buffer.alloc(principal.length && 0))",
      },
      {
        file: "src/gateway/thought-tokens.ts",
        from: ".setAAD(Buffer.from(principal));",
        to: ".setAAD(Buffer.alloc(0));",
      },
    ],
  },
  {
    name: "E3: two thoughts share a nonce",
    file: TOKENS,
    test: "two thoughts never share a nonce, nor do two principals",
    patches: [{ file: "src/gateway/thought-tokens.ts", from: "      .update(plain)\n", to: "" }],
  },
  {
    name: "G1: a thought that was given up is kept from readers that come later, whose items are then counted otherwise",
    file: BEGUN_ANEW,
    test: "G1: Responses: however often a step began anew in its thoughts",
    patches: [
      { file: "src/turn/rollback.ts", from: "(!hasText && isThought(one))", to: "hasText && isThought(one)" },
    ],
  },
  {
    name: "the thought of a new attempt is written into the item of the one that was given up, and signs for both",
    file: BEGUN_ANEW,
    test: "a thought that was given up is an item and a block of its own",
    patches: [
      {
        file: "src/gateway/responses/response-output.ts",
        from: 'return this.#open?.kind === "reasoning" ? this.#close("completed") : [];',
        to: "return [];",
      },
    ],
  },
  {
    name: "the thoughts of an attempt that was given up go back too",
    file: TOKENS,
    test: LAST,
    patches: [
      {
        file: "src/gateway/openai/history.ts",
        from: "thought.attempt === last.get(thought.origin)",
        to: "thought.attempt <= (last.get(thought.origin) ?? 0)",
      },
    ],
  },
  {
    name: "all thoughts stand before the text",
    file: TOKENS,
    test: LAST,
    patches: [{ file: "src/gateway/openai/history.ts", from: "    say(at);\n", to: "    say(at * 0);\n" }],
  },
  {
    name: "a signature goes to any model of its provider",
    file: PROMPT,
    test: FOREIGN,
    patches: [
      {
        file: "src/agent/models/own-words.ts",
        from: "modelId !== undefined && model !== modelId",
        to: "modelId !== undefined && model === undefined",
      },
    ],
  },
  {
    name: "those who sign thoughts get plain ones",
    file: PROMPT,
    test: FOREIGN,
    patches: [
      {
        file: "src/agent/models/prompt-messages.ts",
        from: "!SIGNERS.has(this.#dialect)",
        to: "(true || SIGNERS.has(this.#dialect))",
      },
    ],
  },
  {
    name: "the items of a response depend on what its client asked to see",
    file: EVENTS,
    test: "thoughts have their tokens for a client that asks for them; without, the items are the same",
    patches: [
      {
        file: "src/gateway/responses/response-output.ts",
        from: '    const before = isShown ? [] : this.#close("completed");\n    const begun',
        to: '    if (!isShown && !this.#isSealedShown) return [];\n    const before = isShown ? [] : this.#close("completed");\n    const begun',
      },
    ],
  },
  {
    name: "a response that fails is asked for again and again",
    file: CALL,
    test: "Responses: its last event ends it, whatever its status; errors and content are known as in chat",
    patches: [{ file: "src/fetch/call.ts", from: "completed|incomplete|failed", to: "completed|incomplete" }],
  },
  {
    name: "who leaves a response deletes it, and the model talks on",
    file: RULES,
    test: "Responses: leaving behind the first content stops the answer, under its key and by the path that resumes it",
    patches: [
      {
        file: "src/gateway/http/response-routes.ts",
        from: "if (isStreamed(exchange)) return this.cancel(principal, id);",
        to: 'if (exchange.path === "") return this.cancel(principal, id);',
      },
    ],
  },
];
