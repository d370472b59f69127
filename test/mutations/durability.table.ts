/** What records of a client's journal need, and what a client without one may promise, weakened. */
import type { Mutation } from "./mutation.ts";

const NEEDS = "src/core/record-needs.ts";
const STATE = "src/core/client-state.ts";
const NEEDED = `return kind === "acked" ? "nothing" : "sync";`;
const WITHOUT_JOURNAL = "test/e2e/without-journal.test.ts";
const NOTHING_PROMISED =
  "A3, D3: nothing is promised before the server has it: neither what was said nor a stop";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "C2: the record of a tool's start needs nothing",
    file: "test/core/record-needs.test.ts",
    test: "A5, B3, C2, D3, D7: everything that something follows from is synced",
    patches: [
      { file: NEEDS, from: NEEDED, to: `return kind === "acked" || kind === "exec" ? "nothing" : "sync";` },
    ],
  },
  {
    name: "A5: a chunk needs nothing: it waits for others instead of leaving",
    file: "test/core/record-needs.test.ts",
    test: "A5, B3, C2, D3, D7: everything that something follows from is synced",
    patches: [
      { file: NEEDS, from: NEEDED, to: `return kind === "acked" || kind === "said" ? "nothing" : "sync";` },
    ],
  },
  {
    name: "D7: a client forgets when it last saw its stream",
    file: "test/core/record-needs.test.ts",
    test: "A5, B3, C2, D3, D7: everything that something follows from is synced",
    patches: [
      {
        file: NEEDS,
        from: NEEDED,
        to: `return kind === "acked" || kind === "attached" ? "nothing" : "sync";`,
      },
    ],
  },
  {
    name: "A3: a client without a journal promises what it has only said",
    file: WITHOUT_JOURNAL,
    test: NOTHING_PROMISED,
    patches: [
      {
        file: STATE,
        from: "return keepsJournal ? box.journaled : box.acked;",
        to: "return keepsJournal ? box.journaled : box.next;",
      },
    ],
  },
  {
    name: "D3: a client without a journal calls a stop safe that the server does not have",
    file: WITHOUT_JOURNAL,
    test: NOTHING_PROMISED,
    patches: [
      {
        file: STATE,
        from: `state.role === "writer" && state.keepsJournal && state.stop`,
        to: `state.role === "writer" && state.stop`,
      },
    ],
  },
  {
    name: "D3: that a stop is durable is said with the next heartbeat",
    file: "test/core/hosted-stream.test.ts",
    test: "D3: a heartbeat says aborted at once when it is durable, and so does each later one and each welcome",
    patches: [
      {
        file: "src/core/hosted-stream.ts",
        from: "if (inFlight.change.aborted === true) told",
        to: "if (inFlight.change.touched === true) told",
      },
    ],
  },
  {
    name: "D1: a writer that attaches again without its journal begins no epoch",
    file: WITHOUT_JOURNAL,
    test: "D1: a connection of the client that was is fenced, whatever it still has to say",
    patches: [
      {
        file: "src/core/attach.ts",
        from: `if (writerEpoch === 0) return { kind: "new_writer", writers: staged.writers, isTakeover: false };`,
        to: `if (writerEpoch === 0) return { kind: "join" };`,
      },
    ],
  },
];
