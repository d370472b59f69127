/**
 * Three clocks by which a client notices that a stream stands still.
 *
 * - *silence*: nothing at all was received; the connection is likely dead without knowing it.
 * - *no progress*: heartbeats come, but no event and no ack, while the server owes us something.
 * - *unanswered*: the server asked this client for something (an exec, a blob, a query), and the client does not deal with it.
 *
 * Each first reports what is stuck and probes, then reconnects. Heartbeats feed the first clock only: they are never progress
 * (B7). An exec that runs is not stuck, however long it takes, and neither is a question that waits for a person: the driver
 * says that such a request is *taken up*. A blob waits for no person, so only its answer takes its request off the clock.
 *
 * Invariant: while attached, every clock that runs out leads to an action (F4); what was reported as stalled is reported as
 * resumed or ended.
 */
import { isSameRequest, nameOfRequest, type ServerRequest } from "../protocol/request-codec.ts";
import { unreachable } from "../protocol/assert.ts";
import {
  type Clock,
  noticed,
  type OpenRequest,
  resumed,
  type Standstill,
  type StallNews,
} from "./standstill.ts";

export interface Options {
  /** How many missed heartbeats are silence. */
  readonly heartbeatsMissedMax: number;
  /** Models think long; a reconnect is cheap but not free. */
  readonly progressMs: number;
  readonly unansweredMs: number;
}

export const DEFAULTS: Options = { heartbeatsMissedMax: 3, progressMs: 60_000, unansweredMs: 30_000 };

/** A request that this client has not taken up. */
interface Waiting extends OpenRequest {
  /** The clock: an attach starts it anew. */
  readonly sinceMs: number;
}

interface Noticed extends Standstill {
  /** Noticed on the present connection: what a user interface shows. */
  readonly isCurrent: boolean;
}

export interface State {
  readonly options: Options;
  readonly attached: boolean;
  readonly silenceMs: number;
  readonly heardMs: number;
  readonly progressMs: number;
  /** The last event or ack, over reconnects. */
  readonly movedMs: number;
  /** The server owes an ack or an event. */
  readonly owed: boolean;
  /** What the server asked and is not taken up, oldest first. */
  readonly unanswered: readonly Waiting[];
  /** Those that were reported and are not over; one per clock at most. */
  readonly standstills: readonly Noticed[];
}

export type Input =
  | { readonly kind: "attached"; readonly heartbeatIntervalMs: number; readonly nowMs: number }
  | { readonly kind: "detached" }
  /** Any frame. */
  | { readonly kind: "heard"; readonly nowMs: number }
  /** An event taken or a chunk acknowledged. */
  | { readonly kind: "progress"; readonly nowMs: number }
  | { readonly kind: "owed"; readonly owed: boolean; readonly nowMs: number }
  | { readonly kind: "asked"; readonly request: ServerRequest; readonly nowMs: number }
  /** Answered, or in the hands of a tool or a person. */
  | { readonly kind: "taken_up"; readonly request: ServerRequest }
  | { readonly kind: "tick"; readonly nowMs: number };

export type Effect =
  | { readonly kind: "probe" }
  | { readonly kind: "report"; readonly news: StallNews }
  | { readonly kind: "reconnect"; readonly clock: Clock; readonly stuck: string };

type Step = readonly [State, readonly Effect[]];

export function init(options: Options): State {
  return {
    options,
    attached: false,
    silenceMs: Number.POSITIVE_INFINITY,
    heardMs: 0,
    progressMs: 0,
    movedMs: 0,
    owed: false,
    unanswered: [],
    standstills: [],
  };
}

/** What stands still on the present connection, for a user interface. */
export function stuckNow(state: State): string | undefined {
  return state.standstills.find(({ isCurrent }) => isCurrent)?.stuck;
}

export function step(state: State, input: Input): Step {
  switch (input.kind) {
    case "attached": {
      const silenceMs = input.heartbeatIntervalMs * state.options.heartbeatsMissedMax;
      const { nowMs } = input;
      const unanswered = state.unanswered.map((request) => ({ ...request, sinceMs: nowMs }));
      const fresh = { ...state, attached: true, silenceMs, heardMs: nowMs, progressMs: nowMs, unanswered };
      const standstills = state.standstills.map((one) => ({ ...one, isCurrent: false }));
      return over({ ...fresh, standstills }, ["silence"], nowMs);
    }
    case "detached":
      return [{ ...state, attached: false }, []];
    case "heard":
      return over({ ...state, heardMs: input.nowMs }, ["silence"], input.nowMs);
    case "progress": {
      const { nowMs } = input;
      const moved = { ...state, heardMs: nowMs, progressMs: nowMs, movedMs: nowMs };
      return over(moved, ["silence", "no_progress"], nowMs);
    }
    case "owed":
      return owed(state, input.owed, input.nowMs);
    case "asked": {
      const { request, nowMs } = input;
      if (state.unanswered.some((one) => isSameRequest(one, request))) return [state, []];
      const waiting = { ...request, askedMs: nowMs, sinceMs: nowMs };
      return [{ ...state, unanswered: [...state.unanswered, waiting] }, []];
    }
    case "taken_up":
      return [
        { ...state, unanswered: state.unanswered.filter((one) => !isSameRequest(one, input.request)) },
        [],
      ];
    case "tick":
      return state.attached ? tick(state, input.nowMs) : [state, []];
    default:
      return unreachable(input);
  }
}

/** Comes after every step of the client: also the moment to see that a request was taken up. */
function owed(state: State, isOwed: boolean, nowMs: number): Step {
  if (isOwed === state.owed && state.standstills.length === 0) return [state, []];
  const named = state.standstills.find(({ clock }) => clock === "unanswered")?.stuck;
  const isTakenUp = !state.unanswered.some((request) => nameOfRequest(request) === named);
  const [next, effects] = isTakenUp ? over(state, ["unanswered"], nowMs) : [state, []];
  if (isOwed === state.owed) return [next, effects];
  // The clock starts when something becomes owed, not when the last thing happened.
  const changed = { ...next, owed: isOwed, progressMs: nowMs, movedMs: nowMs };
  const [settled, more] = isOwed ? [changed, []] : over(changed, ["no_progress"], nowMs);
  return [settled, [...effects, ...more]];
}

function tick(state: State, nowMs: number): Step {
  const standstills = new Map(state.standstills.map((one) => [one.clock, one]));
  const effects: Effect[] = [];
  let isNew = false;
  for (const { clock, stuck, limitMs, sinceMs, stillSinceMs } of clocksOf(state)) {
    if (nowMs - sinceMs <= limitMs) continue;
    const known = standstills.get(clock);
    const standstill = { clock, stuck, sinceMs: stillSinceMs, ...known, isCurrent: true };
    standstills.set(clock, standstill);
    if (known === undefined) {
      effects.push({ kind: "report", news: noticed(standstill, state.unanswered, nowMs) });
    }
    if (nowMs - sinceMs > 2 * limitMs) {
      effects.push({ kind: "reconnect", clock, stuck });
      return [{ ...state, attached: false, standstills: [...standstills.values()] }, effects];
    }
    isNew ||= known?.isCurrent !== true;
  }
  if (isNew) effects.push({ kind: "probe" });
  return [{ ...state, standstills: [...standstills.values()] }, effects];
}

/** The clocks that run, the gravest first. */
function clocksOf(state: State) {
  const { options, unanswered } = state;
  const oldest = unanswered[0];
  const silence = {
    clock: "silence",
    stuck: "the connection",
    limitMs: state.silenceMs,
    sinceMs: state.heardMs,
    stillSinceMs: state.heardMs,
  } as const;
  const progress = {
    clock: "no_progress",
    stuck: "the answer",
    limitMs: options.progressMs,
    sinceMs: state.progressMs,
    stillSinceMs: state.movedMs,
  } as const;
  const answer =
    oldest === undefined
      ? undefined
      : ({
          clock: "unanswered",
          stuck: nameOfRequest(oldest),
          limitMs: options.unansweredMs,
          sinceMs: oldest.sinceMs,
          stillSinceMs: oldest.askedMs,
        } as const);
  return [silence, ...(state.owed ? [progress] : []), ...(answer === undefined ? [] : [answer])];
}

function over(state: State, clocks: readonly Clock[], nowMs: number): Step {
  const { standstills } = state;
  // Nearly always nothing stands still.
  if (standstills.length === 0) return [state, []];
  const done = clocks.flatMap((clock) => standstills.filter((one) => one.clock === clock));
  if (done.length === 0) return [state, []];
  const left = standstills.filter((one) => !done.includes(one));
  return [
    { ...state, standstills: left },
    done.map((one) => ({ kind: "report", news: resumed(one, nowMs) })),
  ];
}
