/** Rules of the Responses door, taken back. */
import type { Mutation } from "./mutation.ts";

const SDK = "test/gateway/responses/openai-sdk.test.ts";
const BREAKS = "test/gateway/responses/breaks.test.ts";
const EVENTS = "test/gateway/responses/events.test.ts";
const REQUEST = "test/gateway/responses/request.test.ts";
const CONVERSATIONS = "test/gateway/responses/conversations.test.ts";
const KEPT = "src/gateway/kept-conversations.ts";
const AT_ONCE =
  "of two responses at once the second is told to wait, and then has read the first; a retry of the first is no second";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a session of one door is continued by the other",
    file: SDK,
    test: "sessions of the two doors are never mixed up",
    patches: [
      {
        file: "src/gateway/matching.ts",
        from: 'return door === "chat" ? context :',
        to: "return door !== undefined ? context :",
      },
    ],
  },
  {
    name: "results between calls part them",
    file: SDK,
    test: "results between the calls of one response continue the turn as well, and all of them are kept",
    patches: [
      {
        file: "src/gateway/responses/response-items.ts",
        from: "isSplit ? behind + 1 : ordered.length",
        to: "isSplit ? ordered.length : ordered.length",
      },
    ],
  },
  {
    name: "a response's end is given out before its row has it",
    file: SDK,
    test: "a kept response outlives its stream: it is retrieved, referred to and continued from its row alone",
    patches: [
      {
        file: "src/gateway/session-driver.ts",
        from: "const writes = await endWrites(this.#memory, this.record, this.#context);",
        to: "const writes: readonly TableWrite[] = [];",
      },
    ],
  },
  {
    name: "E2: a response is found by its id, whoever asks",
    file: SDK,
    test: "kept responses: retrieved, their input listed, deleted; another principal has none of them",
    patches: [
      {
        file: "src/gateway/kept-responses.ts",
        from: 'names.row("response", principal, responseId)',
        to: 'names.row("response", principal === "" ? principal : "", responseId)',
      },
    ],
  },
  {
    name: "a row repeats the history that the row before it has",
    file: SDK,
    test: "kept responses: retrieved, their input listed, deleted; another principal has none of them",
    patches: [
      {
        file: "src/gateway/kept-responses.ts",
        from: "isShort ? news : input",
        to: "isShort ? input : input",
      },
    ],
  },
  {
    name: "a response with store: false is kept like any other",
    file: SDK,
    test: "a response is kept for its time, and one with store: false for the grace period",
    patches: [
      {
        file: "src/gateway/kept-responses.ts",
        from: "kept.isBrief === true ? limits.graceMs :",
        to: "kept.isBrief === true ? limits.responseTtlMs :",
      },
    ],
  },
  {
    name: "an answer of the Responses door is read as chat",
    file: SDK,
    test: "the way back to a streamed response is its own, and a WebSocket is answered by 426 at once",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: 'if (answer.door === "responses") throw otherDoor(answer.responseId);',
        to: 'if (answer.door === "responses" && answer.responseId === "") throw otherDoor(answer.responseId);',
      },
    ],
  },
  {
    name: "a retry with its names in another order is another request",
    file: BREAKS,
    test: "a retry of a response that was cut comes to the running answer, also with its names in another order",
    patches: [
      {
        file: "src/gateway/http/request-hash.ts",
        from: '  order: "any",\n  door: "responses",',
        to: '  order: "as_written",\n  door: "responses",',
      },
    ],
  },
  {
    name: "a reader that returns is given only what it has not, and the last event repeats only that",
    file: BREAKS,
    test: "starting_after gives what follows, event for event as another reader gets it",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: "const givenAfter = isAgain ? fromEvent : seenThrough;",
        to: "const givenAfter = isAgain ? seenThrough : seenThrough;",
      },
    ],
  },
  {
    name: "B5: a number that was never sent has the whole answer",
    file: BREAKS,
    test: "a number that was never sent is refused",
    patches: [
      {
        file: "src/gateway/responses/response-events.ts",
        from: "return this.#number < this.#options.startingAfter ? [this.error(ahead())] :",
        to: "return this.#number < -1 ? [this.error(ahead())] :",
      },
    ],
  },
  {
    name: "a background response that a kill cut off sleeps until a client asks",
    file: BREAKS,
    test: "G7: a background response that a kill cut off is taken up by the next start, without a client",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: 'record.state === "generating" && record.isBackground === true',
        to: 'record.state === "parked" && record.isBackground === true',
      },
    ],
  },
  {
    name: "numbers of events run into each other",
    file: EVENTS,
    test: "numbers rise, and a reader that returns with any of them is given exactly what follows",
    patches: [
      { file: "src/gateway/responses/response-events.ts", from: "const SPAN = 8;", to: "const SPAN = 2;" },
    ],
  },
  {
    name: "an item begins before the one before it is done",
    file: EVENTS,
    test: "whatever the model says, what a client adds up is the final response, streamed and in one piece",
    patches: [
      {
        file: "src/gateway/responses/response-output.ts",
        from: 'const before = this.#close("completed");',
        to: "const before: readonly EventBody[] = [];",
      },
    ],
  },
  {
    name: "an answer that comes back in several items has another lineage",
    file: REQUEST,
    test: "texts of one answer in several items are joined as its steps were",
    patches: [
      {
        file: "src/gateway/responses/response-items.ts",
        from: ' && !before.endsWith("\\n") && !text.startsWith("\\n")',
        to: "",
      },
    ],
  },
  {
    name: "a conversation takes a response while another one is under way",
    file: CONVERSATIONS,
    test: AT_ONCE,
    patches: [
      { file: KEPT, from: "conversation === undefined || isBusy ||", to: "conversation === undefined ||" },
    ],
  },
  {
    name: "a response that failed stays in its conversation",
    file: CONVERSATIONS,
    test: "a response that failed leaves nothing in its conversation, and does not close it",
    patches: [
      {
        file: KEPT,
        from: "if (response?.isSaid !== true) continue;",
        to: "if (response === undefined) continue;",
      },
    ],
  },
  {
    name: "an item that was taken out of a conversation is told to the model",
    file: CONVERSATIONS,
    test: "a conversation is changed, its items are added, looked at and taken out, and it is deleted; another principal has none of it",
    patches: [
      {
        file: KEPT,
        from: 'items: items.filter((item) => !removed.some((gone) => gone === item["id"])),',
        to: "items,",
      },
    ],
  },
  {
    name: "conversations of all principals are one",
    file: CONVERSATIONS,
    test: "a conversation is changed, its items are added, looked at and taken out, and it is deleted; another principal has none of it",
    patches: [
      {
        file: KEPT,
        from: 'names.row("kept conversation", principal, id)',
        to: 'names.row("kept conversation", principal.slice(0, 0), id)',
      },
    ],
  },
  {
    name: "a client that repeats itself in its session is told apart from other sessions by nothing",
    file: "test/gateway/lost-responses.test.ts",
    test: "in a session that its client names, the same again is a retry: closed in good order, over a kill, and of that session alone",
    patches: [
      {
        file: "src/gateway/http/said-retries.ts",
        from: 'session === "" ? bodyHash',
        to: 'session !== "" ? bodyHash',
      },
    ],
  },
];
