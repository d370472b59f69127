/** Rules of the gateway's tables and of its matching, broken. */
import type { Mutation } from "./mutation.ts";

const file = "test/gateway/two-principals.test.ts";
const STORE = "src/gateway/session-store.ts";
const RETRIES = "src/gateway/retries.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a session that waits for tools has only the grace period",
    file: "test/gateway/session.test.ts",
    test: "an answer without a reader ends after the grace period, a session without its client after its time",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: `return state.record.state === "parked" ? "ttl" : "grace";`,
        to: `return "grace";`,
      },
    ],
  },
  {
    name: "C0: a client is told tool calls before the session that waits for them is on the disk",
    file: "test/gateway/own-execs.test.ts",
    test: "tool calls are told only when the session that awaits their results is durable",
    patches: [
      {
        file: "src/gateway/session-driver.ts",
        from: "    const owner = { principal: this.record.principal,",
        to: "    this.#memory.settle(eventId);\n    const owner = { principal: this.record.principal,",
      },
    ],
  },
  {
    name: "E2: an Idempotency-Key is the same for all principals",
    file,
    test: "E2: an Idempotency-Key belongs to its principal",
    patches: [
      {
        file: RETRIES,
        from: `names.row("idempotency", principal, idempotencyKey)`,
        to: `names.row("idempotency", idempotencyKey)`,
      },
    ],
  },
  {
    name: "E2: equal bodies of two principals are one request",
    file,
    test: "E2: an answer that did not arrive is for its own principal's retry",
    patches: [
      {
        file: RETRIES,
        from: `names.row("body", principal, bodyHash)`,
        to: `names.row("body", bodyHash)`,
      },
    ],
  },
  {
    name: "E2: a lineage finds the sessions of every principal",
    file,
    test: "E2: a finished conversation is continued by its own principal alone",
    patches: [
      {
        file: STORE,
        from: `this.#indexed(principal, this.#name("lineage", principal, model, context, head))`,
        to: `this.#indexed(principal, this.#name("lineage", model, context, head))`,
      },
      {
        file: STORE,
        from: `[...keys, this.#name("lineage", principal, model, context, head)]`,
        to: `[...keys, this.#name("lineage", model, context, head)]`,
      },
      {
        file: STORE,
        from: `this.#name("session", principal, streamId)`,
        to: `this.#name("session", streamId)`,
      },
    ],
  },
  {
    name: "G7: a start does not look for answers that are whole in the log",
    file: "test/gateway/kept-history.test.ts",
    test: "G7: a process that dies before the rows behind an answer leaves them to the next one",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: `{ kind: "clock", clock: "grace" }, { kind: "look" }`,
        to: `{ kind: "clock", clock: "grace" }`,
      },
    ],
  },
  {
    name: "the log of an answer whose call is held is read by the look of a start, beside the session that the call wakes",
    file: "test/gateway/sleeping-log.test.ts",
    test: "where calls may be held, what they wake reads its log, and the look does not",
    patches: [
      {
        file: "src/gateway/sleeping-log.ts",
        from: "if (held !== undefined) await this.#heldFirst(signal);",
        to: "",
      },
    ],
  },
  {
    name: "a row that waits is not read",
    file: "test/gateway/sealed-rows.test.ts",
    test: "what waits is read at once",
    patches: [
      {
        file: "src/gateway/sealed-rows.ts",
        from: `if (waiting?.kind === "put") return`,
        to: `if (waiting?.kind === "put" && decode === undefined) return`,
      },
    ],
  },
  {
    name: "what waits is written over what follows it",
    file: "test/gateway/sealed-rows.test.ts",
    test: "what waits is read at once",
    patches: [
      {
        file: "src/gateway/sealed-rows.ts",
        from: "const waited = this.flush();",
        to: "const waited = Promise.resolve().then(() => this.flush());",
      },
    ],
  },
  {
    name: "A8: tool call ids repeat over streams",
    file,
    test: "A8: the first tool calls of two streams have different ids",
    patches: [
      {
        file: "src/gateway/names.ts",
        from: `JSON.stringify(["tool id", streamId, execId])`,
        to: `JSON.stringify(["tool id", streamId.length, execId.length])`,
      },
    ],
  },
  {
    name: "a session that waits for tools is continued by a message",
    file,
    test: "a message to a session that waits for tools is a stream of its own",
    patches: [
      {
        file: "src/gateway/matching.ts",
        from: `if (session.state !== "finished") return { kind: "fresh", reason: "not_waiting" };`,
        to: "",
      },
    ],
  },
  {
    name: "a retry is given the end of an answer that a process gave up before it died",
    file: "test/gateway/wanted.test.ts",
    test: "D3: of an answer that was stopped a log gives a retry nothing",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: `if (last?.kind === "ended" && last.reason === "aborted") return undefined;`,
        to: "",
      },
    ],
  },
  {
    name: "a session that waits has all of its time again after a start",
    file: "test/gateway/session.test.ts",
    test: "a session that is read back is generating when its step begins anew; one that waits is parked at its pause",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: `if (state.at === "resuming" && pause.kind === "calls" && state.record.state === "parked")`,
        to: `if (state.at === "resuming" && pause.kind === "calls" && state.record.state === "finished")`,
      },
    ],
  },
  {
    name: "E8: a session that is read back crowds out those that came after it",
    file: "test/gateway/eviction.test.ts",
    test: "E8: one that is read back crowds out those that have waited for longer, and none that came after it",
    patches: [{ file: "src/gateway/eviction.ts", from: " && one.sinceMs <= sinceMs", to: "" }],
  },
  {
    name: "E8: the session that began to wait last makes room",
    file: "test/gateway/eviction.test.ts",
    test: "E8: the room of all, at the limit and one above: the longest waiting goes, whoever's it is",
    patches: [
      {
        file: "src/gateway/eviction.ts",
        from: "waiting.toSorted((a, b) => a.sinceMs - b.sinceMs)",
        to: "waiting.toSorted((a, b) => b.sinceMs - a.sinceMs)",
      },
    ],
  },
];
