/**
 * One call through `holdfast/fetch`: what follows from each thing that happens to it. Pure: `driver.ts` sends, reads and waits.
 *
 * | at      | what it is                                         | a break is answered by           |
 * | ------- | -------------------------------------------------- | -------------------------------- |
 * | asking  | no head, or no whole body of an unstreamed answer  | the POST again, under its key    |
 * | reading | the caller has the head of a streamed answer       | a GET of the answer behind `lastId` |
 * | over    | the caller has everything, or an error             |                                  |
 *
 * Invariant: each frame of an answer is passed on at most once and in order, and a call ends once: whole, refused, failed or left.
 */

/** Codes of the gateway that mean: ask for it again. Every other error is the answer. */
export const RETRY_CODES: readonly string[] = [
  "shutting_down",
  "answer_interrupted",
  "unavailable",
  "overloaded",
];

/** The last frame of an answer, by chat, by Responses and by Messages. */
const LAST = /^(?:\[DONE\]$|\{"type":"(?:response\.(?:completed|incomplete|failed)|message_stop)")/;

/** Of a proxy whose server is being started again; the gateway's own have a code. */
const PROXY_STATUSES: ReadonlySet<number> = new Set([502, 503, 504]);

/** The request under this key cannot be answered any more: another try needs another key. */
const SPENT_STATUSES: ReadonlySet<number> = new Set([409, 410]);

const BACKOFF_MS = 100;
const BACKOFF_MAX_MS = 5_000;

/** About a minute. */
const STOP_TRIES_MAX = 18;

/** The gateway says something at least every 15 s; a connection without a word for so long is dead. */
export const SILENCE_MS = 45_000;

export interface State {
  readonly at: "asking" | "reading" | "over";
  /** How an over call left its answer: `unfinished` means that the same request again may be its retry. */
  readonly left: "whole" | "unfinished" | "spent" | undefined;
  /** The last frame that the caller has. */
  readonly lastId: string | undefined;
  readonly hasContent: boolean;
  /** Breaks in a row. */
  readonly breaks: number;
  /** When the gateway was heard last, or the call began. */
  readonly heardMs: number;
  readonly patienceMs: number;
}

/** What an error says; `code` is undefined when it is not the gateway's. */
export interface Refusal {
  readonly status: number;
  readonly code: string | null | undefined;
  readonly retryAfterMs: number;
}

export type Input =
  | { readonly kind: "streamed" | "unstreamed" | "waited" | "read_whole" }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly jitter: number; readonly nowMs: number }
  | {
      readonly kind: "frame";
      readonly id: string | undefined;
      readonly data: string;
      readonly jitter: number;
      readonly nowMs: number;
    }
  | { readonly kind: "broken"; readonly jitter: number; readonly nowMs: number }
  /** The caller aborted, or cancelled the body. */
  | { readonly kind: "left" };

/** The one thing to do next. */
export type Next =
  | { readonly kind: "post" | "get" | "hand_over" | "read_body" | "read_frame" | "pass" }
  | { readonly kind: "wait"; readonly delayMs: number }
  /** The last frame, or the whole body. */
  | { readonly kind: "end" }
  /** The refusal is the caller's. */
  | { readonly kind: "refuse" }
  /** What broke last is the caller's. */
  | { readonly kind: "fail" }
  | { readonly kind: "stop" }
  | { readonly kind: "nothing" };

type Step = readonly [State, Next];

/** `jitter` of the inputs is in [0, 1). */
export function begin(patienceMs: number, nowMs: number): State {
  const nothing = { left: undefined, lastId: undefined, hasContent: false, breaks: 0 };
  return { at: "asking", ...nothing, patienceMs, heardMs: nowMs };
}

export function step(state: State, input: Input): Step {
  if (state.at === "over") return [state, { kind: "nothing" }];
  switch (input.kind) {
    case "streamed":
      return state.at === "asking"
        ? [{ ...state, at: "reading" }, { kind: "hand_over" }]
        : [state, { kind: "read_frame" }];
    case "unstreamed":
      return [state, { kind: "read_body" }];
    case "read_whole":
      return [over(state, "whole"), { kind: "end" }];
    case "frame":
      return heard(state, input);
    case "waited":
      return [state, { kind: state.at === "asking" ? "post" : "get" }];
    case "broken":
      return broken(state, input, 0, { kind: "fail" });
    case "refused":
      return refused(state, input);
    case "left":
      return state.hasContent
        ? [over(state, "spent"), { kind: "stop" }]
        : [over(state, "unfinished"), { kind: "nothing" }];
  }
}

function over(state: State, left: State["left"]): State {
  return { ...state, at: "over", left };
}

function heard(state: State, frame: Extract<Input, { kind: "frame" }>): Step {
  const { id = state.lastId, data, nowMs } = frame;
  if (LAST.test(data)) return [over(state, "whole"), { kind: "end" }];
  const code = errorCodeIn(data);
  if (code !== undefined) {
    return isRetried(code)
      ? broken(state, frame, 0, { kind: "fail" })
      : [over(state, "unfinished"), { kind: "end" }];
  }
  const hasContent = state.hasContent || isContent(data);
  return [{ ...state, lastId: id, hasContent, breaks: 0, heardMs: nowMs }, { kind: "pass" }];
}

function refused(state: State, input: Extract<Input, { kind: "refused" }>): Step {
  const { status, code, retryAfterMs } = input.refusal;
  const isForLater = code === undefined ? PROXY_STATUSES.has(status) : isRetried(code);
  // In the middle of an answer only an error of the gateway can be reported as one.
  const last: Next = { kind: state.at === "reading" && code === undefined ? "fail" : "refuse" };
  if (isForLater) return broken(state, input, retryAfterMs, last);
  return [over(state, SPENT_STATUSES.has(status) ? "spent" : "unfinished"), last];
}

function isRetried(code: string | null): boolean {
  return code !== null && RETRY_CODES.includes(code);
}

/** Tries again after a while, or gives up with `last`. */
function broken(
  state: State,
  { jitter, nowMs }: { readonly jitter: number; readonly nowMs: number },
  leastMs: number,
  last: Next,
): Step {
  const delayMs = Math.max(leastMs, backoffMs(state.breaks, jitter));
  if (nowMs + delayMs > state.heardMs + state.patienceMs) return [over(state, "unfinished"), last];
  return [
    { ...state, breaks: state.breaks + 1 },
    { kind: "wait", delayMs },
  ];
}

/** Between half of it and all of it: clients that lost the same server do not return at the same moment. */
function backoffMs(breaks: number, jitter: number): number {
  return Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** breaks) * (0.5 + jitter / 2);
}

/** When to say again that an answer is not wanted; undefined when it was heard, or a server has had the time to be started. */
export function stopAgainMs(tries: number, status: number | undefined, jitter: number): number | undefined {
  const isHeard = status !== undefined && status < 500;
  return isHeard || tries > STOP_TRIES_MAX ? undefined : backoffMs(tries, jitter);
}

/** Of a frame that is an error: its code; undefined for every other frame. */
function errorCodeIn(data: string): string | null | undefined {
  return /^\{"(?:type":")?error"/.test(data) ? errorCodeOf(data) : undefined;
}

/** The code of an error in OpenAI's shape; undefined when the text is none. */
export function errorCodeOf(text: string): string | null | undefined {
  const error = memberOf(parsed(text), "error");
  if (error === undefined) return undefined;
  const code = memberOf(error, "code");
  return typeof code === "string" ? code : null;
}

/** More than the role, the beginning of a response or a message, and a heartbeat. */
function isContent(data: string): boolean {
  const [, event] = /^\{"type":"(?:response\.)?(\w+)/.exec(data) ?? [];
  if (event !== undefined) return !/^(?:created|in_progress|message_start|ping)$/.test(event);
  const choices = memberOf(parsed(data), "choices");
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const delta = memberOf(choice, "delta");
  const isSaid = typeof delta === "object" && delta !== null;
  const said = isSaid ? Object.entries(delta).filter(([name]) => name !== "role") : [];
  return [...said, ["", memberOf(choice, "finish_reason")]].some(([, value]) => Boolean(value));
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
