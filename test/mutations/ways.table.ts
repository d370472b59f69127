/** Ways to answer when a provider does not, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "G1: a fallback answers although only one model may",
    file: "test/agent/models/fallbacks.test.ts",
    test: "G1: an answer that one model alone may give is not given by its fallback",
    patches: [
      {
        file: "src/agent/models/routing/routed-model.ts",
        from: "only === undefined ? all : all.filter(({ id }) => id === only)",
        to: "all",
      },
    ],
  },
  {
    name: "a request that was refused is sent to the fallback",
    file: "test/agent/models/routing/route.test.ts",
    test: "a request that is refused is refused: no other target gets it",
    patches: [
      {
        file: "src/agent/models/routing/route.ts",
        from: "const mayPass = isTargetFailure(failure) || target !== route.asked;",
        to: "const mayPass = isTargetFailure(failure) || target !== undefined;",
      },
    ],
  },
  {
    name: "a refused request counts against its target",
    file: "test/agent/models/routing/route.test.ts",
    test: "what a request was refused for never counts against its target",
    patches: [
      {
        file: "src/agent/models/routing/health.ts",
        from: "if (!isTargetFailure(failure)) return;",
        to: "",
      },
    ],
  },
  {
    name: "the response names the model that was asked for, not the fallback that answered",
    file: "test/gateway/broken-upstream.test.ts",
    test: "the fallback that answers is the model of the response",
    patches: [
      {
        file: "src/turn/answer.ts",
        from: 'const served = servedBy === "" ? {} : { model: servedBy };',
        to: "const served = {};",
      },
    ],
  },
  {
    name: "G1: a join that nothing proved is counted as a proved one",
    file: "test/agent/prefilled-steps.test.ts",
    test: "G1: a model that has proved a join, and writes something else here",
    patches: [{ file: "src/agent/turn.ts", from: 'isUnproved ? "unproved" : "prefill"', to: '"prefill"' }],
  },
  {
    name: "thoughts of a continuation are joined to the answer that it continues",
    file: "test/agent/prefilled-steps.test.ts",
    test: "thoughts of an answer that is continued are in no history",
    patches: [
      {
        file: "src/agent/model-step.ts",
        from: 'case "thinking_end":\n        return [];',
        to: 'case "thinking_end":\n        return [part];',
      },
    ],
  },
];
