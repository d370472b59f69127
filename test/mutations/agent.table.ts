/** Rules of the agent and of the tools, broken. */
import type { Mutation } from "./mutation.ts";

const answers = "test/agent/trusted-answers.test.ts";
const writes = "test/tools/synced-write.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "C1: a command of the user's runs again when the user says something",
    file: "test/turn/next.test.ts",
    test: "C1: a command of the user's runs once",
    patches: [
      {
        file: "src/turn/next.ts",
        from: "const message = isCommand ? undefined : facts.said[facts.appended];",
        to: "const message = isCommand === undefined ? undefined : facts.said[facts.appended];",
      },
    ],
  },
  {
    name: "C0: an answer of the rehearsal model begins anew behind a kill",
    file: "test/agent/rehearsed-kills.test.ts",
    test: "C0: killed after any event",
    patches: [{ file: "src/agent/models/rehearsal.ts", from: "holdsCalls: true", to: "holdsCalls: false" }],
  },
  {
    name: "the rehearsal model pauses behind words that its log has",
    file: "test/agent/models/rehearsal.test.ts",
    test: "waits for none of it",
    patches: [
      {
        file: "src/agent/models/rehearsal.ts",
        from: "isLogged?.() !== true) await delay",
        to: "isLogged !== signal) await delay",
      },
    ],
  },
  {
    name: "G6: an answer that was read to its end in vain stays held",
    file: "test/agent/held-calls.test.ts",
    test: "a held one that ends too early differs",
    patches: [{ file: "src/agent/turn.ts", from: "if (isRefuted) model.done?.(names);", to: "" }],
  },
  {
    name: "G1: text that a run has shown itself is taken back because a crash was before it",
    file: "test/turn/continued.test.ts",
    test: "F1: a text that a crash cut off",
    patches: [
      {
        file: "src/turn/attempts.ts",
        from: "textEvent <= (pastHead ?? 0);",
        to: "textEvent > 0 && pastHead !== undefined;",
      },
    ],
  },
  {
    name: "G2: a step that begins anew may be continued as often as before",
    file: "test/turn/continued.test.ts",
    test: "G2: a step pays for six answers at the most",
    patches: [
      { file: "src/turn/attempts.ts", from: "const ATTEMPTS_MAX = 6;", to: "const ATTEMPTS_MAX = 12;" },
    ],
  },
  {
    name: "G1: two words are pushed together where a join is not proved",
    file: "test/turn/join.test.ts",
    test: "half a word cannot be told from two words",
    patches: [
      { file: "src/turn/join.ts", from: 'if (this.#piece === "" &&', to: "if (heard === undefined &&" },
    ],
  },
  {
    name: "G1: half of a character is said where an answer breaks off",
    file: "test/agent/broken-steps.test.ts",
    test: "openai-compatible: G1: half of a character that was broken off",
    patches: [{ file: "src/agent/step-output.ts", from: "cutAt(all, all.length)", to: "all.length" }],
  },
  {
    name: "G1: the message of a cancelled answer has half of a character that was not said",
    file: "test/agent/bounds.test.ts",
    test: "G1: of an answer that is cancelled within a character",
    patches: [
      {
        file: "src/agent/step-output.ts",
        from: "this.#halves.delete(undefined);",
        to: 'writing.text += (this.#halves.get(undefined) ?? "").toWellFormed();',
      },
    ],
  },
  {
    name: "G6: arguments that were cut within a character are other ones when a held call is read again",
    file: "test/agent/held-calls.test.ts",
    test: "G6: killed after any event, twice",
    patches: [
      {
        file: "src/agent/step-output.ts",
        from: "piecesOf(this.#whole(part.toolCallId, part.args))",
        to: "piecesOf(part.args)",
      },
    ],
  },
  {
    name: "G1: the beginning that a model writes on from ends within a character",
    file: "test/turn/join.test.ts",
    test: "G1: a long word is cut",
    patches: [
      {
        file: "src/turn/join.ts",
        from: "cutAt(words, Math.max(0, words.length - PIECE_CHARS_MAX))",
        to: "Math.max(0, words.length - PIECE_CHARS_MAX)",
      },
    ],
  },
  {
    name: "F2: a server that reads a long turn back lets others wait",
    file: "test/agent/recovery.test.ts",
    test: "F2: reading a long turn back gives way to others",
    patches: [
      {
        file: "src/agent/turn-io.ts",
        from: "const FOLDED_AT_ONCE = 500;",
        to: "const FOLDED_AT_ONCE = 500_000;",
      },
    ],
  },
  {
    name: "A8: the last result of an exec counts, not the first",
    file: "test/turn/results.test.ts",
    test: "the first reply counts",
    patches: [
      {
        file: "src/turn/facts.ts",
        from: "if (isFirst) facts.replies.set(execId, reply);",
        to: "facts.replies.set(execId, reply);",
      },
    ],
  },
  {
    name: "E5: the id of a blob that a client sends is not checked",
    file: answers,
    test: "E5: a blob that a client sends under another blob's id",
    patches: [
      {
        file: "src/turn/reader.ts",
        from: `if (found.idOf(blobData) !== blobId) return "the client sent other bytes";`,
        to: "",
      },
    ],
  },
  {
    name: "C2: a written file is not synced",
    file: writes,
    test: "C2: a written file and its directory are synced",
    patches: [{ file: "src/tools/write.ts", from: "    await file.sync();\n", to: "" }],
  },
  {
    name: "C2: the directory of a written file is not synced",
    file: writes,
    test: "C2: a written file and its directory are synced",
    patches: [{ file: "src/tools/write.ts", from: "  await syncDirectory(directory);\n", to: "" }],
  },
  {
    name: "a model's name means what it meant before its provider said what it has",
    file: "test/agent/models/names.test.ts",
    test: "a name means something else as soon as its provider says what it has",
    patches: [{ file: "src/agent/models/named-models.ts", from: "    this.changes++;\n", to: "" }],
  },
];
