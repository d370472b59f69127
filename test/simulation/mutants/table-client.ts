/** Planted bugs in the client. */
import type { Mutant } from "./table.ts";

const OUTBOX = "src/core/outbox.ts";
const TOOLS = "src/core/tool-journal.ts";
const STALL = "src/core/stall.ts";
const RETRY = "src/core/retry.ts";
const CONNECTION = "src/core/client-connection.ts";
const STREAM = "src/core/client-stream.ts";

export const CLIENT_MUTANTS: readonly Mutant[] = [
  {
    name: "a chunk leaves before the journal has it",
    breaks: "A5",
    patches: [
      {
        file: OUTBOX,
        from: `return [{ ...state, next: seqno + 1, unackedBytes }, [{ kind: "journal", seqno }]];`,
        to: `const [sent, sends] = transmit({ ...state, next: seqno + 1, journaled: seqno + 1, unackedBytes }); return [sent, [{ kind: "journal", seqno }, ...sends]];`,
      },
    ],
  },
  {
    name: "the opening and the first chunk are two appends",
    breaks: "A5",
    patches: [
      {
        file: "src/client/journal-file.ts",
        from: "unordered = 1;",
        to: "unordered = 1;\n    queueMicrotask(begin);",
      },
      { file: "src/client/journal-file.ts", from: "await Promise.resolve();", to: "" },
      { file: "src/client/journal-file.ts", from: "let isHeld = true;", to: "let isHeld = false;" },
    ],
  },
  {
    name: "a new journal is written behind the one before",
    breaks: "A5",
    patches: [
      {
        file: "src/client/client.ts",
        from: `already: resume it");
    }
    await journals.remove(idempotencyKey);`,
        to: `already: resume it");
    }`,
      },
    ],
  },
  {
    name: "a journal that was folded goes on with its old numbers",
    breaks: "A5",
    patches: [{ file: "src/client/journal-file.ts", from: "length = records.length;", to: "" }],
  },
  {
    name: "a seqno is used again after a restart",
    breaks: "A5",
    patches: [
      {
        file: OUTBOX,
        from: "const next = recovered.acked + recovered.unackedBytes.length;",
        to: "const next = recovered.acked; recovered = { ...recovered, unackedBytes: [] };",
      },
    ],
  },
  {
    name: "a higher event is taken although one is missing",
    breaks: "B1",
    patches: [
      {
        file: "src/core/cursor.ts",
        from: "if (eventId !== state.taken + 1) {",
        to: "if (eventId < state.taken + 1) {",
      },
    ],
  },
  {
    name: "the cursor is durable ahead of its snapshot",
    breaks: "B3",
    patches: [
      {
        file: STREAM,
        from: `order(at, { kind: "snapshot", cursor: input.through });`,
        to: `order(at, { kind: "snapshot", cursor: at.state.cursor.taken });`,
      },
    ],
  },
  {
    name: "a closed socket is taken for the end",
    breaks: "B6",
    patches: [
      {
        file: STREAM,
        from: "if (input.connection === at.state.connection) lost(at, input);",
        to: `if (input.connection === at.state.connection) at.state.phase === "attached" ? finish(at, "completed", undefined) : lost(at, input);`,
      },
    ],
  },
  {
    name: "a tool runs again after its process died in the middle",
    breaks: "C2",
    patches: [
      {
        file: TOOLS,
        from: "const mayRunAgain = entry.repeatable && !entry.needsApproval && !isAborted;",
        to: "const mayRunAgain = true;",
      },
    ],
  },
  {
    name: "a tool runs before `started` is on disk",
    breaks: "C2",
    patches: [
      {
        file: TOOLS,
        from: `if (isApproved || !entry.needsApproval) return write(state, entry, "started");`,
        to: `if (isApproved || !entry.needsApproval) return [put(state, { ...entry, hand: "running" }), [{ kind: "run", execId: entry.execId }]];`,
      },
    ],
  },
  {
    name: "a request that comes again while it is in hand starts anew",
    breaks: "C3",
    patches: [
      {
        file: TOOLS,
        from: "if (known !== undefined) {",
        to: `if (known !== undefined && known.hand === "empty") {`,
      },
    ],
  },
  {
    name: "a result is sent again under a new seqno",
    breaks: "A8",
    patches: [
      {
        file: TOOLS,
        from: `    case "done":
    case "acked":
    case undefined:`,
        to: `    case "done":
      return report(state, entry, "unknown");
    case "acked":
    case undefined:`,
      },
    ],
  },
  {
    name: "a snapshot passes a request that is not in the journal",
    breaks: "C4",
    patches: [
      {
        file: "src/client/stream.ts",
        from: "const unreadable = end === undefined ? this.#tools?.lookAt(body, eventId) : undefined;",
        to: "const unreadable = undefined; if (end === undefined) this.#context.environment.after(5_000, () => this.#tools?.lookAt(body, eventId));",
      },
    ],
  },
  {
    name: "an exec that was taken back is begun all the same",
    breaks: "C4",
    patches: [
      {
        file: TOOLS,
        from: `if (state.aborted || entry.isAborted) return report(state, entry, "aborted");
  const isApproved`,
        to: `if (state.aborted) return report(state, entry, "aborted");
  const isApproved`,
      },
      {
        file: TOOLS,
        from: `if (state.aborted || entry.isAborted) return report(state, entry, entry.mayHaveRun`,
        to: `if (state.aborted) return report(state, entry, entry.mayHaveRun`,
      },
    ],
  },
  {
    name: "what a run says before its result waits behind it",
    breaks: "A8",
    patches: [
      {
        file: "src/client/stream.ts",
        from: "say: async (body) => void (await this.#say({ body, isReply: true })),",
        to: "say: async (body) => void context.environment.after(3_000, () => void this.#say({ body, isReply: true }).catch(() => undefined)),",
      },
    ],
  },
  {
    name: "an exec id that comes with other arguments is carried out",
    breaks: "C5",
    patches: [
      {
        file: TOOLS,
        from: "if (known.argsHash === request.argsHash) return [state, []];",
        to: `if (known.argsHash === request.argsHash) return [state, []];
    if (known.hand === "empty") return write(state, { ...known, ...request }, "started");`,
      },
    ],
  },
  {
    name: "compaction forgets execs whose results are acked",
    breaks: "C6",
    patches: [
      {
        file: "src/core/journal.ts",
        from: `return [
      { ...received, request: new Uint8Array() },
      { kind: "exec_acked", execId, seqno: entry.resultSeqno },
    ];`,
        to: "return [];",
      },
    ],
  },
  {
    name: "an approval that ran out still counts",
    breaks: "C7",
    patches: [
      {
        file: TOOLS,
        from: `const isApproved = entry.phase === "approved" && nowMs < entry.approvedUntilMs;`,
        to: `const isApproved = entry.phase === "approved";`,
      },
    ],
  },
  {
    name: "a denied tool runs",
    breaks: "C1",
    patches: [
      {
        file: TOOLS,
        from: `return entry?.hand === "asking" ? report(state, entry, "denied") : [state, []];`,
        to: `return entry?.hand === "asking" ? write(state, entry, "started") : [state, []];`,
      },
    ],
  },
  {
    name: "a new writer runs the execs of the one before",
    breaks: "D2",
    patches: [{ file: TOOLS, from: "if (request.eventId <= state.sinceEvent) return [state, []];", to: "" }],
  },
  {
    name: "a reader carries out execs",
    breaks: "D2",
    patches: [
      {
        file: STREAM,
        from: `if (at.state.role !== "writer" || at.state.isClosed) return;
  const isNew`,
        to: "if (at.state.isClosed) return;\n  const isNew",
      },
      {
        file: "src/client/stream.ts",
        from: `if (context.tools !== undefined && role === "writer") {`,
        to: "if (context.tools !== undefined) {",
      },
      { file: CONNECTION, from: `if (at.state.role === "writer") {`, to: "{" },
    ],
  },
  {
    name: "an abort is forgotten by a restart",
    breaks: "D3",
    patches: [
      {
        file: "src/core/stop.ts",
        from: `wish: journaled ? "journaled" : "none"`,
        to: `wish: journaled && false ? "journaled" : "none"`,
      },
    ],
  },
  {
    name: "a degraded stream is resumed after a restart",
    breaks: "D5",
    patches: [
      {
        file: "src/core/auto-resume.ts",
        from: `if (journal.degraded) return { kind: "mark_aborted" };`,
        to: "",
      },
      { file: "src/client/client.ts", from: "if (journal.degraded)", to: "if (journal.degraded && false)" },
    ],
  },
  {
    name: "heartbeats feed the clock of progress",
    breaks: "F4",
    patches: [
      {
        file: STALL,
        from: `return over({ ...state, heardMs: input.nowMs }, ["silence"]`,
        to: `return over({ ...state, heardMs: input.nowMs, progressMs: input.nowMs }, ["silence"]`,
      },
    ],
  },
  {
    name: "silence is never noticed",
    breaks: "F4",
    patches: [
      {
        file: STALL,
        from: "const silenceMs = input.heartbeatIntervalMs * state.options.heartbeatsMissedMax;",
        to: "const silenceMs = Number.POSITIVE_INFINITY;",
      },
    ],
  },
  {
    name: "the end of a stall is not reported",
    breaks: "F4",
    patches: [
      {
        file: STALL,
        from: `done.map((one) => ({ kind: "report", news: resumed(one, nowMs) })),`,
        to: "[],",
      },
    ],
  },
  {
    name: "a stream that is left during a stall stays in the counters",
    breaks: "F4",
    patches: [
      {
        file: "src/core/client-flow.ts",
        from: "for (const standstill of at.state.stall.standstills)",
        to: "for (const standstill of at.state.stall.standstills.slice(9))",
      },
    ],
  },
  {
    name: "retries have no backoff and no budget",
    breaks: "F3",
    patches: [
      {
        file: RETRY,
        from: "const atMs = Math.ceil(notBeforeMs + failure.random * bound);",
        to: "const atMs = nowMs + bound * 0;",
      },
    ],
  },
  {
    name: "what cannot be mended is retried for ever",
    breaks: "F1",
    patches: [
      {
        file: RETRY,
        from: `    case "stop":
    case "restart":
      return [state, [giveUp]];`,
        to: `    case "stop":
    case "restart":
      return [state, [{ kind: "connect", atMs: nowMs + 20_000 }]];`,
      },
    ],
  },
];
