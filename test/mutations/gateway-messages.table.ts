/** Rules of the Messages door, and of `holdfast setup`, taken back. */
import type { Mutation } from "./mutation.ts";

const SDK = "test/gateway/messages/anthropic-sdk.test.ts";
const EVENTS = "test/gateway/messages/events.test.ts";
const REQUEST = "test/gateway/messages/request.test.ts";
const REFUSALS = "test/gateway/messages/refusals.test.ts";
const SETUP = "test/cli/setup.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "the account's line of Claude Code is part of the system prompt",
    file: SDK,
    test: "results continue the open turn, whatever the client has rewritten, and the next message its conversation",
    patches: [
      {
        file: "src/gateway/messages/message-request.ts",
        from: "blocks.filter((block) => !BILLING.test(",
        to: "blocks.filter((block) => !/^never$/.test(",
      },
    ],
  },
  {
    name: "a failed tool has not failed for the model, in an open turn",
    file: SDK,
    test: "a failed tool, an image and words before the results reach the model, in the open turn and in a history",
    patches: [{ file: "src/gateway/requests.ts", from: "line.isError ?? false", to: "false" }],
  },
  {
    name: "a failed tool has not failed for the model, in a history",
    file: SDK,
    test: "a failed tool, an image and words before the results reach the model, in the open turn and in a history",
    patches: [
      { file: "src/gateway/openai/history.ts", from: "isError === true) ?", to: "isError === false) ?" },
    ],
  },
  {
    name: "results count only at the beginning of a message",
    file: REQUEST,
    test: "results are lines of their own wherever they stand among the user's words",
    patches: [
      {
        file: "src/gateway/messages/message-lines.ts",
        from: '[...results, { role: "user", parts }]',
        to: '[{ role: "user", parts }, ...results]',
      },
    ],
  },
  {
    name: "an unknown block is refused",
    file: REQUEST,
    test: "members, tools and blocks that no model here is given are left out and named, never refused",
    patches: [
      {
        file: "src/gateway/messages/message-content.ts",
        from: "reader.ignore(`content.${type}`);",
        to: 'if (type !== "") throw block.wrong("type", "is not known");',
      },
    ],
  },
  {
    name: "a reader that returns is told message_start again",
    file: EVENTS,
    test: "a reader that returns at any frame is given exactly what follows, and message_start once",
    patches: [
      {
        file: "src/gateway/messages/message-events.ts",
        from: "if (this.#after !== undefined) return [];",
        to: "if (this.isOver) return [];",
      },
    ],
  },
  {
    name: "a place inside an event is taken for one of whatever follows",
    file: EVENTS,
    test: "a place whose rest is of another kind, or was never sent, ends with an error and no doubled block",
    patches: [
      {
        file: "src/gateway/messages/message-events.ts",
        from: "kind !== this.#after?.begun",
        to: "kind === undefined",
      },
    ],
  },
  {
    name: "B5: a place that was never sent is taken for the end",
    file: EVENTS,
    test: "a place whose rest is of another kind, or was never sent, ends with an error and no doubled block",
    patches: [
      {
        file: "src/gateway/messages/message-events.ts",
        from: "this.isWhole && this.#isAhead ?",
        to: "this.isWhole && this.#isAhead && this.#toSkip < 0 ?",
      },
    ],
  },
  {
    name: "a thought keeps its block open behind its signature",
    file: EVENTS,
    test: "whatever the model says, the SDK's own accumulator has the message that comes in one piece",
    patches: [
      {
        file: "src/gateway/messages/message-blocks.ts",
        from: "signature: token }), ...this.#close(token)];",
        to: "signature: token })];",
      },
    ],
  },
  {
    name: "a model that refuses without a word has failed",
    file: EVENTS,
    test: "each end has its stop reason; a model that refuses to say anything has refused, and nothing failed",
    patches: [
      {
        file: "src/gateway/messages/message-object.ts",
        from: 'error?.code === "content_filter" ? undefined : error',
        to: 'error?.code === "nothing" ? undefined : error',
      },
    ],
  },
  {
    name: "a refusal before the door has OpenAI's shape",
    file: REFUSALS,
    test: "refusals have Anthropic's shape and its types, before the door is reached as well",
    patches: [
      {
        file: "src/gateway/http/refusing.ts",
        from: "speaksMessages(exchange) ? messageErrorBody",
        to: 'exchange.path === "" ? messageErrorBody',
      },
    ],
  },
  {
    name: "models are listed in OpenAI's shape to everybody",
    file: REFUSALS,
    test: "models are listed in Anthropic's shape to its clients, one by one and by pages",
    patches: [
      {
        file: "src/gateway/http/model-answers.ts",
        from: "if (!speaksMessages(exchange)) return",
        to: "if (speaksMessages(exchange)) return",
      },
    ],
  },
  {
    name: "the end of a prompt that the client has marked is not marked",
    file: "test/agent/models/anthropic-wishes.test.ts",
    test: "a client's mark at the end of the prompt holds there, where a tool's result stands, with its time",
    patches: [
      {
        file: "src/agent/models/anthropic-prompt.ts",
        from: "if (endMark === undefined) return",
        to: "if (endMark !== undefined || isClients) return",
      },
    ],
  },
  {
    name: "a signature of ours is not looked for in a history",
    file: "test/gateway/messages/anthropic-models.test.ts",
    test: "without any session the provider gets its signed thoughts back by the client, and by no other key",
    patches: [
      {
        file: "src/gateway/messages/message-lines.ts",
        from: "else thoughts.push({ token, at });",
        to: "else unsigned.push(token);",
      },
    ],
  },
  {
    name: "an undone setup is what the file had, without what its user has changed since",
    file: SETUP,
    test: "from a file that was changed since, only the settings are taken out, and those before them come back",
    patches: [
      {
        file: "src/cli/setup/clients.ts",
        from: "client.put(before, settings) === now",
        to: 'client.put(before, settings) !== ""',
      },
    ],
  },
  {
    name: "settings of the user's own are taken for ours",
    file: SETUP,
    test: "settings of the user's own are never taken for ours, and a file that is no JSON is left alone",
    patches: [
      {
        file: "src/cli/setup.ts",
        from: "if (copy === undefined) return",
        to: 'if (copy === "never") return',
      },
      {
        file: "src/cli/setup.ts",
        from: "rmSync(path + BACKUP);",
        to: "rmSync(path + BACKUP, { force: true });",
      },
    ],
  },
];
