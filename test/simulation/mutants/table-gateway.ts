/**
 * Planted bugs in what a request to the gateway gets: at least one for each row of the matching table.
 */
import type { Mutant } from "./table.ts";

const MATCHING = "src/gateway/matching.ts";
const LINEAGE = "src/gateway/openai/lineage.ts";
const SAID_RESULTS = "src/gateway/said-results.ts";
const GATEWAY = "src/gateway/gateway.ts";
const RETRIES = "src/gateway/retries.ts";
const DELIVERY = "src/gateway/delivery.ts";
const GIVEN = "src/gateway/given-answers.ts";
const RETURNS = "src/gateway/returns.ts";
const NAMES = "src/gateway/names.ts";
const SESSIONS = "src/gateway/sessions.ts";
const ANSWER_LOG = "src/gateway/answer-log.ts";
const ATTEMPTS = "src/turn/attempts.ts";
const TURN_FAILURE = "src/agent/turn-failure.ts";

const hunter = "gateway" as const;

export const GATEWAY_MUTANTS: readonly Mutant[] = [
  {
    name: "results continue a turn with the options of the request before",
    breaks: "results",
    hunter,
    patches: [{ file: SAID_RESULTS, from: "options: request.options,", to: "options: {}," }],
  },
  {
    name: "results behind an edited history continue the turn",
    breaks: "results",
    hunter,
    patches: [{ file: MATCHING, from: " && session.head === lineage.seen;", to: ";" }],
  },
  {
    name: "arguments that a client wrote again are another conversation",
    breaks: "results",
    hunter,
    patches: [{ file: LINEAGE, from: "[name, canonicalText(args)]", to: "[name, args]" }],
  },
  {
    name: "results for another model continue the turn",
    breaks: "results",
    hunter,
    patches: [{ file: MATCHING, from: "session.model === model && ", to: "" }],
  },
  {
    name: "results under another system prompt continue the turn",
    breaks: "results",
    hunter,
    patches: [{ file: MATCHING, from: "session.context === context && ", to: "" }],
  },
  {
    name: "doors share a session",
    breaks: "results",
    hunter,
    patches: [
      {
        file: MATCHING,
        from: 'return door === "chat" ? context :',
        to: "return door !== undefined ? context :",
      },
    ],
  },
  {
    name: "the answer to results begins where the answer before began",
    breaks: "results",
    hunter,
    patches: [
      {
        file: "src/gateway/continued-turns.ts",
        from: "const fromEvent = memory.pausedAt ?? memory.fromEvent;",
        to: "const { fromEvent } = memory;",
      },
    ],
  },
  {
    name: "the next message begins another conversation",
    breaks: "next",
    hunter,
    patches: [
      {
        file: GATEWAY,
        from: "conversationId: before?.conversationId ?? this.#names.conversation(streamId),",
        to: "conversationId: this.#names.conversation(streamId),",
      },
    ],
  },
  {
    name: "the next turn does not begin from the checkpoint",
    breaks: "next",
    hunter,
    patches: [{ file: GATEWAY, from: `checkpoint: before?.checkpoint ?? "",`, to: `checkpoint: "",` }],
  },
  {
    name: "an Idempotency-Key is answered for another body",
    breaks: "key",
    hunter,
    patches: [
      {
        file: RETRIES,
        from: "if (response !== undefined && response.bodyHash !== request.bodyHash) throw usedTwice();",
        to: "",
      },
    ],
  },
  {
    name: "an Idempotency-Key is not looked for",
    breaks: "key",
    hunter,
    patches: [{ file: RETRIES, from: "return response?.answer;", to: "return undefined;" }],
  },
  {
    name: "an Idempotency-Key is one for all principals",
    breaks: "key",
    hunter,
    patches: [
      {
        file: RETRIES,
        from: `names.row("idempotency", principal, idempotencyKey);`,
        to: `names.row("idempotency", idempotencyKey);`,
      },
    ],
  },
  {
    name: "equal requests side by side get one answer",
    breaks: "retry",
    hunter,
    patches: [{ file: DELIVERY, from: `delivery === "open" && isContinued`, to: `delivery === "open"` }],
  },
  {
    name: "a lost answer is generated again",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: DELIVERY,
        from: `own.find(({ delivery }) => delivery === "lost")`,
        to: `own.find(({ delivery }) => delivery === "confirmed")`,
      },
    ],
  },
  {
    name: "an answer that was closed in good order is given to the next equal request",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: DELIVERY,
        from: 'if (isRetried || sign === "none") return false;',
        to: "if (isRetried) return false;",
      },
    ],
  },
  {
    name: "a client that repeats itself in its session is not believed",
    breaks: "retry",
    hunter,
    patches: [
      { file: DELIVERY, from: 'sign === "none") return false;', to: 'sign !== "counted") return false;' },
    ],
  },
  {
    name: "a client that repeats itself in its session gets the answer that it is reading",
    breaks: "retry",
    hunter,
    patches: [{ file: DELIVERY, from: ' && sign === "counted")', to: ")" }],
  },
  {
    name: "a lost answer goes to two retries",
    breaks: "retry",
    hunter,
    patches: [{ file: GIVEN, from: "given.responses = new Set();", to: "" }],
  },
  {
    name: "an answer is given again for ever",
    breaks: "retry",
    hunter,
    patches: [{ file: GIVEN, from: ".filter(({ expiresMs }) => expiresMs > now())", to: "" }],
  },
  {
    name: "equal requests are not taken one after the other",
    breaks: "retry",
    hunter,
    patches: [
      { file: RETRIES, from: "this.#turns.run(body, run)", to: "run()" },
      { file: RETRIES, from: "this.#turns.run(key, inBodysTurn)", to: "inBodysTurn()" },
    ],
  },
  {
    name: "a response that was open when the process died counts as delivered",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: DELIVERY,
        from: `if (delivery === "open") return "lost";`,
        to: `if (delivery === "open") return "closed";`,
      },
    ],
  },
  {
    name: "a whole response counts as lost after a restart",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: DELIVERY,
        from: `delivery === "flushed" ? "closed" : delivery`,
        to: `delivery === "flushed" ? "lost" : delivery`,
      },
    ],
  },
  {
    name: "a retry whose client leaves while its answer is read back is generated again",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: ANSWER_LOG,
        from: "if (cause instanceof HoldfastError && !read.signal.aborted) return undefined;",
        to: "if (cause instanceof HoldfastError) return undefined;",
      },
    ],
  },
  {
    name: "results with one missing continue the turn",
    breaks: "fresh",
    hunter,
    patches: [
      { file: MATCHING, from: "answered.length === session.pending.length && ids.size", to: "ids.size" },
    ],
  },
  {
    name: "results with an unknown one among them continue the turn",
    breaks: "fresh",
    hunter,
    patches: [
      {
        file: MATCHING,
        from: "ids.size === results.length && ids.size === answered.length;",
        to: "ids.size === results.length;",
      },
    ],
  },
  {
    name: "a result that is given twice continues the turn",
    breaks: "fresh",
    hunter,
    patches: [
      {
        file: MATCHING,
        from: "ids.size === results.length && ids.size === answered.length;",
        to: "ids.size === answered.length;",
      },
    ],
  },
  {
    name: "a session that a request does not match is ended by it",
    breaks: "fresh",
    hunter,
    patches: [
      {
        file: GATEWAY,
        from: `case "fresh":
        return`,
        to: `case "fresh":
        if (match.reason === "partly_answered")
          for (const session of this.#sessions.all) void session.feed({ kind: "end", why: "evicted" });
        return`,
      },
    ],
  },
  {
    name: "a tool call id finds another principal's session",
    breaks: "E2",
    hunter,
    patches: [
      {
        file: SESSIONS,
        from: "const waiting = this.#of(principal).find((session) => this.#waitsFor(session, toolId));",
        to: "const waiting = this.all.find((session) => this.#waitsFor(session, toolId));",
      },
      {
        file: SESSIONS,
        from: "session?.record.principal === principal && session.stream !== undefined",
        to: "session?.stream !== undefined && principal !== ''",
      },
    ],
  },
  {
    name: "another principal's stream can be stopped",
    breaks: "E2",
    hunter,
    patches: [
      {
        file: SESSIONS,
        from: "if (session?.record.principal === principal) {",
        to: "if (session !== undefined && principal !== '') {",
      },
    ],
  },
  {
    name: "the id of an earlier answer is told the rest of the latest",
    breaks: "events",
    hunter,
    patches: [
      {
        file: RETURNS,
        from: "if (door !== answer.door || (after !== undefined && after.answer !== answer.fromEvent))",
        to: "if (door !== answer.door)",
      },
    ],
  },
  {
    name: "a tool call id does not name its stream",
    breaks: "A8",
    hunter,
    patches: [
      {
        file: NAMES,
        from: `JSON.stringify(["tool id", streamId, execId])`,
        to: `JSON.stringify(["tool id", execId])`,
      },
    ],
  },
  {
    name: "a counted retry that could mean two answers gets one of them",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: DELIVERY,
        from: "return only === undefined || others.length > 0 ?",
        to: "return only === undefined || others.length > 99 ?",
      },
    ],
  },
  {
    name: "text that a client was shown for good is generated anew when its provider breaks",
    breaks: "G1",
    hunter,
    patches: [
      {
        file: ATTEMPTS,
        from: "const isKept = isFinal && open.hasText && !wasCutOff(facts, open);",
        to: "const isKept = isFinal && open.hasText && open.restarts > 9;",
      },
    ],
  },
  {
    name: "a provider's status is not passed on",
    breaks: "provider",
    hunter,
    patches: [{ file: TURN_FAILURE, from: "providerStatus: status,", to: "providerStatus: status + 1," }],
  },
  {
    name: "a step that its provider broke is not tried again",
    breaks: "G2",
    hunter,
    patches: [
      {
        file: ATTEMPTS,
        from: 'if (!isPassing || !open.hasContent) return { reason: "failed", failure };',
        to: 'if (!isPassing || open.hasContent) return { reason: "failed", failure };',
      },
    ],
  },
];
