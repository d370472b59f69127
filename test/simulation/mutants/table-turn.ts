/** Planted bugs in what a turn decides: at least one for each decision of `next()`, each noticed by a seed. */
import type { Mutant } from "./table.ts";

const NEXT = "src/turn/next.ts";
const CALLS = "src/turn/calls.ts";
const EXECS = "src/turn/execs.ts";
const READER = "src/turn/reader.ts";
const CHECKPOINTS = "src/turn/checkpoints.ts";
const CONVERSATION = "src/turn/conversation.ts";
const MODEL_STEP = "src/agent/model-step.ts";
const TURN_IO = "src/agent/turn-io.ts";

export const TURN_MUTANTS: readonly Mutant[] = [
  {
    name: "an exec is issued before its step is complete",
    breaks: "C0",
    patches: [
      {
        file: MODEL_STEP,
        from: "if (news !== undefined) await io.update(news);",
        to: `if (news !== undefined) await io.update(news);
    if (tool === "shell") void io.emit({ case: "execServerMessage", value: { id: 99, execId: place, toolCallId, message: { case: "shellStreamArgs", value: { command: "work early" } } } });`,
      },
      {
        file: "src/turn/facts.ts",
        from: `assert(facts.open === undefined, "an exec is issued when its step is complete");`,
        to: "",
      },
    ],
  },
  {
    name: "call_model: a finished step is run again after a restart",
    breaks: "C0",
    patches: [
      {
        file: TURN_IO,
        from: "if (pastInputs > 0) this.facts.found.pastHead = this.#head;",
        to: `if (pastInputs > 0) this.facts.found.pastHead = this.#head;
    const { lastStep } = this.facts;
    if (lastStep !== undefined) this.facts.open ??= { step: lastStep.step, sinceEvent: lastStep.eventId, attempt: 0, restarts: 0, requestsBefore: 0, requestsTold: 0, attaches: 0, model: "", servedBy: "", shownBy: "", text: "", textEvent: 0, joined: undefined, continuations: 0, started: [], runs: [], hasContent: false, hasThinking: false, hasText: false };`,
      },
    ],
  },
  {
    name: "call_model: a step that was cut off goes on as if it were complete",
    breaks: "C0",
    patches: [
      {
        file: NEXT,
        from: "if (facts.open !== undefined) {",
        to: "if (facts.open !== undefined && facts.found.broken !== undefined) {",
      },
    ],
  },
  {
    name: "issue: execs that were planned and not issued are forgotten by a restart",
    breaks: "F1",
    patches: [
      {
        file: CALLS,
        from: `if (facts.book.execs.get(execId)?.stage === "issued") return WAITING;`,
        to: `if (facts.book.execs.get(execId)?.stage === "issued" || facts.found.pastHead !== undefined) return WAITING;`,
      },
    ],
  },
  {
    name: "a step restarts without end",
    breaks: "F1",
    patches: [
      {
        file: "src/turn/attempts.ts",
        from: "export const STEP_RESTARTS_MAX = 3;",
        to: "export const STEP_RESTARTS_MAX = 999;",
      },
    ],
  },
  {
    name: "a takeover leaves unanswered execs waiting",
    breaks: "D2",
    patches: [
      {
        file: EXECS,
        from: "const end = book.takeovers.find(({ sinceEvent }) => sinceEvent >= exec.eventId);",
        to: "const end = book.takeovers.find(({ sinceEvent }) => sinceEvent >= Number.MAX_SAFE_INTEGER);",
      },
    ],
  },
  {
    name: "wait: the last call that is over is not told",
    breaks: "F1",
    patches: [
      {
        file: NEXT,
        from: `if (over.length > 0) return { kind: "complete", calls: over };`,
        to: `if (over.length > 1) return { kind: "complete", calls: over };`,
      },
    ],
  },
  {
    name: "yield: what was not read before others got their turn is never read",
    breaks: "C0",
    patches: [
      {
        file: CONVERSATION,
        from: `if (bytes > bytesMax) return { kind: "yield" };`,
        to: `if (bytes > bytesMax) { conversation.taken = entries.length; return { kind: "yield" }; }`,
      },
    ],
  },
  {
    name: "open: a restarted turn does not look which model and tools its request names",
    breaks: "F1",
    patches: [
      {
        file: NEXT,
        from: `if (found.opened === undefined) return { kind: "open", request };`,
        to: `if (found.opened === undefined && facts.steps === 0) return { kind: "open", request };`,
      },
      { file: NEXT, from: "found.opened.plans, limits", to: "found.opened!.plans, limits" },
    ],
  },
  {
    name: "fetch: what is not in hand is missing",
    breaks: "C4",
    patches: [
      {
        file: READER,
        from: "} else if (!isLookedFor) toFetch.push(blobId);",
        to: `} else if (!isLookedFor) return missed(blobId, "it is not in hand");`,
      },
    ],
  },
  {
    name: "get: the client is not asked for a blob that only it has",
    breaks: "C4",
    patches: [
      {
        file: READER,
        from: "else if (request?.keepsBlobs === true) toGet.push(blobId);",
        to: "else if (request === undefined) toGet.push(blobId);",
      },
    ],
  },
  {
    name: "keep: the client is not asked to keep the blobs of a checkpoint",
    breaks: "F1",
    patches: [
      {
        file: CHECKPOINTS,
        from: "const blobs = draft.blobs.filter(({ id }) => !isAsked(facts, id));",
        to: "const blobs = draft.blobs.filter(({ id }) => isAsked(facts, id));",
      },
    ],
  },
  {
    name: "publish: a checkpoint is in the log before the client has its blobs",
    breaks: "C4",
    patches: [
      {
        file: CHECKPOINTS,
        from: "const draft = facts.found.drafts.findLast((one) => isWhole(facts, one));",
        to: "const draft = facts.found.drafts.findLast((one) => isWhole(facts, one) || one.blobs.length > 0);",
      },
    ],
  },
  {
    name: "relay: the first piece of an exec's output is left out",
    breaks: "B4",
    patches: [
      {
        file: NEXT,
        from: ".slice(facts.relayed.get(place) ?? 0)",
        to: ".slice(facts.relayed.get(place) ?? 1)",
      },
    ],
  },
  {
    name: "stop: an exec is taken back again and again",
    breaks: "A8",
    patches: [
      {
        file: NEXT,
        from: ` && !facts.stopped.has(id)`,
        to: "",
      },
    ],
  },
  {
    name: "ask: the user is asked again while the question is open",
    breaks: "A8",
    patches: [
      {
        file: CALLS,
        from: `return query === undefined ? { kind: "ask", questions } : WAITING;`,
        to: `return { kind: "ask", questions };`,
      },
    ],
  },
  {
    name: "complete: a call is over when its exec was asked for",
    breaks: "C1",
    patches: [
      {
        file: CALLS,
        from: `if (facts.book.execs.get(execId)?.stage === "issued") return WAITING;`,
        to: `if (facts.book.execs.get(execId)?.stage === "issued") return over("done", "");`,
      },
    ],
  },
  {
    name: "append_user: what the user said last is told first",
    breaks: "A1",
    patches: [
      {
        file: NEXT,
        from: "facts.said[facts.appended]",
        to: "(facts.appended < facts.said.length ? facts.said.at(-1) : undefined)",
      },
    ],
  },
  {
    name: "tell_summary: a summary is told without its beginning",
    breaks: "B3",
    patches: [
      {
        file: NEXT,
        from: `return { kind: "tell_summary", text };`,
        to: `return { kind: "tell_summary", text: text.slice(1) };`,
      },
    ],
  },
  {
    name: "run_command: a command of the user's runs until the turn is stopped",
    breaks: "C1",
    patches: [
      {
        file: NEXT,
        from: `isFiltered || started.length === 0 || action?.action.case === "shellCommandAction"`,
        to: `isFiltered || started.length === 0 || action?.action.case === "cancelAction"`,
      },
    ],
  },
  {
    name: "end: a turn ends when its tools have run, and the model does not hear of it",
    breaks: "C0",
    patches: [
      {
        file: NEXT,
        from: "isFiltered || started.length === 0 ||",
        to: "isFiltered || started.length >= 0 ||",
      },
    ],
  },
];
