/**
 * Two clocks by which a server notices that a turn stands still, whether or not a client is attached.
 *
 * - *no progress*: the turn runs, waits for nothing from its client, and nothing becomes durable.
 * - *unanswered*: the turn waits for an exec or a blob, and the client that writes the stream does not deal with it. A client's
 *   heartbeats name the execs that it has in hand: one of those may take as long as it likes. One that the client has received
 *   and does not name is lost.
 *
 * A query waits for a person, and a request whose client is not attached waits for that client: neither is a stall.
 *
 * The server only reports. What there is to do, a client does (`stall.ts`). Requests are known from the durable logs, in whatever
 * order these are read back after a restart.
 *
 * Invariant: what was reported as stalled is reported as resumed or ended; `early` is bounded (F2).
 */
import { nameOfRequest, type ServerRequest } from "../protocol/request-codec.ts";
import { unreachable } from "../protocol/assert.ts";
import {
  type Clock,
  ended,
  noticed,
  type OpenRequest,
  resumed,
  type StallNews,
  type Standstill,
} from "./standstill.ts";

export interface Options {
  /** As a client's clocks: models think long. */
  readonly progressMs: number;
  readonly unansweredMs: number;
}

export const DEFAULTS: Options = { progressMs: 60_000, unansweredMs: 30_000 };

/** Answers without a request are kept until the request is read: so many at most, since a client may invent them (F2). */
export const EARLY_MAX = 4_096;

export interface Asked extends ServerRequest {
  /** The event that asks. */
  readonly eventId: number;
}

/** The connection that writes the stream. */
export interface Writer {
  readonly sinceMs: number;
  /** The last event that was handed to it. */
  readonly cursor: number;
  /** The execs that it has in hand, as its last heartbeat says; undefined before the first. */
  readonly execIds: ReadonlySet<string> | undefined;
  /** There may be more of them than a heartbeat names. */
  readonly namesAll: boolean;
}

/** The stream as it is when the clocks are looked at. */
export interface Turn {
  /** Something was said, and the end is not in the log. */
  readonly isRunning: boolean;
  /** The client has said everything: it answers nothing more. */
  readonly isClosed: boolean;
  /** Execs up to this event were another writer's, and count as answered (D2). */
  readonly writerSinceEvent: number;
  readonly writer: Writer | undefined;
}

export interface State {
  readonly options: Options;
  /** When something last became durable; undefined before the first tick. */
  readonly movedMs: number | undefined;
  readonly tickedMs: number | undefined;
  /** What is unanswered, by name, oldest first. */
  readonly requests: ReadonlyMap<string, Asked & OpenRequest>;
  /** The names of requests that were answered and have not been read yet. */
  readonly early: ReadonlySet<string>;
  readonly standstills: readonly Standstill[];
}

export type Input =
  /** A chunk or an event became durable. */
  | { readonly kind: "moved"; readonly nowMs: number }
  /** Requests and answers in the durable logs: of a commit, or read back. */
  | {
      readonly kind: "logged";
      readonly asked: readonly Asked[];
      readonly answered: readonly ServerRequest[];
      readonly nowMs: number;
    }
  | { readonly kind: "tick"; readonly turn: Turn; readonly nowMs: number };

type Step = readonly [State, readonly StallNews[]];

/** Of nearly every stream, all the time. */
const NO_REQUESTS: State["requests"] = new Map();
const NO_NAMES: State["early"] = new Set();

export function init(options: Options): State {
  return {
    options,
    movedMs: undefined,
    tickedMs: undefined,
    requests: NO_REQUESTS,
    early: NO_NAMES,
    standstills: [],
  };
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "moved":
      return over({ ...state, movedMs: input.nowMs }, "no_progress", input.nowMs);
    case "logged":
      return settle(logged(state, input), undefined, input.nowMs);
    case "tick":
      return tick(state, input.turn, input.nowMs);
    default:
      return unreachable(input);
  }
}

/** This host lets go of the stream: what stands still, stands still elsewhere. */
export function letGo(state: State): readonly StallNews[] {
  return state.standstills.map(ended);
}

function logged(state: State, { asked, answered, nowMs }: Extract<Input, { kind: "logged" }>): State {
  const requests = new Map(state.requests);
  const early = new Set(state.early);
  for (const request of asked) {
    const name = nameOfRequest(request);
    if (!early.delete(name)) requests.set(name, { ...request, askedMs: nowMs });
  }
  for (const request of answered) {
    const name = nameOfRequest(request);
    if (!requests.delete(name) && early.size < EARLY_MAX) early.add(name);
  }
  return { ...state, requests, early };
}

function tick(before: State, turn: Turn, nowMs: number): Step {
  if (!turn.isRunning) return [{ ...before, standstills: [], requests: NO_REQUESTS }, letGo(before)];
  // A host that slept does not judge: what it did not see in the meantime is still on its way to it.
  const hasSlept = before.tickedMs === undefined || nowMs - before.tickedMs > before.options.unansweredMs;
  const state = { ...prune(before, turn), tickedMs: nowMs, movedMs: hasSlept ? nowMs : before.movedMs };
  const [settled, news] = settle(state, turn.writer, nowMs);
  if (hasSlept) return [settled, news];
  const found = [standing(settled, nowMs), unanswered(settled, turn.writer, nowMs)].flatMap((one) =>
    one === undefined || settled.standstills.some(({ clock }) => clock === one.clock) ? [] : [one],
  );
  const requests = [...settled.requests.values()];
  return [
    { ...settled, standstills: [...settled.standstills, ...found] },
    [...news, ...found.map((one) => noticed(one, requests, nowMs))],
  ];
}

/** What no client will answer any more is not waited for. */
function prune(state: State, { isClosed, writerSinceEvent }: Turn): State {
  const isGone = ({ kind, eventId }: Asked): boolean =>
    isClosed || (kind === "exec" && eventId <= writerSinceEvent);
  if (![...state.requests.values()].some(isGone)) return state;
  return { ...state, requests: new Map([...state.requests].filter(([, request]) => !isGone(request))) };
}

/** The stall of a request is over when it is answered, or when the client has it in hand after all. */
function settle(state: State, writer: Writer | undefined, nowMs: number): Step {
  const named = state.standstills.find(({ clock }) => clock === "unanswered")?.stuck;
  if (named === undefined) return [state, []];
  const request = state.requests.get(named);
  const isInHand = request?.kind === "exec" && writer?.execIds?.has(request.id) === true;
  return request === undefined || isInHand ? over(state, "unanswered", nowMs) : [state, []];
}

function standing(state: State, nowMs: number): Standstill | undefined {
  const { movedMs = nowMs, options, requests } = state;
  if (requests.size > 0 || nowMs - movedMs <= options.progressMs) return undefined;
  return { clock: "no_progress", stuck: "the turn", sinceMs: movedMs };
}

function unanswered(state: State, writer: Writer | undefined, nowMs: number): Standstill | undefined {
  if (writer === undefined) return undefined;
  const lost = [...state.requests.values()].find(
    (request) =>
      isLost(request, writer) &&
      nowMs - Math.max(request.askedMs, writer.sinceMs) > state.options.unansweredMs,
  );
  if (lost === undefined) return undefined;
  return { clock: "unanswered", stuck: nameOfRequest(lost), sinceMs: lost.askedMs };
}

function isLost(request: Asked, { cursor, execIds, namesAll }: Writer): boolean {
  // What was not handed to the client yet, it cannot know.
  if (cursor < request.eventId) return false;
  switch (request.kind) {
    case "exec":
      return execIds !== undefined && namesAll && !execIds.has(request.id);
    case "kv":
      return true;
    case "query":
      return false;
  }
}

function over(state: State, clock: Clock, nowMs: number): Step {
  const standstill = state.standstills.find((one) => one.clock === clock);
  if (standstill === undefined) return [state, []];
  const standstills = state.standstills.filter((one) => one !== standstill);
  return [{ ...state, standstills }, [resumed(standstill, nowMs)]];
}
