/** Mends of the gateway's HTTP, taken back. */
import type { Mutation } from "./mutation.ts";

const EVENTS = "test/gateway/events.test.ts";
const ALLOWANCES = "test/gateway/http/allowances.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a stream's events are those of its first answer, whichever is the latest",
    file: EVENTS,
    test: "a tool loop's second answer is what is told of a stream",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: "undefined : (session?.record ?? kept)?.answer;",
        to: "undefined : firstOf((session?.record ?? kept)?.answer);",
      },
      {
        file: "src/gateway/returns.ts",
        from: "export interface ReturnsParts",
        to: "function firstOf(answer: AnswerRef | undefined) {\n  return answer === undefined ? answer : { ...answer, fromEvent: 0 };\n}\n\nexport interface ReturnsParts",
      },
    ],
  },
  {
    name: "an id of another answer is taken for one of the latest",
    file: EVENTS,
    test: "a tool loop's second answer is what is told of a stream",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: "after !== undefined && after.answer !== answer.fromEvent",
        to: "after !== undefined && after.answer > answer.fromEvent",
      },
    ],
  },
  {
    name: "the frame of the role has the id of nothing",
    file: "test/gateway/openai/chunks.test.ts",
    test: "a heartbeat is an empty delta, and no progress",
    patches: [
      {
        file: "src/gateway/openai/chat-chunks.ts",
        from: "this.#placeId = framePlaceId(after);",
        to: 'this.#placeId = options.after === undefined ? "" : framePlaceId(after);',
      },
    ],
  },
  {
    name: "a resumed answer has the usage whether or not it was asked for",
    file: EVENTS,
    test: "a resumed answer has the usage when it was asked for, and only then",
    patches: [
      {
        file: "src/gateway/answer-ref.ts",
        from: "head: headOf(answer), deltas",
        to: "head: { ...headOf(answer), includeUsage: true }, deltas",
      },
    ],
  },
  {
    name: "an answer whose session is forgotten has no model",
    file: EVENTS,
    test: "the latest answer is told when its session is forgotten",
    patches: [
      {
        file: "src/gateway/stream-events.ts",
        from: "model = begun;",
        to: "model = begun.slice(0, 0);",
      },
    ],
  },
  {
    name: "the end of a turn that waited takes the place of its last answer",
    file: EVENTS,
    test: "the latest answer is told when its session is forgotten",
    patches: [
      {
        file: "src/gateway/stream-events.ts",
        from: "return last.fromEvent === named ? last : (asked ?? last);",
        to: "return last.fromEvent === named ? (asked ?? last) : last;",
      },
    ],
  },
  {
    name: "who comes back far behind a running answer waits for its end",
    file: EVENTS,
    test: "resumed after a kill, by who saw some of the attempt that died",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: "await take(memory?.lastEvent ?? Infinity);",
        to: "await take(Infinity);",
      },
    ],
  },
  {
    name: "who reads a running answer from the log does not count as a reader",
    file: EVENTS,
    test: "resumed after a kill, by who saw some of the attempt that died",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: "const leave = memory?.attend();",
        to: "const leave = memory?.holds(memory.fromEvent) === false ? memory.attend() : undefined;",
      },
    ],
  },
  {
    name: "E8: coming back to an answer uses up the API key's rate",
    file: ALLOWANCES,
    test: "E8: coming back costs nothing of the rate",
    patches: [
      {
        file: "src/gateway/http/allowances.ts",
        from: "return isReturning ? { ...now",
        to: "return !isReturning ? { ...now",
      },
    ],
  },
  {
    name: "E8: a dead connection holds its place until the system notices",
    file: ALLOWANCES,
    test: "over HTTP/1 a client that lost its connection goes on with its answer",
    patches: [
      {
        file: "src/gateway/http/gateway-http.ts",
        from: "reads.add(streamName(answer.streamId));",
        to: "reads.delete(streamName(answer.streamId));",
      },
    ],
  },
  {
    name: "a step that begins anew sends the head of a response that has nothing to show",
    file: "test/gateway/http/streaming.test.ts",
    test: "over HTTP/1 the head waits for the first content",
    patches: [
      {
        file: "src/gateway/http/streamed-answer.ts",
        from: 'if (early.value.kind !== "restarted") return { next };',
        to: 'if (early.value.kind === "restarted") return { next };',
      },
    ],
  },
  {
    name: "the head leaves after a second, and a failure after it is a 200",
    file: "test/gateway/http/manual.test.ts",
    test: "the gateway's limits in the operator's manual",
    patches: [
      { file: "src/gateway/http/http-limits.ts", from: "headHeldMs: 10_000,", to: "headHeldMs: 1_000," },
    ],
  },
  {
    name: "whatever the provider's status was, the client is told 503",
    file: "test/gateway/provider-status.test.ts",
    test: "streamed: a provider's refusal before the first word is the client's",
    patches: [
      {
        file: "src/gateway/openai/failures.ts",
        from: "return status >= 500 && status < 600 ? { ...row, status } : row;",
        to: "return row;",
      },
    ],
  },
  {
    name: "E8: a native client has no room beside the gateway's streams",
    file: "test/e2e/rough-use.test.ts",
    test: "E8: streams of who counts them itself are as many as it likes",
    patches: [{ file: "src/server/keeper.ts", from: " - (await uncountedOf(principal));", to: ";" }],
  },
  {
    name: "E8: the gateway's streams that have ended make room for a native client's",
    file: "test/e2e/rough-use.test.ts",
    test: "E8: streams that their opener counts itself, and that have ended, make no room for others",
    patches: [
      { file: "src/server/keeper.ts", from: " && state.end === undefined) count++", to: ") count++" },
    ],
  },
  {
    name: "E8: a stream of the gateway that rests takes a place of its principal",
    file: "test/e2e/rough-use.test.ts",
    test: "E8: streams that their opener counts itself take nothing from others while they rest",
    patches: [
      { file: "src/server/keeper.ts", from: "if (isUncounted) uncounted.set(id, hosted.name);", to: "" },
    ],
  },
  {
    name: "a turn that waits for its client is never let go of",
    file: "test/gateway/resting.test.ts",
    test: "a result wakes its session",
    patches: [{ file: "src/agent/turn-io.ts", from: "this.stream.waits(true);", to: "" }],
  },
  {
    name: "E8: a stream that comes back is counted as one that is being made",
    file: "test/e2e/rough-use.test.ts",
    test: "E8: streams that come back after a restart count once",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: "const claimed = isRead ?",
        to: "making.set(name.principal, (making.get(name.principal) ?? 0) + 1);\n      const claimed = isRead ?",
      },
    ],
  },
  {
    name: "E8: the gateway opens as many streams of a principal as are asked for",
    file: "test/cli/open-streams.test.ts",
    test: "E8: one more answer than --open-streams says is 429",
    patches: [
      {
        file: "src/gateway/sessions.ts",
        from: "&& this.#openOf(principal) >= openStreamsMax;",
        to: "&& this.#openOf(principal) >= openStreamsMax * 100;",
      },
    ],
  },
  {
    name: "E8: streams that are being opened do not count",
    file: "test/gateway/bounds.test.ts",
    test: "E8: streams that are being opened count as well",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: 'return at !== "ending" && at !== "gone";',
        to: 'return at !== "ending" && at !== "gone" && at !== "fresh";',
      },
    ],
  },
  {
    name: "E8: sessions that sleep after a restart do not count",
    file: "test/gateway/wanted.test.ts",
    test: "E8: answers that sleep after a restart count as open streams",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: 'return at !== "ending" && at !== "gone";',
        to: 'return at !== "ending" && at !== "gone" && at !== "sleeping";',
      },
    ],
  },
  {
    name: "E8: a session that waits for tools ends before one that sleeps",
    file: "test/gateway/wanted.test.ts",
    test: "E8: answers that sleep after a restart count as open streams",
    patches: [
      {
        file: "src/gateway/sessions.ts",
        from: "isAwake(a) - isAwake(b) ||",
        to: "isAwake(b) - isAwake(a) ||",
      },
    ],
  },
  {
    name: "E8: of those that wait for tools, the last makes room for a stream",
    file: "test/gateway/bounds.test.ts",
    test: "E8: a principal has as many streams as it may: the session that has waited longest makes room",
    patches: [
      {
        file: "src/gateway/sessions.ts",
        from: "|| a.record.updatedMs - b.record.updatedMs);",
        to: "|| b.record.updatedMs - a.record.updatedMs);",
      },
    ],
  },
  {
    name: "E8: an answer that the server has no room for hangs without a word",
    file: "test/gateway/bounds.test.ts",
    test: "E8: a server elsewhere that has no room",
    patches: [
      {
        file: "src/gateway/sessions.ts",
        from: 'return session.feed({ kind: "end", why: "no_room" });',
        to: "return;",
      },
    ],
  },
  {
    name: "E8: a session waits before there is room for it",
    file: "test/gateway/bounds.test.ts",
    test: "E8: what waits never exceeds its bounds, not even for a moment",
    patches: [
      {
        file: "src/gateway/session.ts",
        from: '[{ kind: "make_room" }, { kind: "save", when: "now" }]',
        to: '[{ kind: "save", when: "now" }, { kind: "make_room" }]',
      },
    ],
  },
  {
    name: "B5: an id that was never sent has the whole answer",
    file: EVENTS,
    test: "B5: an id that was never sent is refused",
    patches: [
      {
        file: "src/gateway/answer-log.ts",
        from: "if (!isAgain && seenThrough > last) throw placeAhead();",
        to: "",
      },
    ],
  },
  {
    name: "B5: an id that was never sent waits for what is never said",
    file: EVENTS,
    test: "B5: an id that was never sent is refused",
    patches: [
      {
        file: "src/gateway/returns.ts",
        from: "if (isHere && isReadBack && seenThrough > session.memory.lastEvent) throw placeAhead();",
        to: "",
      },
    ],
  },
  {
    name: "a client whose response broke between its head and its first frame is refused for good",
    file: "test/gateway/http/streaming.test.ts",
    test: "a stream's answer is resumed behind the last frame",
    patches: [
      {
        file: "src/gateway/http/gateway-http.ts",
        from: 'const isNew = given === "" || given === "0";',
        to: 'const isNew = lastEventIdOf(mounted.exchange) === undefined || given === "0";',
      },
    ],
  },
  {
    name: "a session makes room for a request that is refused",
    file: "test/gateway/bounds.test.ts",
    test: "a request that is too large is refused",
    patches: [{ file: "src/gateway/requests.ts", from: "checkSize(first.length, ", to: "checkSize(0, " }],
  },
];
