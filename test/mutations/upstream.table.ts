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
    test: "E4: the list of models is not asked for elsewhere either, by the platform's fetch",
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
      { file: "src/cli/model-config.ts", from: "(id) => modelNameOf(id) === id", to: '(id) => id !== ""' },
    ],
  },
  {
    name: "G5: a ping starts the clock of the first content anew",
    file: "test/agent/models/upstream/stall-clocks.test.ts",
    test: "F4: the first content has 240 s from the request",
    patches: [
      {
        file: "src/agent/models/upstream/stall-clocks.ts",
        from: "byteMs: nowMs, isPinged: true, pings: true }",
        to: "byteMs: nowMs, contentMs: nowMs, resumedMs: nowMs, isPinged: true, pings: true }",
      },
    ],
  },
  {
    name: "F4: a model that writes may pause as long as one that thinks",
    file: "test/agent/models/upstream/stall-clocks.test.ts",
    test: "F4: text and arguments have 60 s",
    patches: [
      {
        file: "src/agent/models/upstream/stall-clocks.ts",
        from: "writingMs: 60_000",
        to: "writingMs: 240_000",
      },
    ],
  },
  {
    name: "G5: a provider that pings behind its finish marker keeps a whole answer open",
    file: "test/agent/models/upstream/stall-clocks.test.ts",
    test: "G5: behind the finish marker the rest has 2 s",
    patches: [
      {
        file: "src/agent/models/upstream/answer-progress.ts",
        from: "toldMs: isPing ? state.toldMs : nowMs,",
        to: "toldMs: nowMs,",
      },
    ],
  },
  {
    name: "an answer is thrown away when its connection dies behind the finish marker",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "anthropic: behind its finish marker an answer is whole, although the connection is cut",
    patches: [
      {
        file: "src/agent/models/upstream/answer-progress.ts",
        from: 'return phase === "after_finish";',
        to: "return phase !== phase;",
      },
    ],
  },
  {
    name: "Anthropic's last event is not said in its place when the connection dies before it",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "anthropic: behind its finish marker an answer is whole, although the body ends in good order",
    patches: [
      {
        file: "src/agent/models/upstream/upstream-call.ts",
        from: 'return lastWord === "" ? [] : [{ text: lastWord, value: undefined }];',
        to: "return [];",
      },
    ],
  },
  {
    name: "G3: a tool call of an answer that broke counts",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "openai-compatible: G3: before its finish marker an answer is broken at every place",
    patches: [
      {
        file: "src/agent/models/sdk-model.ts",
        from: "if (upstream.broken !== undefined && (",
        to: "if (upstream.broken === null && (",
      },
    ],
  },
  {
    name: "G3: a tool call that ran out of tokens counts",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "G3: a call that ran out of tokens is no call",
    patches: [
      {
        file: "src/agent/models/stream-parts.ts",
        from: "const ended = isCut ? [] : [",
        to: "const ended = isCut ? this.#doubtful : [",
      },
    ],
  },
  {
    name: "a provider is blamed for the time in which its reader was busy",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "a slow reader is not the provider's silence",
    patches: [
      {
        file: "src/agent/models/upstream/upstream-call.ts",
        from: "this.#pausedMs += this.#time.monotonic() - this.#pausedAtMs;",
        to: "this.#pausedMs += 0;",
      },
    ],
  },
  {
    name: "G1: text that an OpenAI stream has shown is begun anew when its provider breaks",
    file: "test/agent/broken-steps.test.ts",
    test: "openai: G1: text that is final is never begun anew",
    patches: [
      {
        file: "src/turn/attempts.ts",
        from: "if (isKept || !mayBeginAnew(open)) return given;",
        to: "if (!mayBeginAnew(open)) return given;",
      },
    ],
  },
  {
    name: "a step whose provider breaks it off before any text fails",
    file: "test/gateway/broken-upstream.test.ts",
    test: "openai-compatible: a break in a tool call is not noticed by a client that streams",
    patches: [
      {
        file: "src/turn/attempts.ts",
        from: "if (!isPassing || !open.hasContent)",
        to: "if (!isPassing || !open.hasText)",
      },
    ],
  },
  {
    name: "the gateway does not say that what a stream has shown is final",
    file: "test/gateway/broken-upstream.test.ts",
    test: "google: a break in text that was streamed is a clean error",
    patches: [
      {
        file: "src/gateway/openai/chat-request.ts",
        from: "...(stream ? { shownIsFinal: true } : {})",
        to: "...{}",
      },
    ],
  },
  {
    name: "the thoughts of two attempts are compared, and part a stream that has shown no text",
    file: "test/turn/rollback.test.ts",
    test: "thoughts are not compared",
    patches: [
      {
        file: "src/turn/answer.ts",
        from: 'if (state.isDiverged || state.owed !== "") return [next, []];',
        to: 'if (state.isDiverged || state.shown.reasoning !== "") return diverged(next);',
      },
    ],
  },
  {
    name: "F1: a provider that breaks every time is asked without end",
    file: "test/turn/next.test.ts",
    test: "F1: a step that its provider breaks off restarts as one that a crash cut off",
    patches: [
      {
        file: "src/turn/attempts.ts",
        from: "|| !mayBeginAnew(open)) return given;",
        to: "|| open.restarts < 0) return given;",
      },
    ],
  },
  {
    name: "G2: the requests of an attempt that was killed are not counted",
    file: "test/agent/broken-steps.test.ts",
    test: "G2: kills are counted",
    patches: [
      {
        file: "src/turn/open-step.ts",
        from: "Math.max(requestsBefore + UNTOLD_REQUESTS_MAX, requestsTold)",
        to: "requestsBefore",
      },
    ],
  },
  {
    name: "G2: a request whose event was lost with its server is not counted",
    file: "test/agent/broken-steps.test.ts",
    test: "G2: a first request whose event was lost with its server is counted all the same",
    patches: [
      {
        file: "src/turn/attempts.ts",
        from: "isRepeated ? 1 : 0",
        to: "isRepeated ? 0 : 0",
      },
    ],
  },
  {
    name: "G2: a step asks its provider more than twelve times",
    file: "test/agent/broken-steps.test.ts",
    test: "how long a step may wait: within the held head",
    patches: [
      {
        file: "src/agent/step-requests.ts",
        from: "if (this.#sent >= STEP_REQUESTS_MAX) throw exhausted();",
        to: "",
      },
    ],
  },
  {
    name: "G2: another try leaves before what it follows from is on disk",
    file: "test/agent/broken-steps.test.ts",
    test: "G2: another request leaves when what was said so far is on disk",
    patches: [
      {
        file: "src/agent/step-requests.ts",
        from: "if (!isFirst) await this.#options.untilDurable();",
        to: "if (isFirst) await undefined;",
      },
    ],
  },
  {
    name: "a stream that has said nothing waits for a pause beyond the time in which its status can be told",
    file: "test/agent/broken-steps.test.ts",
    test: "how long a step may wait: within the held head",
    patches: [
      {
        file: "src/turn/attempts.ts",
        from: "passedMs + pauseMs <= HEAD_HELD_MS",
        to: "passedMs + pauseMs >= 0",
      },
    ],
  },
  {
    name: "G3: a call whose arguments are no JSON reaches the client",
    file: "test/agent/tool-plan.test.ts",
    test: "G3: a call of a declared tool whose arguments are no JSON",
    patches: [
      { file: "src/agent/tool-plan.ts", from: 'if (typeof read === "string") return invalid(read);', to: "" },
    ],
  },
  {
    name: "G4: a request runs on at the provider when its reader has gone",
    file: "test/agent/models/failures.test.ts",
    test: "G4: a caller that stops listening ends the request",
    patches: [
      {
        file: "src/agent/models/sdk-model.ts",
        from: "if (!isWhole) stop.abort();",
        to: "if (isWhole) stop.abort();",
      },
    ],
  },
  {
    name: "G3: a call that was cut right behind its name counts as one without arguments",
    file: "test/agent/models/upstream/breaks.test.ts",
    test: "a call that was cut right behind its name is no call without arguments",
    patches: [
      {
        file: "src/agent/models/stream-parts.ts",
        from: 'args === "{}" && !this.#argued.has(part.toolCallId)',
        to: 'args === ""',
      },
    ],
  },
  {
    name: "an empty finish reason makes a broken answer whole",
    file: "test/agent/models/upstream/wire-events.test.ts",
    test: "an empty reason is no finish",
    patches: [
      {
        file: "src/agent/models/upstream/wire-events.ts",
        from: 'isText(choice["finish_reason"])',
        to: 'isThere(choice["finish_reason"])',
      },
    ],
  },
  {
    name: "a long event is searched from its beginning with each piece",
    file: "test/agent/models/upstream/wire-events.test.ts",
    test: "a long event costs its length",
    patches: [
      {
        file: "src/agent/models/upstream/sse-events.ts",
        from: "text.slice(Math.max(begin, text.length - TAIL_CHARS))",
        to: "text.slice(begin)",
      },
    ],
  },
  {
    name: "E4: an API key is looked for with the white space of its variable, and not found in the provider's words",
    file: "test/agent/models/failures.test.ts",
    test: "E4: an API key is hidden as it was sent",
    patches: [
      {
        file: "src/agent/models/providers.ts",
        from: "keyVariables.map((variable) => keyIn(environment, variable))",
        to: 'keyVariables.map((variable) => environment[variable] ?? "")',
      },
    ],
  },
  {
    name: "a header of one character is taken out of a provider's refusal everywhere",
    file: "test/gateway/passed/passed.test.ts",
    test: "a refusal stays the JSON that it was",
    patches: [
      { file: "src/agent/models/providers.ts", from: "SECRET_CHARS_MIN = 6", to: "SECRET_CHARS_MIN = 1" },
    ],
  },
  {
    name: "G1: white space that a provider trims is expected all the same",
    file: "test/turn/join.test.ts",
    test: "G1: cut after any character, a model that writes on from its prompt gives exactly the rest",
    patches: [
      { file: "src/turn/join.ts", from: "[this.#piece, this.#piece.trimStart()]", to: "[this.#piece]" },
    ],
  },
  {
    name: "G1: a continuation is taken without its proof",
    file: "test/turn/join.test.ts",
    test: "G1: what does not begin with the piece that was cut off is no continuation",
    patches: [
      {
        file: "src/turn/join.ts",
        from: 'return !isAll && pieces.some((piece) => piece.startsWith(heard)) ? "" : undefined;',
        to: "return this.#unlessEcho([], heard, isAll, 0);",
      },
    ],
  },
  {
    name: "G1: an answer that is begun anew is joined where it begins with the letter that was cut off",
    file: "test/turn/join.test.ts",
    test: "G1: one letter of a short text proves nothing where the answer begins with it, too",
    patches: [
      {
        file: "src/turn/join.ts",
        from: "return this.#unlessEcho([this.#beginning], heard, isAll, said.length);",
        to: "return this.#unlessEcho([], heard, isAll, said.length);",
      },
    ],
  },
  {
    name: "G1: one letter proves a join",
    file: "test/turn/join.test.ts",
    test: "G1: an answer that is begun anew is no continuation, whatever letter it begins with",
    patches: [
      { file: "src/turn/join.ts", from: "const PIECE_CHARS_MIN = 12;", to: "const PIECE_CHARS_MIN = 0;" },
    ],
  },
  {
    name: "G3: arguments of a held call are not compared with the log",
    file: "test/turn/pass-over.test.ts",
    test: "G3: names of tools, arguments and their ends are compared",
    patches: [{ file: "src/turn/pass-over.ts", from: "isEqual(run.args, call.argsJson)", to: "true" }],
  },
  {
    name: "G2: a text is continued as often as it breaks",
    file: "test/turn/continued.test.ts",
    test: "G2: a text is continued twice at the most",
    patches: [{ file: "src/turn/attempts.ts", from: "CONTINUATIONS_MAX = 2", to: "CONTINUATIONS_MAX = 20" }],
  },
];
