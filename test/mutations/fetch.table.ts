/** Rules of `holdfast/fetch`, broken one by one. */
import type { Mutation } from "./mutation.ts";

const CALL = "src/fetch/call.ts";
const DRIVER = "src/fetch/driver.ts";
const INDEX = "src/fetch/index.ts";
const FRAMES = "src/fetch/frames.ts";
const MACHINE = "test/fetch/call.test.ts";
const RULES = "test/fetch/rules.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a foreign server is sent the headers of the gateway",
    file: RULES,
    test: "other servers, other paths, other methods",
    patches: [
      {
        file: INDEX,
        from: "!bases.some((base) => url.startsWith(base))",
        to: "!bases.some((base) => url.startsWith(new URL(base).origin))",
      },
    ],
  },
  {
    name: "an SDK's retry gets another key than the call that failed",
    file: RULES,
    test: "leaving before it only detaches",
    patches: [
      { file: INDEX, from: `if (left === "unfinished") keys.leave`, to: `if (left === "spent") keys.leave` },
    ],
  },
  {
    name: "another sample gets the key of an answer that was whole",
    file: RULES,
    test: "leaving before it only detaches",
    patches: [{ file: INDEX, from: `if (left === "unfinished") keys.leave`, to: "keys.leave" }],
  },
  {
    name: "two equal calls at once share a key",
    file: MACHINE,
    test: "a key that was left is given once",
    patches: [
      {
        file: "src/fetch/keys.ts",
        from: "if (rest.length > 0) this.#left.set(request, rest);",
        to: "this.#left.set(request, usable);",
      },
    ],
  },
  {
    name: "a dead connection is waited for, because the request behind it was bytes",
    file: "test/fetch/silence.test.ts",
    test: "a streamed request as bytes",
    patches: [
      {
        file: DRIVER,
        from: "isStreamed ? this.#unlessSilent(sent) : sent",
        to: 'isStreamed && typeof init.body === "string" ? this.#unlessSilent(sent) : sent',
      },
    ],
  },
  {
    name: "a resumed answer begins with its role again",
    file: "test/fetch/cuts.test.ts",
    test: "openai SDK by chat, streamed",
    patches: [
      {
        file: DRIVER,
        from: 'const more = lastId === undefined ? {} : { "last-event-id": lastId };',
        to: "const more = lastId === undefined ? {} : {};",
      },
    ],
  },
  {
    name: "the heartbeat's id is not remembered, and what came before it is said twice",
    file: MACHINE,
    test: "behind the head it is answered by a GET behind the last frame",
    patches: [{ file: CALL, from: "lastId: id, hasContent", to: "hasContent" }],
  },
  {
    name: "leaving before the first content stops the answer, which may have been a timeout",
    file: RULES,
    test: "leaving before it only detaches",
    patches: [
      { file: CALL, from: "return state.hasContent\n", to: "return !state.hasContent || state.hasContent\n" },
    ],
  },
  {
    name: "a user who stops pays for the rest of the answer",
    file: RULES,
    test: "leaving behind the first content stops the answer",
    patches: [{ file: DRIVER, from: `if (kind === "stop") void this.#stop();`, to: "" }],
  },
  {
    name: "leaving behind [DONE] stops an answer that is whole",
    file: MACHINE,
    test: "[DONE] ends it, and nothing counts behind it",
    patches: [
      {
        file: CALL,
        from: `if (state.at === "over") return [state, { kind: "nothing" }];`,
        to: `if (state.at === "over" && input.kind !== "left") return [state, { kind: "nothing" }];`,
      },
    ],
  },
  {
    name: "a 4xx is tried again",
    file: MACHINE,
    test: 'the codes that mean "ask again" are those of the gateway',
    patches: [
      {
        file: CALL,
        from: "PROXY_STATUSES.has(status) : isRetried(code)",
        to: "PROXY_STATUSES.has(status) : status >= 400",
      },
    ],
  },
  {
    name: "an error within the answer is tried again whatever it says",
    file: MACHINE,
    test: 'the codes that mean "ask again" are those of the gateway',
    patches: [{ file: CALL, from: "return isRetried(code)\n", to: "return code !== undefined\n" }],
  },
  {
    name: "a stopped answer's key is given to the same question again",
    file: RULES,
    test: "a user who stops and asks the same again gets another answer",
    patches: [
      {
        file: CALL,
        from: `[over(state, "spent"), { kind: "stop" }]`,
        to: `[over(state, "unfinished"), { kind: "stop" }]`,
      },
    ],
  },
  {
    name: "retry-after is not kept to",
    file: MACHINE,
    test: "it waits longer from break to break, never less than retry-after",
    patches: [{ file: CALL, from: "Math.max(leastMs, backoffMs", to: "Math.max(0, backoffMs" }],
  },
  {
    name: "patience has no end",
    file: MACHINE,
    test: "it waits longer from break to break, never less than retry-after",
    patches: [
      { file: CALL, from: "if (nowMs + delayMs > state.heardMs + state.patienceMs)", to: "if (nowMs < 0)" },
    ],
  },
  {
    name: "a stop that meets a server which is being started is said once",
    file: RULES,
    test: "a stop that meets a server that is being started is said again",
    patches: [
      {
        file: CALL,
        from: "return isHeard || tries > STOP_TRIES_MAX ? undefined",
        to: "return isHeard || tries >= 0 ? undefined",
      },
    ],
  },
  {
    name: "a page of another origin cannot read where its answer continues",
    file: "test/browser/fetch.test.ts",
    test: "a page of another origin",
    patches: [
      {
        file: "src/server/http/origin.ts",
        from: "x-holdfast-resume, x-holdfast-stream",
        to: "x-holdfast-stream",
      },
    ],
  },
  {
    name: "half a frame is passed on",
    file: "test/fetch/frames.test.ts",
    test: "only whole frames are seen",
    patches: [{ file: FRAMES, from: 'this.#rest = texts.pop() ?? "";', to: 'this.#rest = "";' }],
  },
  {
    name: "half a letter is passed on",
    file: "test/fetch/frames.test.ts",
    test: "only whole frames are seen",
    patches: [{ file: FRAMES, from: "decode(value, { stream: true })", to: "decode(value)" }],
  },
  {
    name: "a response that is collected stops its answer",
    file: "test/fetch/garbage.test.ts",
    test: "garbage collection of a streamed response, in its text, stops nothing",
    patches: [
      {
        file: "src/fetch/driver.ts",
        from: "const response = new Response(body, { status, statusText, headers });",
        to: "const response = new Response(body, { status, statusText, headers });\n    GONE.register(response, () => this.#leave());",
      },
      {
        file: "src/fetch/driver.ts",
        from: "const NOTHING: Next",
        to: "const GONE = new FinalizationRegistry<() => void>((leave) => leave());\n\nconst NOTHING: Next",
      },
    ],
  },
  {
    name: "a page that goes away stops its answer",
    file: "test/browser/fetch.test.ts",
    test: "a page that goes to another address in mid-answer stops nothing",
    patches: [
      {
        file: "src/gateway/http/gateway-http.ts",
        from: "call.onOver((isWhole) => answer.delivered(isWhole && progress.isComplete));",
        to: "call.onOver((isWhole) => (isWhole ? answer.delivered(progress.isComplete) : void answers.stop({ principal: 'alice', streamId })));",
      },
    ],
  },
  {
    name: "a pause that the gateway gives in seconds is taken for milliseconds",
    file: RULES,
    test: "retry-after is kept to",
    patches: [
      {
        file: "src/fetch/driver.ts",
        from: 'Number(headers.get("retry-after")) * 1_000',
        to: 'Number(headers.get("retry-after"))',
      },
    ],
  },
];
