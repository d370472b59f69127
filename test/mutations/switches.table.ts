/** Mends of switches, options and local mistakes, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a client asks for its switches once and never again",
    file: "test/client-node/open-client.test.ts",
    test: "persistence can be switched while a client runs",
    patches: [
      {
        file: "src/client/stream-options.ts",
        from: "      lastGood = planOf(settings());\n    } catch",
        to: "    } catch",
      },
    ],
  },
  {
    name: "a wrong answer of the switches' function fails the stream that asked",
    file: "test/client/stream-options.test.ts",
    test: "a function is asked for each new stream",
    patches: [
      { file: "src/client/stream-options.ts", from: "      onBug(cause);", to: "      throw cause;" },
    ],
  },
  {
    name: "a stream is resumed from where its journal would begin now",
    file: "test/client-node/open-client.test.ts",
    test: "persistence can be switched while a client runs",
    patches: [
      {
        file: "src/client/journal-places.ts",
        from: "return isInMemory || given === undefined",
        to: "return given === undefined",
      },
    ],
  },
  {
    name: "the environment wins over a flag",
    file: "test/cli/chat-switches.test.ts",
    test: "a flag wins over the environment",
    patches: [
      {
        file: "src/cli/switches.ts",
        from: "{ ...environmentSwitches(env), ...given(checked(FLAGS, flags, asFlag)) }",
        to: "{ ...given(checked(FLAGS, flags, asFlag)), ...environmentSwitches(env) }",
      },
    ],
  },
  {
    name: "a config file that became bad switches everything on",
    file: "test/cli/chat-switches.test.ts",
    test: "a file that is not good is named once",
    patches: [
      {
        file: "src/cli/switches.ts",
        from: "      trouble = message;",
        to: "      trouble = message;\n      lastGood = {};",
      },
    ],
  },
  {
    name: "a mistake within one process is told to the peer as the peer's own",
    file: "test/protocol/errors.test.ts",
    test: "a local mistake is no code of the wire",
    patches: [
      {
        file: "src/protocol/errors.ts",
        from: 'return isWireCode(code) ? code : "internal";',
        to: 'return isWireCode(code) ? code : "invalid_frame";',
      },
    ],
  },
  {
    name: "a conversion hides the error of ours that it was given",
    file: "test/protocol/errors.test.ts",
    test: "whatever was thrown becomes an error of ours",
    patches: [
      {
        file: "src/protocol/errors.ts",
        from: "    if (cause instanceof HoldfastError) return cause;\n    return new",
        to: "    return new",
      },
    ],
  },
  {
    name: "E4: an option that may hold a secret is repeated when it is wrong",
    file: "test/protocol/checked.test.ts",
    test: "E4: what may be a secret is not repeated",
    patches: [
      {
        file: "src/protocol/checked.ts",
        from: 'issue.isHidden ? "" :',
        to: 'issue.isHidden === undefined ? "" :',
      },
    ],
  },
  {
    name: "an option that does not exist is taken in silence",
    file: "test/client/stream-options.test.ts",
    test: "a browser client merges and refuses as one in Node does",
    patches: [
      { file: "src/protocol/checked.ts", from: "return z.strictObject(shape", to: "return z.object(shape" },
    ],
  },
  {
    name: "the patience for a database that others make counts rounds in which nothing waits",
    file: "test/client-node/shared-tables.test.ts",
    test: "a database that the others have not made yet is waited for, by the clock",
    patches: [
      { file: "src/store/sqlite/shared-engine.ts", from: "    pause(POLL_MS);\n", to: "" },
      {
        file: "src/store/sqlite/shared-engine.ts",
        from: "const isLastTry = performance.now() >= untilMs;",
        to: "const isLastTry = (rounds += POLL_MS) > OWNER_WAIT_MS;",
      },
      {
        file: "src/store/sqlite/shared-engine.ts",
        from: "const untilMs = performance.now() + OWNER_WAIT_MS;",
        to: "let rounds = 0;",
      },
    ],
  },
  {
    name: "C7: an approval for ever fails the journal",
    file: "test/e2e/tool-runs.test.ts",
    test: "C7: an approval may be for ever",
    patches: [
      {
        file: "src/client/journal-codec.ts",
        from: "Math.min(Math.max(ms, 0), Number.MAX_SAFE_INTEGER)",
        to: "ms",
      },
    ],
  },
  {
    name: "C6: a journal with a damaged record cannot be forgotten",
    file: "test/client-node/open-client.test.ts",
    test: "C6: a damaged journal can be forgotten",
    patches: [
      {
        file: "src/client/client.ts",
        from: 'if (HoldfastError.codeOf(cause) !== "stream_failed") throw cause;',
        to: "if (cause !== undefined) throw cause;",
      },
    ],
  },
  {
    name: "C6: a journal with a damaged head cannot be claimed, and so not be forgotten",
    file: "test/client-node/open-client.test.ts",
    test: "C6: a damaged journal can be forgotten",
    patches: [
      {
        file: "src/client-node/table-journal-store.ts",
        from: "const head = await headIfWhole(idempotencyKey);",
        to: "const head = await readHead(idempotencyKey);",
      },
    ],
  },
  {
    name: "an item in which nothing was said makes a break final",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "openai: an item in which nothing was said is no content",
    patches: [
      {
        file: "src/agent/models/routing/routed-model.ts",
        from: "if (!isGivenOut && isSilent(part)) {",
        to: "if (isGivenOut && isSilent(part)) {",
      },
    ],
  },
  {
    name: "what the items of a broken try left behind becomes part of the answer",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "openai: an item in which nothing was said is no content",
    patches: [
      {
        file: "src/agent/models/routing/routed-model.ts",
        from: "    while (ask !== undefined) {",
        to: "    const silent: ModelPart[] = [];\n    while (ask !== undefined) {",
      },
      {
        file: "src/agent/models/routing/routed-model.ts",
        from: "      const silent: ModelPart[] = [];\n      held?.beginAnswer();",
        to: "      held?.beginAnswer();",
      },
    ],
  },
  {
    name: "G2: the requests by which a killed attempt continued its answer are not counted",
    file: "test/agent/broken-steps.test.ts",
    test: "G2: the requests by which an answer is continued are counted",
    patches: [
      {
        file: "src/turn/open-step.ts",
        from: "Math.max(requestsBefore + UNTOLD_REQUESTS_MAX, requestsTold)",
        to: "requestsBefore + UNTOLD_REQUESTS_MAX",
      },
    ],
  },
];
