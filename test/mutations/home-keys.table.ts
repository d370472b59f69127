/** Rotations of the home key: what a broken one would lose, or leave readable. */
import type { Mutation } from "./mutation.ts";

const KILLED = "sessions, conversations and answers continue over rotations of the home key, killed ones too";
const RING = "rows, streams and conversations open under the key that they began with";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a rotation forgets the home keys before it",
    file: "test/node/home-keys.test.ts",
    test: RING,
    patches: [{ file: "src/client-node/home-key-ring.ts", from: ".slice(0, keepMax)", to: ".slice(0, 0)" }],
  },
  {
    name: "a rotation drops no home key, whatever it was told to keep",
    file: "test/node/home-keys.test.ts",
    test: RING,
    patches: [{ file: "src/client-node/home-key-ring.ts", from: ".slice(0, keepMax)", to: "" }],
  },
  {
    name: "a rotation keeps the oldest home keys, and drops the newer ones",
    file: "test/node/home-keys.test.ts",
    test: RING,
    patches: [
      { file: "src/client-node/home-key-ring.ts", from: "([a], [b]) => b - a", to: "([a], [b]) => a - b" },
    ],
  },
  {
    name: "what begins behind a rotation has the name of what began before it",
    file: "test/node/home-keys.test.ts",
    test: RING,
    patches: [
      { file: "src/client-node/home-key-ring.ts", from: "keyNumber: keyNumber + 1,", to: "keyNumber," },
    ],
  },
  {
    name: "the database asks for a home key that is on no disk yet",
    file: "test/cli/rotate-home.test.ts",
    test: KILLED,
    patches: [
      {
        file: "src/node/home-keys.ts",
        from: "if (!isGiven) writeNextKey(directoryOf(machine), fileNames(scopeId).next, next);",
        to: "",
      },
    ],
  },
  {
    name: "a start behind a killed rotation does not look for the home key that waits",
    file: "test/cli/rotate-home.test.ts",
    test: KILLED,
    patches: [
      {
        file: "src/node/home-keys.ts",
        from: "Object.values(fileNames(scopeId)).map(",
        to: "Object.values(fileNames(scopeId)).slice(0, 1).map(",
      },
    ],
  },
  {
    name: "a retry behind a rotation does not find its answer",
    file: "test/node/home-keys.test.ts",
    test: RING,
    patches: [
      {
        file: "src/client-node/home-key-ring.ts",
        from: "older: new Map(kept), names };",
        to: "older: new Map(kept), names: next };",
      },
      { file: "src/client-node/home-key-ring.ts", from: "names: text(names),", to: "names: text(next)," },
    ],
  },
];
