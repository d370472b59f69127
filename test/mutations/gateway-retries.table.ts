/** Mends of what the gateway pays and tells twice, taken back. */
import type { Mutation } from "./mutation.ts";

const RESULTS = "test/gateway/faults/results.test.ts";
const LOST = "test/gateway/lost-responses.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "D3: a retry is answered from the log of a turn that was stopped while its session rested",
    file: "test/gateway/resting.test.ts",
    test: "D3: a retry by idempotency-key gets the answer of a session that rests",
    patches: [
      {
        file: "src/gateway/gateway.ts",
        from: "const isKept = !wasHere || (await this.#retries.isKept(call, before));",
        to: "const isKept = !wasHere || before !== undefined;",
      },
    ],
  },
  {
    name: "a reset behind the last byte of a response is taken for an end in good order",
    file: LOST,
    test: "over HTTP/1.1 a response in one piece that a reset took behind its last byte is paid once",
    patches: [
      {
        file: "src/transport/node/connection-fate.ts",
        from: 'this.#end = this.#isBroken ? "lost" : "closed";',
        to: 'this.#end = "closed";',
      },
    ],
  },
  {
    name: "an end in good order is taken for a loss, so equal requests in a loop get the same answer",
    file: LOST,
    test: "equal requests one after the other get as many answers: HTTP/2 connections that end at once",
    patches: [
      {
        file: "src/transport/node/connection-fate.ts",
        from: 'this.#end = this.#isBroken ? "lost" : "closed";',
        to: 'this.#end = "lost";',
      },
    ],
  },
  {
    name: "a connection that ends with its response is dropped at once, and hears of no reset",
    file: LOST,
    test: "a connection that its server has ended is watched as well",
    patches: [
      {
        file: "src/transport/node/port.ts",
        from: "endInTwoSteps(socket, limits.hangUpTimeoutMs);",
        to: "",
      },
    ],
  },
  {
    name: "the client's next request on a connection confirms nothing",
    file: "test/transport/arrival.test.ts",
    test: "HTTP/1.1: a client that asks again on the connection has got the response before, whatever follows",
    patches: [{ file: "src/transport/node/port.ts", from: "fate.mark()();", to: "" }],
  },
  {
    name: "an HTTP/2 response that ends while other frames are written counts as broken",
    file: "test/transport/arrival.test.ts",
    test: "HTTP/2: a client that asks again on the connection and answers a ping has got the responses before",
    patches: [
      {
        file: "src/transport/node/http2-exchange.ts",
        from: "(stream.writableLength === 0 || (stream.closed && !stream.aborted && !isGone()))",
        to: "stream.writableLength === 0",
      },
    ],
  },
  {
    name: "of the answers to equal bodies only the newest is known",
    file: LOST,
    test: "over HTTP/1.1 equal requests at once, two of them reset and retried without more",
    patches: [
      {
        file: "src/gateway/given-answers.ts",
        from: "[...(this.#byBody.get(body) ?? []), given]",
        to: "[given]",
      },
    ],
  },
  {
    name: "what became of a response is lost with the process",
    file: LOST,
    test: "a response that a reset took is paid once, also when the gateway was killed before its retry",
    patches: [
      {
        file: "src/gateway/given-answers.ts",
        from: "const record = { ...given.record, isRetried, takes, delivery };",
        to: 'const record = { ...given.record, isRetried, takes, delivery: delivery === "lost" ? "flushed" : delivery } as const;',
      },
    ],
  },
  {
    name: "a client that counts its tries is not believed",
    file: LOST,
    test: "over HTTP/2 a response streamed that was lost is paid once when its client counts its tries",
    patches: [
      {
        file: "src/gateway/delivery.ts",
        from: 'if (isRetried || sign === "none") return false;',
        to: 'if (isRetried || sign !== "repeated") return false;',
      },
    ],
  },
  {
    name: "a client that counts its tries gets any answer that arrived",
    file: LOST,
    test: "a count of tries does not choose among several answers that arrived",
    patches: [
      {
        file: "src/gateway/delivery.ts",
        from: "only === undefined || others.length > 0",
        to: "only === undefined",
      },
    ],
  },
  {
    name: "a try that follows a refusal counts as one that follows a loss",
    file: LOST,
    test: "a count of tries behind a refusal says nothing of a lost response",
    patches: [
      { file: "src/gateway/http/gateway-http.ts", from: "saidRetries.refused(asker, cause);", to: "" },
    ],
  },
  {
    name: "a retry that is not streamed is another request than the streamed one",
    file: LOST,
    test: "`stream` may differ in a retry, and nothing else",
    patches: [
      {
        file: "src/gateway/http/request-hash.ts",
        from: "without: new Set(TELLING)",
        to: "without: new Set()",
      },
    ],
  },
  {
    name: "an answer that was read to its end at /events is given to an equal request",
    file: LOST,
    test: "an answer that was read to its end at /events is not given to an equal request",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: "responseOf(answer, source, log.read({ ...read, seenThrough }), retries.responding(answer))",
        to: "responseOf(answer, source, log.read({ ...read, seenThrough }), read.seenThrough === undefined ? retries.responding(answer) : { delivered: () => undefined, arrived: () => undefined })",
      },
    ],
  },
  {
    name: "an answer of an earlier process that was read to its end at /events is given to an equal request",
    file: LOST,
    test: "an answer that a kill cut off and its client read to its end at /events",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: "await retries.recall(kept?.responses ?? []);",
        to: "",
      },
    ],
  },
  {
    name: "a retry of a running answer is given what was rolled back before it came",
    file: "test/gateway/restarted-step.test.ts",
    test: "a retry reads a running answer without what was rolled back",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: "await take(memory?.lastEvent ?? Infinity);",
        to: "await take(memory === undefined ? Infinity : 0);",
      },
    ],
  },
  {
    name: "equal tool results at once are generated twice",
    file: LOST,
    test: "equal tool results at once are one answer, unless they come under another Idempotency-Key",
    patches: [
      {
        file: "src/gateway/delivery.ts",
        from: 'delivery === "open" && isContinued',
        to: 'delivery === "open" && isContinued && retrySign === "counted"',
      },
    ],
  },
  {
    name: "G7: a start resumes every answer that was cut off, whether or not a client wants it",
    file: "test/gateway/wanted.test.ts",
    test: "G7: asked once, killed twice, and no client: one call in all",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: 'if (record.state !== "parked") return [{ at: "sleeping"',
        to: 'if (record.state === "finished") return [{ at: "sleeping"',
      },
    ],
  },
  {
    name: "G7: an answer that is read at /events sleeps on, and is aborted with its conversation",
    file: "test/gateway/wanted.test.ts",
    test: "G7: after a restart /events takes up an answer that was cut off, for one call",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: "const here = await this.awake(principal, { streamId, fromEvent });",
        to: "const here = this.#parts.sessions.get(principal, streamId);",
      },
    ],
  },
  {
    name: "G7: an answer that was given up leaves its rows and its journal behind",
    file: "test/gateway/wanted.test.ts",
    test: "G7: an answer that was cut off ends without a call when its grace period is over",
    patches: [
      {
        file: "src/gateway/session-driver.ts",
        from: "await this.#resume({ abort: true });",
        to: `const { principal, answer } = this.record;
    await (await this.#context.clientOf(principal).client.abort(answer.streamId)).ended;
    await this.feed({ kind: "over" });`,
      },
    ],
  },
  {
    name: "a close does not wait for a client that returns to /events",
    file: "test/gateway/wanted.test.ts",
    test: "a gateway that closes while a client asks for its events",
    patches: [
      {
        file: "src/gateway/gateway.ts",
        from: "await this.#awaited(this.#returns.resume(call));",
        to: "await this.#returns.resume(call);",
      },
    ],
  },
  {
    name: "a retry leaves out the words behind its results",
    file: RESULTS,
    test: "killed at any write that two results with words cause",
    patches: [
      {
        file: "src/gateway/said-results.ts",
        from: "resultsOf(record.answered, results), said };",
        to: "resultsOf(record.answered, results), said: [] };",
      },
    ],
  },
  {
    // The chunks of a request mostly share a commit, which hides their order: here each has its own.
    name: "words are said after their results, and the model is asked without them",
    file: RESULTS,
    test: "killed at any write that two results with words cause",
    patches: [
      {
        file: "src/gateway/session-driver.ts",
        from: "await Promise.all(bodies.map((body) => stream.send(body)));",
        to: "for (const body of bodies.toReversed()) await stream.send(body);",
      },
    ],
  },
  {
    name: "/events waits for results that died with their process",
    file: "test/gateway/events.test.ts",
    test: "results that died with their process are not waited for",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: `session?.state.at === "resuming" && owesResults(session.state)`,
        to: "false",
      },
    ],
  },
  {
    name: "an answer whose stream is gone stands in the way of the next retry",
    file: "test/gateway/given-answers.test.ts",
    test: "an answer whose stream is gone is in no retry's way, in the next process either",
    patches: [
      {
        file: "src/gateway/retries.ts",
        from: "if (answer !== undefined) await given.remove(answer);",
        to: "",
      },
    ],
  },
  {
    name: "a retry whose answer cannot be had is a new request, and another answer to it was lost",
    file: "test/gateway/retries.test.ts",
    test: "a retry whose answer cannot be had any more gets the other one",
    patches: [
      {
        file: "src/gateway/gateway.ts",
        from: "return call.idempotencyKey === undefined ? this.#earlier(call) : undefined;",
        to: "return undefined;",
      },
    ],
  },
  {
    name: "a gateway that is being stopped begins turns",
    file: "test/gateway/bounds.test.ts",
    test: "G7: a gateway that is being closed begins no turn, and its client is told to retry",
    patches: [
      {
        file: "src/gateway/sessions.ts",
        from: `if (this.#closing.signal.aborted) throw new HoldfastError("unavailable", "the server is shutting down");`,
        to: "",
      },
    ],
  },
  {
    name: "a retry is answered when the log of its session is read to the pause, and the turn was stopped behind that",
    file: "test/gateway/resting.test.ts",
    test: "a retry that wakes a session is not answered before its log is read to the end",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: `session.state.at !== "resuming" && !session.memory.isBehind;`,
        to: `session.state.at !== "resuming";`,
      },
    ],
  },
  {
    name: "a session rests while its log is still being read",
    file: "test/gateway/resting.test.ts",
    test: "a retry that wakes a session is not answered before its log is read to the end",
    patches: [
      {
        file: "src/gateway/session-driver.ts",
        from: `if (kind === "rest" && this.#memory.isBehind) return this.#setClock(clock);`,
        to: "",
      },
    ],
  },
];
