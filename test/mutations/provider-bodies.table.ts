/** Mends of how the body of a provider's answer is read, and of what the log says of it, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "words before an error that came with them are lost",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "words that came at once are one part, also before an error that came with them",
    patches: [
      {
        file: "src/agent/models/sdk-model.ts",
        from: "for (const one of parts)\n          for (const part of reader.read(one)) {",
        to: "for (const _ of [0])\n          for (const part of parts.flatMap((one) => reader.read(one))) {",
      },
    ],
  },
  {
    name: "the end of a socket hides what it brought",
    file: "test/agent/models/upstream/arriving-bytes.test.ts",
    test: "a break, and an end, are read behind every byte that came",
    patches: [
      {
        file: "src/agent/models/upstream/arriving-bytes.ts",
        from: "if (!this.#isOver) this.#broken = { reason };",
        to: "this.#broken = { reason };",
      },
    ],
  },
  {
    name: "a request's line in the log does not name the breaks of its answer",
    file: "test/node/broken-answers.test.ts",
    test: "a request's line in the log says where the provider broke",
    patches: [{ file: "src/server/http/edge.ts", from: "        ...pass.breaks?.(),\n", to: "" }],
  },
  {
    name: "a break that no request was reading is named by none",
    file: "test/node/broken-answers.test.ts",
    test: "what broke is named by all requests",
    patches: [
      {
        file: "src/node/broken-answers.ts",
        from: "const met: Met = this.#unread.get(stream) ?? new Map();\n    this.#unread.delete(stream);",
        to: "const met: Met = new Map();",
      },
    ],
  },
  {
    name: "a call that was read again from the line is not told with its stream",
    file: "test/node/line-serve.test.ts",
    test: "G7: a server that starts finishes the answer whose call is held",
    patches: [
      {
        file: "src/agent/turn.ts",
        from: "noteContinued?.(model, how, { principal, idempotencyKey })",
        to: "noteContinued?.(model, how)",
      },
    ],
  },
];
