/** Mends of the terminal and of a server's start, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a chat starts a server in the place of a person's that died",
    file: "test/cli/chat-server-watch.test.ts",
    test: "a chat starts again what a chat has started, and waits for a person's server",
    patches: [
      {
        file: "src/cli/chat/server-watch.ts",
        from: `return used.mayStart && seen.kind !== "silent"`,
        to: `return seen.kind !== "silent"`,
      },
    ],
  },
  {
    name: "a chat dials the address of a server that has moved",
    file: "test/cli/moving-transport.test.ts",
    test: "each call goes to where the server is when it is made, and back",
    patches: [
      {
        file: "src/cli/chat/moving-transport.ts",
        from: "    const at = url();",
        to: "    const at = transports.keys().next().value ?? url();",
      },
    ],
  },
  {
    name: "a chat's server keeps the data directory from a person's",
    file: "test/cli/chat-server-watch.test.ts",
    test: "a server that a person starts takes the place of a chat's, and of no other",
    patches: [
      {
        file: "src/cli/data-dir-claim.ts",
        from: "if (!endsWhenIdle) return",
        to: "if (pid > 0) return",
      },
    ],
  },
  {
    name: "a second server does not name the first",
    file: "test/cli/serve.test.ts",
    test: "a second server on the same data directory is refused with the first one's process and address",
    patches: [
      {
        file: "src/cli/data-dir-claim.ts",
        from: "the server at ${url} (process ${pid})`);",
        to: "another process`);",
      },
    ],
  },
  {
    name: "Ctrl-D in the middle of an answer does nothing",
    file: "test/cli/chat-follows.test.ts",
    test: "Ctrl-D and SIGTERM leave in mid-answer: the turn continues at the server, and the next chat shows it",
    patches: [
      {
        file: "src/cli/chat/line-input.ts",
        from: "if (reading === undefined) typing?.onEnd();",
        to: "if (reading === undefined) return;",
      },
    ],
  },
  {
    name: "C7: Ctrl-D at an approval denies it",
    file: "test/cli/chat-approval.test.ts",
    test: "C7: a person who leaves has not answered",
    patches: [
      {
        file: "src/cli/chat/asking.ts",
        from: `      if (entered.kind === "end") return LEFT;
      if (entered.kind !== "line") return { answer: "no", reason: UNANSWERED };`,
        to: `      if (entered.kind !== "line") return { answer: "no", reason: UNANSWERED };`,
      },
    ],
  },
  {
    name: "a chat says of a server that died that none runs",
    file: "test/cli/chat-server-watch.test.ts",
    test: "the words name the process, what became of it, and what to do",
    patches: [
      {
        file: "src/cli/chat/server-watch.ts",
        from: `const before = seen.kind === "died" ? seen : undefined;`,
        to: `const before = seen.kind === "died" && seen.pid === 0 ? seen : undefined;`,
      },
    ],
  },
  {
    name: "a provider that does not answer is replaced by another's model",
    file: "test/agent/models/silent-providers.test.ts",
    test: "a provider that does not answer keeps its place: no other model answers for it, and its own error is the answer",
    patches: [
      {
        file: "src/agent/models/registry.ts",
        from: "const listed = own.length > 0 || isLimited ? own : [FIRST];",
        to: "const listed = own;",
      },
    ],
  },
  {
    name: "a provider that did not answer at the start is not asked again",
    file: "test/agent/models/silent-providers.test.ts",
    test: "a provider that answers later works without a restart",
    patches: [
      {
        file: "src/agent/models/named-models.ts",
        from: "known.length > 0 ? { names: known, failure: undefined } :",
        to: "this.#asked.has(provider) ? (this.#asked.get(provider) ?? { names: known, failure: undefined }) :",
      },
    ],
  },
  {
    name: "what a provider says when it is asked for its models is swallowed",
    file: "test/agent/models/silent-providers.test.ts",
    test: "a provider that does not answer keeps its place: no other model answers for it, and its own error is the answer",
    patches: [
      {
        file: "src/agent/models/discovery.ts",
        from: "if (UNKNOWN_CALL.has(response.status)) return [];",
        to: "if (!response.ok) return [];",
      },
    ],
  },
  {
    name: "F2: a list of models may have any length",
    file: "test/agent/models/silent-providers.test.ts",
    test: "F2: a server whose list of models is too long is a failure, and fills no memory",
    patches: [
      { file: "src/agent/models/discovery.ts", from: "if (bytes > ANSWER_BYTES_MAX)", to: "if (false)" },
    ],
  },
  {
    name: "C1: an approval is asked for when its exec is taken back already",
    file: "test/e2e/tool-runs.test.ts",
    test: "C1: an exec that is taken back while a person thinks about it is answered, and the question is closed",
    patches: [
      {
        file: "src/client/tool-runner.ts",
        from: "asking.get(effect.execId)?.abort();",
        to: "",
      },
    ],
  },
  {
    name: "a salvage looks at the log before it has the lock",
    file: "test/cli/doctor.test.ts",
    test: "the doctor finds a store whole, beside a running server and after it",
    patches: [
      {
        file: "src/cli/doctor.ts",
        from: "flags.salvage === true ? await",
        to: "flags.salvage === true && isLogDamaged(path) ? await",
      },
    ],
  },
  {
    name: "sessions that sleep after a restart are listed as if they ran",
    file: "test/gateway/wanted.test.ts",
    test: "G7: after a restart /events takes up an answer that was cut off, for one call",
    patches: [
      {
        file: "src/gateway/gateway.ts",
        from: `at === "sleeping" ? { ...record, state: at } : record`,
        to: "at === record.state ? record : record",
      },
    ],
  },
  {
    name: "compiled code is kept where another user can replace it",
    file: "test/cli/compiled-code.test.ts",
    test: "a directory that other users can read, write or replace is not used",
    patches: [
      {
        file: "src/cli/compiled-code.ts",
        from: " && isWayClosed(dirname(realpathSync(directory)), user)",
        to: "",
      },
    ],
  },
  {
    name: "compiled code is kept where other users can look at it",
    file: "test/cli/compiled-code.test.ts",
    test: "a directory that other users can read, write or replace is not used",
    patches: [{ file: "src/cli/compiled-code.ts", from: "(mode & OTHERS) === 0 && ", to: "" }],
  },
];
