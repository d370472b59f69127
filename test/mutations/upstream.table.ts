/** Mends of the providers' side, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a model's name with .. in it leaves the path of its model",
    file: "test/agent/models/names.test.ts",
    test: "a name that could leave the path of its model is no name",
    patches: [
      {
        file: "src/protocol/model-name.ts",
        from: 'part !== "" && part !== "." && part !== ".."',
        to: 'part !== ""',
      },
    ],
  },
  {
    name: "a model's name with a percent sign or a question mark is passed on",
    file: "test/agent/models/names.test.ts",
    test: "a name that could leave the path of its model is no name",
    patches: [{ file: "src/protocol/model-name.ts", from: "[?#%\\\\\\p{Cc}", to: "[\\p{Cc}" }],
  },
  {
    name: "a second name of a Google model is not on the list of those offered",
    file: "test/agent/models/names.test.ts",
    test: "two names of one model are compared as one",
    patches: [
      {
        file: "src/agent/models/registry.ts",
        from: 'isGoogle ? name.replace(/^models\\//, "") : name',
        to: "isGoogle ? name.slice(0) : name",
      },
    ],
  },
  {
    name: "E4: the API key of a provider follows a redirect to another host",
    file: "test/agent/models/redirects.test.ts",
    test: "E4: anthropic: a redirect is not followed",
    patches: [
      {
        file: "src/agent/models/upstream/redirects.ts",
        from: 'redirect: "manual"',
        to: 'redirect: "follow"',
      },
    ],
  },
  {
    name: "a model's name in the configuration may leave its path",
    file: "test/cli/model-config.test.ts",
    test: "what is wrong is refused, and the field is named",
    patches: [
      { file: "src/cli/model-config.ts", from: "if (modelNameOf(text) !== text)", to: 'if (text === "")' },
    ],
  },
];
