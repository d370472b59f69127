/** Mends of how the body of a provider's answer is read, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "words before an error that came with them are lost",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "words that came at once are one part, also before an error that came with them",
    patches: [
      {
        file: "src/agent/models/sdk-model.ts",
        from: "if (last !== undefined) yield last;\n    throw error;",
        to: "throw error;",
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
];
