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
        from: "return isInMemory || this.#given === undefined",
        to: "return this.#given === undefined",
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
        from: "{ ...environmentSwitches(env), ...flagSwitches(flags) }",
        to: "{ ...flagSwitches(flags), ...environmentSwitches(env) }",
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
];
