/** Of nodes that share a store: what their machines do with a stream that another one runs. */
import type { Mutation } from "./mutation.ts";

const TAKEOVERS = "test/gateway/takeovers.test.ts";
const RESTING = "test/gateway/resting.test.ts";
const DRIVER = "src/gateway/session-driver.ts";
const SIMULATED = "test/simulation/gateway/nodes.test.ts";
const TWO_NODES =
  "two nodes on one database: an answer is the same at both, asked for once, and every client gets its own";
const FOLLOWED = "src/core/followed-stream.ts";
const FOLLOWED_TEST = "test/core/followed-stream.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "A2: a node remembers chunks of a writer that was fenced before they were durable",
    file: FOLLOWED_TEST,
    test: "D1: another writer is asked of the host, and welcome when its epoch is seen; who wrote before is fenced",
    patches: [
      {
        file: FOLLOWED,
        from: "const isNewWriter = stream.writerEpoch > durable.writerEpoch;",
        to: "const isNewWriter = false;",
      },
    ],
  },
  {
    name: "F1: a node posts a letter once, and the letter is lost",
    file: FOLLOWED_TEST,
    test: "what the stream does not show is posted again after a while, and at once to a new host",
    patches: [
      {
        file: FOLLOWED,
        from: "return nowMs - next.postedMs < state.options.repostMs ? [next, effects] : also(effects, post(next, nowMs));",
        to: "return [next, effects];",
      },
    ],
  },
  {
    name: "D1: a host hears letters of a writer that is one no longer",
    file: "test/core/hosted-letters.test.ts",
    test: "D1: a letter of a writer that is one no longer, or of an ended stream, changes nothing",
    patches: [
      {
        file: "src/core/hosted-stream.ts",
        from: "const isLate = said.writerEpoch !== state.staged.writerEpoch || state.staged.end !== undefined;",
        to: "const isLate = state.staged.end !== undefined;",
      },
    ],
  },
  {
    name: "F1: a node follows on when the lease of the one that ran the stream is over",
    file: FOLLOWED_TEST,
    test: "D1: when the lease is over those who need a host are sent to find one; a stream that is only read is read on",
    patches: [
      {
        file: FOLLOWED,
        from: `if (!isHeld && needsHost(state, stream)) return drop(state, "moved");`,
        to: "",
      },
    ],
  },
  {
    name: "G4: a host that lost its stream to another node leaves the model's call to its line",
    file: "test/nodes/memory.test.ts",
    test: "nodes with hints: D1: a node that slept past its lease writes nothing when it wakes, and its turn stops for good",
    patches: [
      { file: "src/server/hosted.ts", from: `hasMoved: effect.reason === "moved"`, to: "hasMoved: false" },
    ],
  },
  {
    name: "D1: a session's record is written whatever another node has made of it",
    file: TAKEOVERS,
    test: "D1: of two nodes that write the same version of a session one has it",
    patches: [
      {
        file: "src/gateway/session-store.ts",
        from: "{ ...first, expectedVersion: claim.version }",
        to: "{ ...first }",
      },
    ],
  },
  {
    name: "D1: results are said before the record that takes them is durable",
    file: TAKEOVERS,
    test: "D1: of two nodes that write the same version of a session one has it",
    patches: [
      {
        file: "src/gateway/session-store.ts",
        from: "claim.version = await rows.batch(",
        to: "await behind?.();\n    claim.version = await rows.batch(",
      },
    ],
  },
  {
    name: "D1: what became of an answer is written though another node has taken it",
    file: TAKEOVERS,
    test: "D1: an answer that another node has taken is not written over",
    patches: [
      {
        file: "src/gateway/given-answers.ts",
        from: "if (row?.takes === takes) await rows.batch(",
        to: "await rows.batch(",
      },
    ],
  },
  {
    name: "G6: what a node that is gone had open is waited for",
    file: TAKEOVERS,
    test: "what a node that is gone had open counts as lost",
    patches: [
      {
        file: "src/gateway/neighbours.ts",
        from: "owner !== neighbours.self && (await neighbours.isAlive(owner))",
        to: "owner !== neighbours.self",
      },
    ],
  },
  {
    name: "D7: a process that was started again counts as the one before it",
    file: TAKEOVERS,
    test: "D7: a process that is silent for its lease is gone, a restarted one is another",
    patches: [
      {
        file: "src/node/node-life.ts",
        from: "const self = `${nodeId}/${randomUUID()}`;",
        to: "const self = nodeId;",
      },
    ],
  },
  {
    name: "F1: a session that waits here, and whose results another node has taken and died with, stands in the way of its takeover",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      { file: "src/gateway/takeovers.ts", from: "waiting(streamId)?.letGo();", to: "waiting(streamId);" },
    ],
  },
  {
    name: "G1: /events at a node whose session has moved tells the answer before the latest",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: "here?.record.answer.fromEvent !== row.answer.fromEvent ? undefined",
        to: "here === undefined ? undefined",
      },
    ],
  },
  {
    name: "F1: a retry that follows an answer does not say the results that died with their node",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      {
        file: "src/gateway/followed-answers.ts",
        from: "await takeUp(principal, answer, followed.say)",
        to: "await takeUp(principal, answer)",
      },
    ],
  },
  {
    name: "F1: an answer in the background stays because its place cannot be given back",
    file: "test/gateway/shared-limits.test.ts",
    test: "F1: an answer in the background is removed although its place cannot be given back",
    patches: [
      {
        file: "src/gateway/session-store.ts",
        from: "onRemoved?.(record);",
        to: "await onRemoved?.(record);",
      },
      {
        file: "src/gateway/shared-limits.ts",
        from: "tasks.run(this.#places.leave(name, answer.streamId));",
        to: "return this.#places.leave(name, answer.streamId) as never;",
      },
    ],
  },
  {
    name: "F1: a write of unknown fate behind a stream that was lost ends the process",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      {
        file: DRIVER,
        from: "    this.#context.tasks.run(over);\n    await over.catch(() => undefined);",
        to: "    await over;",
      },
    ],
  },
  {
    name: "F1: a turn that is stopped when another node has its session ends the process",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      {
        file: DRIVER,
        from: 'this.#context.tasks.run(this.feed({ kind: "end", why: "stopped" }));',
        to: 'void this.feed({ kind: "end", why: "stopped" });',
      },
    ],
  },
  {
    name: "D5: a stream of the gateway runs without the log that its answer is read from",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      { file: "src/gateway/options.ts", from: "{ allowDegraded: false }", to: "{ allowDegraded: true }" },
    ],
  },
  {
    name: "A3: a write of unknown fate in the background counts as a mistake of the gateway",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      {
        file: "src/gateway/background-tasks.ts",
        from: "!(this.#isClosing || this.#isShared)",
        to: "!this.#isClosing",
      },
    ],
  },
  {
    name: "E8: requests of a node that is gone keep their places",
    file: "test/gateway/shared-limits.test.ts",
    test: "E8: requests at once are counted over all nodes; those of a node that is gone are over",
    patches: [
      {
        file: "src/gateway/shared-limits.ts",
        from: "!(await neighbours.isAlive(taken.owner))",
        to: "false",
      },
    ],
  },
  {
    name: "F1: a session whose owner lacks its results stays with it, though a retry has them",
    file: TAKEOVERS,
    test: "F1: results are taken to a session whose living owner lacks them, and once",
    patches: [
      {
        file: "src/gateway/takeovers.ts",
        from: "const isWithout = hasResults && record.lacksResults === true;",
        to: "const isWithout = false;",
      },
    ],
  },
  {
    name: "D1: a session that rests is ended although another node has taken it",
    file: RESTING,
    test: "D1: a session that another node has taken while it rested is not ended here",
    patches: [
      {
        file: DRIVER,
        from: "if (this.#rests && this.#claim !== undefined) await this.#claimToEnd(this.#claim);",
        to: "",
      },
    ],
  },
  {
    name: "G4: results that two nodes get at once wake the session at one of them while the other adopts it",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [
      {
        file: DRIVER,
        from: `if (this.#state.at === "resting" && this.#claim !== undefined) return;`,
        to: "",
      },
      {
        file: DRIVER,
        from: 'this.#context.store.save({ ...this.record, head: "" }',
        to: "this.#context.store.save(this.record",
      },
    ],
  },
  {
    name: "F1: a reader waits for what a session says that has come to rest meanwhile",
    file: SIMULATED,
    test: TWO_NODES,
    patches: [{ file: "src/gateway/returns.ts", from: ` || session?.state.at === "resting"`, to: "" }],
  },
  {
    name: "D3: on shared tables a retry gets the calls of a turn that was stopped while its session rested",
    file: RESTING,
    test: "D3: a retry by x-stainless-retry-count gets the answer of a session that rests",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: `if (this.#parts.isShared === true && last?.kind === "calls") {`,
        to: `if (this.#parts.isShared === true && last?.kind === "text") {`,
      },
    ],
  },
  {
    name: "F1: a node goes on believing in a session that rests, though another node has ended it",
    file: RESTING,
    test: "F1: results for a session that rested here and has ended at another node",
    patches: [{ file: "src/gateway/takeovers.ts", from: "        here?.letGo();\n", to: "" }],
  },
  {
    name: "F1: a turn that waits and whose node died for good waits for ever",
    file: "test/nodes/orphans.test.ts",
    test: "F1: the node of a turn that waits dies for good: another one ends the turn when its time is over",
    patches: [
      {
        file: "src/gateway/orphans.ts",
        from: "tasks.run(takeovers.takeOrphan(principal, answer));",
        to: "if (ttlMs < 0) tasks.run(takeovers.takeOrphan(principal, answer));",
      },
    ],
  },
  {
    name: "E8: an answer in the background that was cancelled keeps its place for a minute",
    file: "test/gateway/shared-limits.test.ts",
    test: "E8: an answer in the background that is cancelled in its first minute gives its place back at every node",
    patches: [
      {
        file: "src/gateway/shared-limits.ts",
        from: "if (isBackground === true) tasks.run(",
        to: "if (isBackground === undefined) tasks.run(",
      },
    ],
  },
];
