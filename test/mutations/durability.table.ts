/** What records of a client's journal need, weakened. */
import type { Mutation } from "./mutation.ts";

const NEEDS = "src/core/record-needs.ts";
const SERVERS_DISK = "test/e2e/servers-disk.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "C2: a record of an exec needs only its place in the order: a tool runs whose start a power cut forgets",
    file: SERVERS_DISK,
    test: "C2: on the server's disk a tool does not run while the sync of its start alone is missing",
    patches: [{ file: NEEDS, from: `    case "exec":\n`, to: `    case "exec":\n      return "order";\n` }],
  },
  {
    name: "D3: a wish to stop needs only its place in the order: it is called safe and can be lost",
    file: SERVERS_DISK,
    test: "C2, D3: on the server's disk a tool starts, and a wish to stop is safe, only after the sync",
    patches: [
      {
        file: NEEDS,
        from: `    case "abort":\n      return "sync";`,
        to: `      return "sync";\n    case "abort":\n      return "order";`,
      },
    ],
  },
  {
    name: "C2: that a request was taken back needs only its place in the order",
    file: "test/core/record-needs.test.ts",
    test: "C2: that a request was taken back, or came with other arguments, is synced",
    patches: [
      {
        file: NEEDS,
        from: `    case "exec_aborted":\n`,
        to: `    case "exec_aborted":\n      return "order";\n`,
      },
    ],
  },
  {
    name: "A5: a chunk needs nothing: it waits for others instead of leaving",
    file: "test/core/record-needs.test.ts",
    test: "A5: a chunk, a result, a snapshot and the end need the order of the two logs",
    patches: [{ file: NEEDS, from: `    case "said":\n`, to: `    case "said":\n      return "nothing";\n` }],
  },
  {
    name: "D7: a client forgets when it last saw its stream",
    file: "test/core/record-needs.test.ts",
    test: "D4, D7: when a stream was last seen needs nothing beside its server",
    patches: [
      { file: NEEDS, from: `return isOnServersDisk ? "nothing" : "order";`, to: `return "nothing";` },
    ],
  },
  {
    name: "C2: a record that needs a sync is handed over when one that needs order shares its append",
    file: "test/client/journal-file.test.ts",
    test: "C2: a record that needs a sync counts only then, on the server's disk too",
    patches: [
      {
        file: "src/client/journal-file.ts",
        from: `batch.some(({ needs }) => needs === "sync")`,
        to: `batch.every(({ needs }) => needs === "sync")`,
      },
    ],
  },
];
