/** Mends of the providers' side, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a model's name with .. in it leaves the path of its model",
    file: "test/agent/models/names.test.ts",
    test: "a name that could leave the path of its model is no name",
    patches: [
      {
        file: "src/protocol/model-name.ts",
        from: 'part !== "" && part !== "." && part !== ".."',
        to: 'part !== ""',
      },
    ],
  },
  {
    name: "a model's name with a percent sign or a question mark is passed on",
    file: "test/agent/models/names.test.ts",
    test: "a name that could leave the path of its model is no name",
    patches: [{ file: "src/protocol/model-name.ts", from: "[?#%\\\\\\p{Cc}", to: "[\\p{Cc}" }],
  },
  {
    name: "a second name of a Google model is not on the list of those offered",
    file: "test/agent/models/names.test.ts",
    test: "two names of one model are compared as one",
    patches: [
      {
        file: "src/agent/models/registry.ts",
        from: 'isGoogle ? name.replace(/^models\\//, "") : name',
        to: "isGoogle ? name.slice(0) : name",
      },
    ],
  },
  {
    name: "E4: the API key of a provider follows a redirect to another host",
    file: "test/agent/models/redirects.test.ts",
    test: "E4: anthropic: a redirect is not followed",
    patches: [
      {
        file: "src/agent/models/upstream/redirects.ts",
        from: 'redirect: "manual"',
        to: 'redirect: "follow"',
      },
    ],
  },
  {
    name: "a model's name in the configuration may leave its path",
    file: "test/cli/model-config.test.ts",
    test: "what is wrong is refused, and the field is named",
    patches: [
      { file: "src/cli/model-config.ts", from: "if (modelNameOf(text) !== text)", to: 'if (text === "")' },
    ],
  },
  {
    name: "G5: a ping starts the clock of the first content anew",
    file: "test/agent/models/upstream/stall-clocks.test.ts",
    test: "F4: the first content has 240 s from the request",
    patches: [
      {
        file: "src/agent/models/upstream/stall-clocks.ts",
        from: "byteMs: nowMs, isPinged: true, pings: true }",
        to: "byteMs: nowMs, contentMs: nowMs, isPinged: true, pings: true }",
      },
    ],
  },
  {
    name: "F4: a model that writes may pause as long as one that thinks",
    file: "test/agent/models/upstream/stall-clocks.test.ts",
    test: "F4: text and arguments have 60 s",
    patches: [
      {
        file: "src/agent/models/upstream/stall-clocks.ts",
        from: "writingMs: 60_000",
        to: "writingMs: 240_000",
      },
    ],
  },
  {
    name: "an answer is thrown away when its connection dies behind the finish marker",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "anthropic: behind its finish marker an answer is whole, although the connection is cut",
    patches: [
      {
        file: "src/agent/models/upstream/answer-progress.ts",
        from: 'return phase === "after_finish";',
        to: "return phase !== phase;",
      },
    ],
  },
  {
    name: "Anthropic's last event is not said in its place when the connection dies before it",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "anthropic: behind its finish marker an answer is whole, although the body ends in good order",
    patches: [
      {
        file: "src/agent/models/upstream/upstream-call.ts",
        from: 'if (lastWord !== "") controller.enqueue(encoder.encode(lastWord));',
        to: "",
      },
    ],
  },
  {
    name: "G3: a tool call of an answer that broke counts",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "openai-compatible: G3: before its finish marker an answer is broken at every place",
    patches: [
      {
        file: "src/agent/models/sdk-model.ts",
        from: "if (upstream.broken !== undefined && (",
        to: "if (upstream.broken === null && (",
      },
    ],
  },
  {
    name: "G3: a tool call that ran out of tokens counts",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "G3: a call that ran out of tokens is no call",
    patches: [
      {
        file: "src/agent/models/stream-parts.ts",
        from: "const ended = isCut ? [] : this.#doubtful;",
        to: "const ended = isCut ? this.#doubtful : this.#doubtful;",
      },
    ],
  },
  {
    name: "a provider is blamed for the time in which its reader was busy",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "a slow reader is not the provider's silence",
    patches: [
      {
        file: "src/agent/models/upstream/upstream-call.ts",
        from: "this.#pausedMs += performance.now() - this.#pausedAtMs;",
        to: "this.#pausedMs += 0;",
      },
    ],
  },
];
