/** Rules of the agent and of the tools, broken. */
import type { Mutation } from "./mutation.ts";

const answers = "test/agent/trusted-answers.test.ts";
const writes = "test/tools/synced-write.test.ts";

export const MUTATIONS: readonly Mutation[] = [
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
    patches: [{ file: "src/tools/write.ts", from: "    await syncDirectory(directory);\n", to: "" }],
  },
];
