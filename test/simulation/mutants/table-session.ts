/**
 * Planted bugs in the gateway's sessions: one for each thing that happens to a session.
 */
import type { Mutant } from "./table.ts";

const GATEWAY = "src/gateway/gateway.ts";
const SESSION = "src/gateway/session.ts";
const DRIVER = "src/gateway/session-driver.ts";
const SESSIONS = "src/gateway/sessions.ts";
const SAID_RESULTS = "src/gateway/said-results.ts";

const hunter = "gateway" as const;

export const SESSION_MUTANTS: readonly Mutant[] = [
  {
    name: "a session does not know the rows of its first answer",
    breaks: "opened",
    hunter,
    patches: [{ file: SESSION, from: "responses: [...input.responses] }", to: "responses: [] }" }],
  },
  {
    name: "an answer that was cut off is generated again at the start",
    breaks: "G7",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `if (record.state !== "parked") return [{ at: "sleeping"`,
        to: `if (record.state === "finished") return [{ at: "sleeping"`,
      },
    ],
  },
  {
    name: "a session that waits for tools sleeps after a start",
    breaks: "restart",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `if (record.state !== "parked") return [{ at: "sleeping", record }, ASLEEP]`,
        to: `if (record.state !== "finished") return [{ at: "sleeping", record }, [{ kind: "clock", clock: "grace" }]]`,
      },
    ],
  },
  {
    name: "a retry does not wake the session that sleeps",
    breaks: "wanted",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `if (state.at !== "sleeping" && state.at !== "resting") return [state, NOTHING];`,
        to: `if (state.at !== "resting") return [state, NOTHING];`,
      },
    ],
  },
  {
    name: "an older restart in the log counts as this one",
    breaks: "G1",
    hunter,
    patches: [
      {
        file: DRIVER,
        from: `if (isNew && this.#state.at === "resuming")`,
        to: `const isRestarted = deltas.some(({ kind }) => kind === "restarted");
        if ((isNew || isRestarted) && this.#state.at === "resuming")`,
      },
    ],
  },
  {
    name: "a session that begins to wait for tools is not saved",
    breaks: "paused",
    hunter,
    patches: [{ file: SESSION, from: `, { kind: "save", when: "now" }]];`, to: "]];" }],
  },
  {
    name: "a client is told tool calls before the session that waits for them is on the disk",
    breaks: "paused",
    hunter: "nodes",
    patches: [
      {
        file: DRIVER,
        from: "    const owner = { principal: this.record.principal,",
        to: "    this.#memory.settle(eventId);\n    const owner = { principal: this.record.principal,",
      },
    ],
  },
  {
    name: "a finished turn is not saved",
    breaks: "paused",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `return [{ at: "finished", record, readers }, [{ kind: "save", when: "behind" }]];`,
        to: `return [{ at: "finished", record, readers }, NOTHING];`,
      },
    ],
  },
  {
    name: "an answer that failed is told again to its retry",
    breaks: "failed",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `const withResponses = pause.reason !== "completed" && pause.finish === undefined;`,
        to: "const withResponses = false;",
      },
    ],
  },
  {
    name: "two requests at once continue one turn",
    breaks: "take",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `if (!isWaiting(state) || (state.at === "parked" && state.request === "in_hand")) return false;`,
        to: `if (state.at !== "parked" && state.at !== "generating" && !isWaiting(state)) return false;`,
      },
      {
        file: SESSION,
        from: "return answer.fromEvent === seen.answer.fromEvent && head === seen.head;",
        to: "return answer.fromEvent === seen.answer.fromEvent || head === seen.head;",
      },
      {
        file: "src/gateway/continued-turns.ts",
        from: `if (session.state.at !== "parked" || session.record.head !== head) return undefined;`,
        to: "",
      },
    ],
  },
  {
    name: "results are in the stream before their session is on the disk",
    breaks: "results",
    hunter,
    patches: [
      {
        file: DRIVER,
        from: "await this.save(writes, () => this.say(bodies));",
        to: "await this.say(bodies);\n    await this.save(writes);",
      },
    ],
  },
  {
    name: "an answer is given up while a client reads it",
    breaks: "readers",
    hunter,
    patches: [{ file: SESSION, from: `if (state.readers > 0) return "none";`, to: "" }],
  },
  {
    name: "a clock that jumped does not end a session",
    breaks: "expiry",
    hunter,
    patches: [
      { file: SESSIONS, from: "|| environment.now() - record.updatedMs >= limits.sessionTtlMs", to: "" },
      { file: SESSIONS, from: "const { environment, limits } = this.#parts;", to: "" },
    ],
  },
  {
    name: "a stop leaves the rows of its session",
    breaks: "stop",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `          { kind: "remove", withResponses: true },
          { kind: "abort" },`,
        to: `          { kind: "abort" },`,
      },
    ],
  },
  {
    name: "a gateway that closes ends its sessions",
    breaks: "close",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `return [state, isOpen(state) ? [{ kind: "leave" }] : NOTHING];`,
        to: `return end(state, "stopped");`,
      },
    ],
  },
  {
    name: "a session that is read back after a start counts twice",
    breaks: "eviction",
    hunter,
    patches: [
      {
        file: SESSIONS,
        from: "this.#waiting.filter(({ session }) => session !== newcomer)",
        to: "this.#waiting",
      },
    ],
  },
  {
    name: "a principal has room for one stream less",
    breaks: "eviction",
    hunter,
    patches: [
      {
        file: SESSIONS,
        from: "this.#byStream.size >= openStreamsMax && this.#openOf(principal) >= openStreamsMax;",
        to: "this.#openOf(principal) >= 1;",
      },
    ],
  },
  {
    name: "a retry repeats results that are not owed, and leaves out those that are",
    breaks: "repeated",
    hunter,
    patches: [
      {
        file: SAID_RESULTS,
        from: "if (memory.fromEvent !== fromEvent || !owesResults(state)) return;",
        to: "if (memory.fromEvent !== fromEvent || owesResults(state)) return;",
      },
    ],
  },
  {
    name: "a session whose stream could not be opened counts as open",
    breaks: "unopened",
    hunter,
    patches: [
      // Without this a request that is too large is refused before it has a session.
      {
        file: "src/gateway/requests.ts",
        from: `  checkSize(first.length, LIMITS.chunkBytesMax, "the request without its messages, mostly its tools,");\n`,
        to: "",
      },
      {
        file: SESSION,
        from: `return state.at === "fresh" ? [{ ...state, at: "gone", rows: "kept" }, NOTHING] : [state, NOTHING];`,
        to: "return [state, NOTHING];",
      },
    ],
  },
  {
    name: "a request that was refused keeps the session that it would have continued",
    breaks: "release",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `return state.at === "parked" ? [{ ...state, request: "none" }, NOTHING] : [state, NOTHING];`,
        to: "return [state, NOTHING];",
      },
    ],
  },
  {
    name: "a session whose stream is not there is kept",
    breaks: "lost",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `      return [
        { at: "gone", record: state.record, rows: "removed" },
        [{ kind: "remove", withResponses: false }],
      ];`,
        to: "      return [state, NOTHING];",
      },
      {
        file: SESSIONS,
        from: "while (this.#byStream.size > 0 || !tasks.isIdle) {",
        to: `while (this.all.some(({ state }) => state.at !== "resuming") || !tasks.isIdle) {`,
      },
    ],
  },
  {
    name: "a session outlives its turn",
    breaks: "over",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `      return [{ at: "gone", record: state.record, rows: rowsOf(state) }, NOTHING];`,
        to: `      return [state, NOTHING];`,
      },
      {
        file: SESSIONS,
        from: "while (this.#byStream.size > 0 || !tasks.isIdle) {",
        to: "while (!tasks.isIdle) {",
      },
    ],
  },
  {
    name: "a writer that attaches again without its journal is another writer, and its execs become unknown",
    breaks: "F1",
    hunter,
    patches: [
      {
        file: "src/core/attach.ts",
        from: `if (writerEpoch === 0) return { kind: "new_writer", writers: staged.writers, isTakeover: false };`,
        to: `if (writerEpoch === 0) return { kind: "new_writer", writers: staged.writers, isTakeover: true };`,
      },
    ],
  },
  {
    name: "an answer that no client reads is never given up",
    breaks: "grace",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `return state.record.state === "parked" ? "ttl" : "grace";`,
        to: `return state.record.state === "parked" ? "ttl" : "none";`,
      },
    ],
  },
  {
    name: "a stop does not end the turn",
    breaks: "stop",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `          { kind: "remove", withResponses: true },
          { kind: "abort" },`,
        to: `          { kind: "remove", withResponses: true },`,
      },
    ],
  },
  {
    name: "what is kept with an event is not in its commit",
    breaks: "A4",
    hunter,
    patches: [
      {
        file: "src/server/hosted-conversation.ts",
        from: "if (taken.length === 0) return {};",
        to: "if (taken.length >= 0) return {};",
      },
    ],
  },
  {
    name: "what a request brings along is not stored",
    breaks: "A4",
    hunter,
    patches: [
      {
        file: "src/turn/conversation.ts",
        from: "const isFirst = serverKeeps(facts) && ",
        to: "const isFirst = !serverKeeps(facts) && ",
      },
    ],
  },
  {
    name: "a session is resumed without the key of its conversation",
    breaks: "F1",
    hunter,
    patches: [
      {
        file: "src/gateway/session-driver.ts",
        from: "{ abort, conversation: this.conversation }",
        to: "{ abort }",
      },
    ],
  },
  {
    name: "a conversation that the server has lost is tried again and again",
    breaks: "paused",
    hunter,
    patches: [
      {
        file: DRIVER,
        from: "if (failure?.kind === FailureKind.BLOB_MISSING) this.#context.onUnreadable(this);",
        to: "",
      },
    ],
  },
  {
    name: "the server keeps a conversation for less time than its session waits",
    breaks: "next_turn",
    hunter,
    patches: [
      {
        file: GATEWAY,
        from: "const conversationMs = Math.max(this.#limits.conversationMs, sessionTtlMs);",
        to: "const conversationMs = 1;",
      },
    ],
  },
];
