/** The line: what must not become of a call that outlives its server. */
import type { Mutation } from "./mutation.ts";

const LINE = "src/agent/models/line/line-process.ts";
const IN_PROCESS = "test/agent/models/line/line-process.test.ts";
const ONE_READER = "D1: a call has one reader: the later host's, from the first byte";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "G6: a server that closes cancels its calls",
    file: "test/node/line-serve.test.ts",
    test: "G6: a server that closes lets go of its call",
    patches: [
      {
        file: "src/server/application-run.ts",
        from: "new LetGo(MESSAGES.unavailable)",
        to: 'new HoldfastError("unavailable", MESSAGES.unavailable)',
      },
    ],
  },
  {
    name: "D1: a server that was fenced cancels the call of the one that took its place",
    file: IN_PROCESS,
    test: ONE_READER,
    patches: [
      { file: LINE, from: "if (call !== undefined && epoch < call.epoch) return;", to: "assertNothing();" },
      {
        file: LINE,
        from: "const SETTINGS_FD = 3;",
        to: "const SETTINGS_FD = 3;\nfunction assertNothing() {}",
      },
    ],
  },
  {
    name: "D1: two readers of one call",
    file: IN_PROCESS,
    test: ONE_READER,
    patches: [
      {
        file: LINE,
        from: "      this.#detach(call);\n      this.#read(call, response);",
        to: "      this.#read(call, response);",
      },
    ],
  },
  {
    name: "G6: a reader is attached inside a frame",
    file: IN_PROCESS,
    test: ONE_READER,
    patches: [
      {
        file: LINE,
        from: "{ response, at: 0, isFull: false }",
        to: "{ response, at: call.kept.length, isFull: false }",
      },
    ],
  },
  {
    name: "G4: a cancel that overtakes its request is forgotten",
    file: IN_PROCESS,
    test: "a cancel that overtakes its request holds",
    patches: [
      {
        file: LINE,
        from: 'if (word === "cancel") this.#cancelled',
        to: 'if (word === "detach") this.#cancelled',
      },
    ],
  },
  {
    name: "G4: a stop only lets go of the call",
    file: "test/agent/models/line/held-calls.test.ts",
    test: "G4: a stop cancels the call at its provider",
    patches: [
      {
        file: "src/agent/models/line/line-fetch.ts",
        from: "if (!(reason instanceof LetGo)) void",
        to: "if (reason instanceof LetGo && isConnected) void",
      },
    ],
  },
];
