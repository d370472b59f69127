/** The line: what must not become of a call that outlives its server. */
import type { Mutation } from "./mutation.ts";

const LINE = "src/agent/models/line/line-process.ts";
const IN_PROCESS = "test/agent/models/line/line-process.test.ts";
const IN_MEMORY = "test/agent/models/line/line-memory.test.ts";
const ONE_READER = "D1: a call has one reader: the later host's, from the first byte";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "G6: the head of a silent answer leaves before its stream is on the disk",
    file: "test/gateway/named-answers.test.ts",
    test: "G6: a streamed answer that says nothing for long",
    patches: [{ file: "src/gateway/http/streamed-answer.ts", from: "await answer.kept?.();", to: "" }],
  },
  {
    name: "G6: a response in the background has its id before its stream is on the disk",
    file: "test/gateway/named-answers.test.ts",
    test: "G6: a response in the background",
    patches: [
      {
        file: "src/gateway/http/gateway-http.ts",
        from: "if (answer.kept !== undefined) await call.wait(answer.kept());",
        to: "",
      },
    ],
  },
  {
    name: "G6: a server that closes cancels its calls",
    file: "test/node/line-serve.test.ts",
    test: "G6: a server that closes lets go of its call",
    patches: [
      {
        file: "src/server/application-run.ts",
        from: "new LetGo(message)",
        to: 'new HoldfastError("unavailable", MESSAGES.unavailable)',
      },
    ],
  },
  {
    name: "D1: a server that was fenced cancels the call of the one that took its place",
    file: IN_PROCESS,
    test: ONE_READER,
    patches: [
      {
        file: LINE,
        from: "if (call !== undefined && isFenced(epoch, call)) return;",
        to: "assertNothing();",
      },
      {
        file: LINE,
        from: "const SETTINGS_FD = 3;",
        to: "const SETTINGS_FD = 3;\nfunction assertNothing() {}",
      },
    ],
  },
  {
    name: "D1: two readers of one call",
    file: IN_PROCESS,
    test: ONE_READER,
    patches: [
      {
        file: LINE,
        from: "      this.#detach(call);\n      this.#read(call, socket);",
        to: "      this.#read(call, socket);",
      },
    ],
  },
  {
    name: "G6: a reader is attached inside a frame",
    file: IN_PROCESS,
    test: ONE_READER,
    patches: [
      {
        file: LINE,
        from: "{ socket, at: 0, isFull: false }",
        to: "{ socket, at: call.kept.length, isFull: false }",
      },
    ],
  },
  {
    name: "G4: a cancel that overtakes its request is forgotten",
    file: IN_PROCESS,
    test: "a cancel that overtakes its request holds",
    patches: [
      {
        file: LINE,
        from: 'if (word === "cancel") this.#cancelled',
        to: 'if (word === "detach") this.#cancelled',
      },
    ],
  },
  {
    name: "G4: a call of a stream that was aborted is left to its grace period",
    file: "test/node/line-serve.test.ts",
    test: "G4: an abort that was logged before a restart ends the held call at once",
    patches: [
      {
        file: "src/node/held-calls.ts",
        from: "found.state.aborted || found.state.end",
        to: "found.state.end",
      },
    ],
  },
  {
    name: "G4: an aborted turn ends no call of the run before it",
    file: "test/node/line-serve.test.ts",
    test: "G4: a stop that no server had the time to carry out",
    patches: [
      {
        file: "src/node/held-calls.ts",
        from: "if (names.length > 0) await line.say(",
        to: "if (names.length > 99) await line.say(",
      },
    ],
  },
  {
    name: "G4: a cancelled turn leaves the call of the run before it to its grace period",
    file: "test/node/cancelled-calls.test.ts",
    test: "G4: a cancel that meets a restarted server ends the held call of the first step",
    patches: [
      {
        file: "src/node/held-calls.ts",
        from: "signal.aborted || pastInputs > 0 || lasting?.isNew === false",
        to: "signal.aborted",
      },
    ],
  },
  {
    name: "G7: the answer of a held call waits until a client asks for it",
    file: "test/node/line-serve.test.ts",
    test: "G7: a server that starts finishes the answer whose call is held",
    patches: [
      {
        file: "src/node/held-calls.ts",
        from: "else if (isGood) await",
        to: "else if (!isGood) await",
      },
    ],
  },
  {
    name: "G7: a call that its provider broke off is taken for one that can be continued",
    file: IN_PROCESS,
    test: "a server that starts learns of every call that is held",
    patches: [{ file: LINE, from: ' && end !== "broken"', to: "" }],
  },
  {
    name: "G6: a server that is killed as the child of process 1 is not started again",
    file: "test/cli/guard.test.ts",
    test: "a server that a signal killed is started again",
    patches: [
      {
        file: "src/cli/guard.ts",
        from: "if (stopping.signal.aborted || pauseMs === undefined) return given;",
        to: "if (!stopping.signal.aborted || pauseMs === undefined) return given;",
      },
    ],
  },
  {
    name: "G4: a stop only lets go of the call",
    file: "test/agent/models/line/held-calls.test.ts",
    test: "G4: a stop cancels the call at its provider",
    patches: [
      {
        file: "src/agent/models/line/line-fetch.ts",
        from: "if (!(reason instanceof LetGo)) void",
        to: "if (reason instanceof LetGo && isConnected) void",
      },
    ],
  },
  {
    name: "G6: a reader that is late loses what came before its provider broke off",
    file: IN_PROCESS,
    test: "a reader that is late has every byte that came before",
    patches: [
      {
        file: "src/agent/models/upstream/arriving-bytes.ts",
        from: "if (first !== undefined) {",
        to: "if (first !== undefined && this.#broken === undefined) {",
      },
    ],
  },
  {
    name: "G6: the name of a stream does not say which request it is for",
    file: "test/node/lost-beginnings.test.ts",
    test: "G6: when nothing of the beginning is durable",
    patches: [
      {
        file: "src/gateway/names.ts",
        from: "return numberedName(requestPart(request) + drawn, keyNumber);",
        to: 'return numberedName(Buffer.from(randomBytes(24)).toString("base64url"), keyNumber);',
      },
    ],
  },
  {
    name: "G6: two equal requests get one call that is held",
    file: "test/node/lost-beginnings.test.ts",
    test: "G6: when nothing of the beginning is durable",
    patches: [
      {
        file: "src/gateway/left-streams.ts",
        from: "    this.#left.delete(left);\n    const { streamId",
        to: "    const { streamId",
      },
    ],
  },
  {
    name: "G6: a call that is held for a lost request goes to another one under its Idempotency-Key",
    file: "test/node/lost-beginnings.test.ts",
    test: "G6: another body does not get the call that is held",
    patches: [
      {
        file: "src/gateway/names.ts",
        from: "streamId.startsWith(requestPart(request))",
        to: "sameAsker(streamId, request.asker)",
      },
    ],
  },
  {
    name: "E4: the line keeps the API key of a request for as long as its connection lives",
    file: IN_MEMORY,
    test: "E4: when an answer has begun, the line has the API key of its request no longer",
    patches: [{ file: LINE, from: "send(url, { method });", to: "send(url, { method, headers: sent });" }],
  },
  {
    name: "F2: a call beyond the bounds is read at full speed",
    file: IN_MEMORY,
    test: "F2: a line keeps no more than its bounds",
    patches: [{ file: LINE, from: "call.kept.length - at > BEHIND_BYTES_MAX", to: "at > call.kept.length" }],
  },
  {
    name: "a server that drains ends before its disk and its readers have the answer of its last call",
    file: "test/node/model-calls.test.ts",
    test: "a server that drains waits until the answer of its last call has reached its readers",
    patches: [
      { file: "src/node/model-calls.ts", from: "isAnswering() && waitedMs", to: "waitedMs < 0 && waitedMs" },
    ],
  },
  {
    name: "G1: a retry behind a kill is given text that its model was asked to continue, and may not",
    file: "test/gateway/restarted-step.test.ts",
    test: "is told nothing of what was rolled back, also when its model was first asked",
    patches: [
      { file: "src/gateway/session-driver.ts", from: "?? Infinity) && !isTried;", to: "?? Infinity);" },
    ],
  },
  {
    name: "a server speaks to a line of another version",
    file: "test/agent/models/line/versions.test.ts",
    test: "a line of another version is left alone",
    patches: [
      {
        file: "src/node/line-life.ts",
        from: "return version === LINE_VERSION && proof",
        to: "return version !== undefined && proof",
      },
    ],
  },
  {
    name: "G6: the main process of a systemd service is its server",
    file: "test/cli/guard.test.ts",
    test: "process 1, and the main process of a systemd service",
    patches: [{ file: "src/cli/guard.ts", from: "pid === 1 || main === String(pid)", to: "pid === 1" }],
  },
  {
    name: "requests of a server that stops have a time of their own behind that of its model calls",
    file: "test/node/take-down.test.ts",
    test: "what a stopping server waits for shares one deadline",
    patches: [
      {
        file: "src/node/take-down.ts",
        from: "Math.min(REQUESTS_MS, Math.max(0, untilMs - now()))",
        to: "Math.min(REQUESTS_MS, untilMs)",
      },
    ],
  },
  {
    name: "a server that stops waits for its collector of traces",
    file: "test/node/take-down.test.ts",
    test: "a collector of traces that does not answer",
    patches: [
      { file: "src/node/take-down.ts", from: "telemetry?.close(leftMs())", to: "telemetry?.close(60_000)" },
    ],
  },
];
