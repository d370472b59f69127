/** Mends of the client, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "B1: an event takes the short way of a connection that is not the present one",
    file: "test/core/client-follow.test.ts",
    test: "B1: an event takes the short way only where nothing follows from it but its delivery",
    patches: [
      {
        file: "src/core/client-stream.ts",
        from: "|| degraded || input.connection !== state.connection) return undefined;",
        to: "|| degraded) return undefined;",
      },
    ],
  },
  {
    name: "B1: the short way takes an event with a gap before it",
    file: "test/core/client-follow.test.ts",
    test: "B1: an event takes the short way only where nothing follows from it but its delivery",
    patches: [
      {
        file: "src/core/client-stream.ts",
        from: `if (effect?.kind !== "take") return undefined;`,
        to: "if (effect === undefined) return undefined;",
      },
    ],
  },
  {
    name: "F4: the short way of an event does not move the clocks",
    file: "test/core/client-follow.test.ts",
    test: "B1: the next event changes a writer by the short way as it does by the long one",
    patches: [
      {
        file: "src/core/client-stream.ts",
        from: "return { ...state, cursor: place, stall: stalls, retry: retries };",
        to: "return { ...state, cursor: place, retry: retries };",
      },
    ],
  },
  {
    name: "D7: resumeAll ends a stream outside the window for good, although the server has it",
    file: "test/e2e/memory.test.ts",
    test: "D7: a stream that has been quiet for longer than the window is kept",
    patches: [
      {
        file: "src/core/client-connection.ts",
        from: `finish(at, undefined, { code: "stream_ended", message: TOO_OLD });`,
        to: `finish(at, "aborted", { code: "stream_ended", message: TOO_OLD });`,
      },
    ],
  },
  {
    name: "D7: resumeAll names a stream outside the window among those that go on",
    file: "test/client/agent/restart.test.ts",
    test: "D7: a turn that is too old to go on by itself is left to its conversation",
    patches: [{ file: "src/client/client.ts", from: "if (!isSkipped) {", to: "if (!isSkipped || true) {" }],
  },
  {
    name: "D7: the window counts from the client's last sight alone",
    file: "test/core/client-faults.test.ts",
    test: "D7: the window counts from the later of the client's last sight and the server's last activity",
    patches: [
      {
        file: "src/core/auto-resume.ts",
        from: "Math.max(seenServerTimeMs, lastActivityMs)",
        to: "seenServerTimeMs",
      },
    ],
  },
  {
    name: "a lost journal with nothing in it is kept for ever",
    file: "test/core/retention.test.ts",
    test: "a lost journal is cleared when nothing in it is owed",
    patches: [{ file: "src/core/auto-resume.ts", from: "return isOwing(journal) ?", to: "return true ?" }],
  },
  {
    name: "a part of the retry options takes the place of all of them",
    file: "test/client-node/open-client.test.ts",
    test: "a client with a part of the retry options opens streams",
    patches: [
      {
        file: "src/client/stream-options.ts",
        from: "  return { options, persistence };",
        to: "  return { options: { ...options, ...stream }, persistence };",
      },
    ],
  },
  {
    name: "an option of a stream that is wrong is taken as it is",
    file: "test/client/stream-options.test.ts",
    test: "a wrong option of a stream is refused by its name",
    patches: [
      {
        file: "src/protocol/checked.ts",
        from: `(value) => typeof value === "number" && value >= least,`,
        to: "(value) => value !== undefined,",
      },
    ],
  },
  {
    name: "F3: waits double, so a short outage lasts twice as long as it need",
    file: "test/core/retry.test.ts",
    test: "F3: a short outage is over soon",
    patches: [{ file: "src/core/retry.ts", from: "const GROWTH = 1.5;", to: "const GROWTH = 2.5;" }],
  },
  {
    name: "F3: a Node client does not notice that the machine's addresses changed",
    file: "test/client-node/wake-ups.test.ts",
    test: "F3: streams are woken when the machine's addresses change",
    patches: [{ file: "src/client-node/wake-ups.ts", from: "seen !== before || ", to: "" }],
  },
  {
    name: "a stream that has ended is still locked when its caller learns of the end",
    file: "test/e2e/without-journal.test.ts",
    test: "D4: whoever has waited for the end of a stream may forget it at once, with a journal as without",
    patches: [
      {
        file: "src/client/client.ts",
        from: "const removed = isOver(outcome) ? this.#journals.ended(idempotencyKey) : undefined;",
        to: "const removed = isOver(outcome) ? await this.#journals.ended(idempotencyKey) : undefined;",
      },
    ],
  },
];
