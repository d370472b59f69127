/**
 * Bugs on the provider's side (G1 to G6): how broken answers are continued, how held calls are read again, and what becomes of calls.
 *
 * Numbers of a run's events and the line itself are broken in `test/mutations`, where their tests are.
 */
import type { Mutant } from "./table.ts";

const ATTEMPTS = "src/turn/attempts.ts";
const JOIN = "src/turn/join.ts";
const PASS_OVER = "src/turn/pass-over.ts";
const OPEN_STEP = "src/turn/open-step.ts";
const STEP = "src/agent/model-step.ts";
const REQUESTS = "src/agent/step-requests.ts";
const TURN = "src/agent/turn.ts";
const RUN = "src/server/application-run.ts";
const SDK_MODEL = "src/agent/models/sdk-model.ts";
const CHUNKS = "src/agent/models/chat-chunks.ts";
const LINE_WIRE = "src/agent/models/line/line-wire.ts";
const STALL_CLOCKS = "src/agent/models/upstream/stall-clocks.ts";

export const PROVIDER_MUTANTS: readonly Mutant[] = [
  {
    name: "a host begins text anew that it has shown for good",
    breaks: "G1",
    patches: [
      {
        file: ATTEMPTS,
        from: "const isKept = isFinal && open.hasText && !wasCutOff(facts, open);",
        to: "const isKept = false;",
      },
    ],
  },
  {
    name: "white space behind the last word is forgotten at a join",
    breaks: "G1",
    patches: [
      {
        file: JOIN,
        from: "return { prompt, piece: text.slice(prompt.length) };",
        to: "return { prompt, piece: words.slice(prompt.length) };",
      },
    ],
  },
  {
    name: "white space that a provider trims is lost at a join",
    breaks: "G1",
    patches: [
      {
        file: JOIN,
        from: "const said = pieces.find((piece) => heard.startsWith(piece));",
        to: "const said = pieces.find((piece) => heard.startsWith(piece.trim()))?.trim();",
      },
    ],
  },
  {
    name: "a continuation is taken without its proof",
    breaks: "G1",
    patches: [
      {
        file: STEP,
        from: "join.isMade, join.take(part.text));",
        to: "join.isMade, join.take(part.text) ?? part.text);",
      },
      { file: STEP, from: "join.isMade, join.end()),", to: 'join.isMade, join.end() ?? ""),' },
    ],
  },
  {
    name: "an answer that is begun anew is joined where it begins with the letter that was cut off",
    breaks: "G1",
    patches: [
      { file: JOIN, from: "const PIECE_CHARS_MIN = 12;", to: "const PIECE_CHARS_MIN = 0;" },
      {
        file: JOIN,
        from: "return this.#unlessEcho([this.#beginning], heard, isAll, said.length);",
        to: "return this.#unlessEcho([], heard, isAll, said.length);",
      },
    ],
  },
  {
    name: "a gap in a held call is accepted",
    breaks: "G1",
    patches: [
      { file: PASS_OVER, from: "if (!words.startsWith(known)) return undefined;", to: "" },
      {
        file: PASS_OVER,
        from: "if (known.length === words.length) return",
        to: "if (known.length >= words.length) return",
      },
    ],
  },
  {
    name: "a held call is continued one character late",
    breaks: "G1",
    patches: [
      {
        file: PASS_OVER,
        from: "return words.slice(known.length);",
        to: "return words.slice(known.length + 1);",
      },
    ],
  },
  {
    name: "what a killed attempt has sent is not counted",
    breaks: "G2",
    patches: [
      {
        file: OPEN_STEP,
        from: "return Math.max(requestsBefore + UNTOLD_REQUESTS_MAX, requestsTold);",
        to: "return Math.max(requestsBefore, requestsTold);",
      },
    ],
  },
  {
    name: "another request leaves before the log has the count of those before it",
    breaks: "G2",
    patches: [{ file: REQUESTS, from: "if (!isFirst) await this.#options.untilDurable();", to: "" }],
  },
  {
    name: "a call of the generation before counts behind a join",
    breaks: "G3",
    patches: [
      {
        file: ATTEMPTS,
        from: `const begin = { how: "prefill", join, rollbackTo, continuation } as const;`,
        to: `const begin = { how: "prefill", join, rollbackTo: rollbackTo + 1000, continuation } as const;`,
      },
    ],
  },
  {
    name: "arguments of a call that broke off are joined with those of the next generation",
    breaks: "G3",
    patches: [
      {
        file: STEP,
        from: "const { updates, call } = this.#output.take(this.#named(part));",
        to: `const own = this.#named(part);
    const left = (this.#context.io.left ??= new Map());
    if (own.kind === "tool_call_delta") left.set(own.toolCallId, (left.get(own.toolCallId) ?? "") + own.args);
    const args = own.kind === "tool_call" ? left.get(own.toolCallId) : undefined;
    if (args !== undefined) left.delete(own.toolCallId);
    const { updates, call } = this.#output.take(args === undefined ? own : { ...own, args });`,
      },
    ],
  },
  {
    name: "a call is taken that was flushed from a body that broke off",
    breaks: "G3",
    patches: [
      {
        file: SDK_MODEL,
        from: "if (upstream.broken !== undefined && (part.kind",
        to: "if (false && (part.kind",
      },
      {
        file: CHUNKS,
        from: "if (this.#finish === undefined) this.#parts.push(",
        to: `if (this.#parts.some(({ type }) => type === "tool-call")) this.#finish ??= "tool_calls";
    if (this.#finish === undefined) this.#parts.push(`,
      },
    ],
  },
  {
    name: "a ping counts as content",
    breaks: "G5",
    patches: [
      {
        file: STALL_CLOCKS,
        from: "return { ...state, byteMs: nowMs, isPinged: true, pings: true };",
        to: "return { ...state, contentMs: nowMs, resumedMs: nowMs, byteMs: nowMs, isPinged: true, pings: true };",
      },
    ],
  },
  {
    name: "a turn that is aborted lets its call run on",
    breaks: "G4",
    patches: [
      {
        file: RUN,
        from: `this.#abort.abort(new HoldfastError("stream_ended", MESSAGES.stream_ended));`,
        to: "this.#abort.abort(new LetGo(MESSAGES.stream_ended));",
      },
    ],
  },
  {
    name: "a host that only lets its stream go cancels its call",
    breaks: "G6",
    patches: [
      {
        file: RUN,
        from: "new LetGo(message)",
        to: `new HoldfastError("unavailable", message)`,
      },
    ],
  },
  {
    name: "a step that was cut off does not look for its held call",
    breaks: "G6",
    patches: [
      {
        file: ATTEMPTS,
        from: "if (mayBeHeld && open.attaches < ATTACHES_MAX) {",
        to: "if (mayBeHeld && open.attaches < 0) {",
      },
    ],
  },
  {
    name: "each host names its calls in its own way",
    breaks: "G6",
    patches: [
      {
        file: TURN,
        from: "lasting.secretName(requestText(place, request));",
        to: "lasting.secretName(`${requestText(place, request)}/${lasting.hostEpoch}`);",
      },
    ],
  },
  {
    name: "two hosts read one call",
    breaks: "D1",
    patches: [
      {
        file: TURN,
        from: "return { nameOf, hostEpoch: lasting.hostEpoch, stream",
        to: "return { nameOf, hostEpoch: 1, stream",
      },
    ],
  },
  {
    name: "a host that was fenced cancels the call of the one that took its place",
    breaks: "D1",
    patches: [{ file: LINE_WIRE, from: "return hostEpoch < call.epoch;", to: "return false;" }],
  },
];
