/** Mends of what a user meets first: the command, its messages, the base URL, the harness. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a model call that was saved is not told",
    file: "test/cli/serve.test.ts",
    test: "what was saved is one line",
    patches: [
      { file: "src/node/saved.ts", from: "if (saved !== undefined) onSaved(saved);", to: "void saved;" },
    ],
  },
  {
    name: "an answer that continued behind a broken provider is not told",
    file: "test/cli/serve.test.ts",
    test: "an answer whose provider broke off continues, and the log says so in one line",
    patches: [
      { file: "src/node/serve.ts", from: "if (saved !== undefined) onSaved(saved);", to: "void saved;" },
    ],
  },
  {
    name: "a value in the log steers the terminal",
    file: "test/cli/serve.test.ts",
    test: "what was saved is one line",
    patches: [{ file: "src/cli/command-log.ts", from: "visible(said(value))", to: "said(value)" }],
  },
  {
    name: "a run is not below the request that began it",
    file: "test/node/telemetry.test.ts",
    test: "a request, the run of its turn and the model's call are one trace",
    patches: [
      {
        file: "src/node/telemetry/telemetry.ts",
        from: "this.#contexts.set(stream, context);",
        to: "",
      },
    ],
  },
  {
    name: "a message prints a command that only a global installation has",
    file: "test/cli/pasted-commands.test.ts",
    test: "a command is written as npx finds it",
    patches: [
      {
        file: "src/cli/own-command.ts",
        from: 'if (isWithin(cwd, projectOf(root)) || root.includes(NPX_CACHE)) return "npx holdfast";',
        to: "",
      },
    ],
  },
  {
    name: "a message prints a command for another data directory than it speaks of",
    file: "test/cli/pasted-commands.test.ts",
    test: "a message names the data directory that it speaks of",
    patches: [
      {
        file: "src/cli/commands-on.ts",
        from: 'dataDir === usualDataDir(surroundings) ? ""',
        to: 'dataDir !== "" ? ""',
      },
    ],
  },
  {
    name: "an error of the store names a command that its user cannot run",
    file: "test/cli/pasted-commands.test.ts",
    test: "an error from below the command line names the command as its user runs it",
    patches: [{ file: "src/cli/own-command.ts", from: "() => `${command} `", to: '() => "holdfast "' }],
  },
  {
    name: "inspect tries no home key but the one that was named",
    file: "test/cli/inspect.test.ts",
    test: "the home key that belongs to a stream is found where its gateway and its clients keep theirs",
    patches: [
      {
        file: "src/cli/kept-home-keys.ts",
        from: "yield* keysInFiles(places.directory, onTrouble);",
        to: "",
      },
    ],
  },
  {
    name: "HOLDFAST_HOME_KEY hides the home key that opens the stream",
    file: "test/cli/inspect.test.ts",
    test: "the home key that belongs to a stream is found where its gateway and its clients keep theirs",
    patches: [
      {
        file: "src/cli/stream-key.ts",
        from: "if (first !== undefined && opens(first)) return",
        to: "if (first !== undefined) return",
      },
    ],
  },
  {
    name: "a client with a wrong base URL is not told the right one",
    file: "test/gateway/http/routes.test.ts",
    test: "over HTTP/1 a client with a wrong base URL is told the right one",
    patches: [
      {
        file: "src/server/http/edge.ts",
        from: "...Object.fromEntries(ofMounts),",
        to: "",
      },
    ],
  },
  {
    name: "a client whose answer a shutdown cuts is promised that it is kept",
    file: "test/gateway/http/delivery.test.ts",
    test: "over HTTP/1 a shutdown tells open answers to come back",
    patches: [
      {
        file: "src/gateway/http/response-progress.ts",
        from: "finished steps are kept, and a step that was cut off continues or is generated again",
        to: "its answer is kept",
      },
    ],
  },
  {
    name: "a start that failed leaves its database open",
    file: "test/node/serve.test.ts",
    test: "what stands in the way of a start is said in one line",
    patches: [
      {
        file: "src/node/serve.ts",
        from: "    await takeDown(running);\n    throw error;",
        to: "    throw error;",
      },
    ],
  },
  {
    name: "the gateway begins every request anew instead of reusing its session",
    file: "test/harness/harness.test.ts",
    test: "every flow reuses what it can",
    patches: [
      {
        file: "src/node/open-gateway.ts",
        from: 'machine.env["HOLDFAST_SESSION_REUSE"] !== "0"',
        to: 'machine.env["HOLDFAST_SESSION_REUSE"] === "1"',
      },
    ],
  },
  {
    name: "a server waits for another start and says nothing",
    file: "test/cli/data-dir-claim.test.ts",
    test: "a server that waits for another start says so",
    patches: [
      {
        file: "src/cli/data-dir-claim.ts",
        from: `note("Waiting for another process that starts or stops a server here ...")`,
        to: `note("")`,
      },
    ],
  },
  {
    name: "a chat waits for another start and says nothing",
    file: "test/cli/data-dir-claim.test.ts",
    test: "a chat that waits for another start says so",
    patches: [
      {
        file: "src/cli/local-server.ts",
        from: `onNotice("waiting for another process that starts a server here ...")`,
        to: `onNotice("")`,
      },
    ],
  },
  {
    name: "a provider that names no models is a trouble although the configuration names one",
    file: "test/agent/models/silent-providers.test.ts",
    test: "a server that names no models is no trouble where the configuration names one of its models",
    patches: [
      {
        file: "src/agent/models/named-models.ts",
        from: "return isConfigured(provider) ? [] : [namesNone(provider).message];",
        to: "return [namesNone(provider).message];",
      },
    ],
  },
  {
    name: "a response that was broken off looks whole to who reads it by fetch",
    file: "test/transport/mounted.test.ts",
    test: "a response that is broken off never looks whole",
    patches: [
      {
        file: "src/transport/node/fetch-exchange.ts",
        from: "this.#controller?.error(broken);",
        to: "this.#controller?.close();",
      },
    ],
  },
  {
    name: "a client that was gone when its request was handed over is answered all the same",
    file: "test/transport/mounted.test.ts",
    test: "a client that is gone is noticed before its request is handed over",
    patches: [
      {
        file: "src/transport/node/fetch-exchange.ts",
        from: "if (request.signal.aborted) this.#giveUp();\n    else request",
        to: "request",
      },
    ],
  },
  {
    name: "metrics are open to all behind another server",
    file: "test/node/embed.test.ts",
    test: "mounted into Express",
    patches: [
      {
        file: "src/server/http/serve.ts",
        from: "options.port !== false && isLoopbackName(host)",
        to: "isLoopbackName(host)",
      },
    ],
  },
  {
    name: "a program that runs again says its words a second time",
    file: "test/node/connect.test.ts",
    test: "the same words find the turn that is under way",
    patches: [
      {
        file: "src/node/named-conversation.ts",
        from: "const turn = await conversation.resume();",
        to: "await conversation.abandon(); const turn: Turn | undefined = undefined;",
      },
    ],
  },
  {
    name: "any words find the turn under way",
    file: "test/node/connect.test.ts",
    test: "the same words find the turn that is under way",
    patches: [
      {
        file: "src/node/named-conversation.ts",
        from: "if (!conversation.isAnswering(input)) throw busy(this.id);",
        to: "",
      },
    ],
  },
  {
    name: "a program's tool that needs an approval runs without one",
    file: "test/node/connect.test.ts",
    test: "without `approve` a tool that needs one does not run",
    patches: [
      {
        file: "src/node/program-tools.ts",
        from: 'const policy = needsApproval ? ("ask" as const) : ("allow" as const);',
        to: 'const policy = "allow" as const;',
      },
    ],
  },
  {
    name: "arguments that do not fit reach the function",
    file: "test/node/connect.test.ts",
    test: "a tool takes a shape of zod",
    patches: [
      {
        file: "src/tools/tool.ts",
        from: "if (!found.success) return { text: misfit(found.error), isError: true };",
        to: "",
      },
    ],
  },
  {
    name: "the last of several waiting calls of next is the only one that gets an answer",
    file: "test/client/agent/turn-readers.test.ts",
    test: "two calls of next that wait at the same time both get an answer",
    patches: [
      {
        file: "src/client/agent/turn-readers.ts",
        from: "await this.#changed.until(() => this.#isOver || this.#waiting.length > 0);",
        to: "await new Promise<void>((resolve) => { this.#changed.notify = resolve; });",
      },
    ],
  },
  {
    name: "requests to providers are not counted",
    file: "test/harness/harness.test.ts",
    test: "against a server that runs the flows are the same; what cannot be killed is said, and is no failure",
    patches: [
      {
        file: "src/agent/models/provider-counters.ts",
        from: "add(this.#requests, provider, 1);",
        to: "",
      },
    ],
  },
  {
    name: "a program that got the port of a killed server keeps the next one from starting",
    file: "test/cli/data-dir-claim.test.ts",
    test: "a program that got the port of a killed server",
    patches: [
      {
        file: "src/cli/control-client.ts",
        from: 'answer.kind === "answered" ? z.safeParse(schema, answer.body).data : undefined',
        to: 'answer.kind === "answered" ? here(z.safeParse(schema, answer.body).data) : undefined',
      },
    ],
  },
];
