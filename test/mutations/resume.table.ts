/** What reads an answer on behind a break, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a reader with words of a held answer waits for the end of its log",
    file: "test/gateway/held-answers.test.ts",
    test: "a reader with words of a held answer",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: 'if (shown.text === "" || !this.#isHeld(read, known)) await',
        to: "await",
      },
    ],
  },
  {
    name: "G1: a reader is shown what the log of a held answer takes back later",
    file: "test/gateway/held-answers.test.ts",
    test: "G1: a reader without words waits for what counts",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: 'if (shown.text === "" || !this.#isHeld(read, known)) await',
        to: "if (!this.#isHeld(read, known)) await",
      },
    ],
  },
  {
    name: "G1: a range that is continued keeps what a later event takes back",
    file: "test/turn/rollback.test.ts",
    test: "a range that is projected in two parts",
    patches: [
      {
        file: "src/turn/rollback.ts",
        from: "if (begun !== undefined && more.some(",
        to: "if (begun === undefined && more.some(",
      },
    ],
  },
  {
    name: "half a character behind an event is passed on with it",
    file: "test/agent/models/upstream/wire-events.test.ts",
    test: "an event that comes alone is given as the bytes that came",
    patches: [
      {
        file: "src/agent/models/upstream/sse-events.ts",
        from: " && bytes.at(-1) === LINE_FEED",
        to: "",
      },
    ],
  },
  {
    name: "G1: any call that is held of a stream is taken for that of the step under way",
    file: "test/gateway/held-answers.test.ts",
    test: "G1: a reader with words of a step whose call is not held",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: "if (memory?.held.has(name) === true) return true;",
        to: `if (name !== "" && (memory?.held.size ?? 0) > 0) return true;`,
      },
    ],
  },
  {
    name: "B5: a place behind the end of a log that is read back is believed",
    file: "test/gateway/held-answers.test.ts",
    test: "B5: a place behind the end of the log is refused",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: "if (seenThrough > (await memory.logEnd(signal))) throw placeAhead();",
        to: "await memory.logEnd(signal);",
      },
    ],
  },
  {
    name: "G1: a gap in the numbers of a run's events is accepted",
    file: "test/agent/models/upstream/resume.test.ts",
    test: "G1: an answer that breaks behind any event",
    patches: [
      {
        file: "src/agent/models/upstream/background-run.ts",
        from: 'if (number > this.#last + 1) return "gap";',
        to: "",
      },
    ],
  },
  {
    name: "G1: a run's whole answer is believed without a look at what was passed on",
    file: "test/agent/models/upstream/resume.test.ts",
    test: "G1: a whole answer that is not what was passed on is broken",
    patches: [
      {
        file: "src/agent/models/upstream/background-run.ts",
        from: "if (output.length === 0) return true;",
        to: "if (output.length >= 0) return true;",
      },
    ],
  },
  {
    name: "G4: a run that is stopped writes on at the provider",
    file: "test/agent/models/upstream/resume.test.ts",
    test: "G4: a run that is stopped in the middle is cancelled at the provider",
    patches: [
      {
        file: "src/agent/models/upstream/upstream-call.ts",
        from: "!isOver && !isLetGo)",
        to: "isOver && !isLetGo)",
      },
    ],
  },
  {
    name: "G4: a run that is stopped before it has a name writes on at the provider",
    file: "test/agent/models/upstream/resume.test.ts",
    test: "G4: a run that is stopped before it has a name",
    patches: [
      {
        file: "src/agent/models/upstream/upstream-call.ts",
        from: "if (caller?.aborted === true) void this.#abandon(run, begun);",
        to: "",
      },
    ],
  },
  {
    name: "G4: a run that a kill has left at its provider is not counted",
    file: "test/agent/models/upstream/resume.test.ts",
    test: "G4: a run whose server was killed without a line",
    patches: [
      {
        file: "src/agent/turn.ts",
        from: 'if ("rollbackTo" in begin && found.broken === undefined) this.#noteContinued("left");',
        to: "",
      },
    ],
  },
];
