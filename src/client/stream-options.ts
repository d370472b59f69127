/**
 * The options of a stream in detail: what the application leaves out, at any depth, is as the defaults say.
 *
 * Everything is checked before a stream begins. Its machine gets complete options and never looks again, so a switch that
 * changes while a client runs counts for the streams that begin after it.
 */
import type * as budget from "../core/budget.ts";
import { DEFAULTS, type Options } from "../core/client-state.ts";
import type * as retry from "../core/retry.ts";
import type * as stall from "../core/stall.ts";
import { checkNames, checkWhole, flag, numberFrom, timerMs } from "./option-checks.ts";

/** Each may be left out, and so may each part of `retry`, of its `budget`, and of `stall`. */
export type StreamSettings = Some<Omit<Options, "retry" | "stall">> & {
  /** Off: the stream's journal lives in memory, and a restart forgets it. On by default; means nothing to a client without a disk. */
  readonly persistence?: boolean | undefined;
  readonly retry?: RetrySettings | undefined;
  readonly stall?: Some<stall.Options> | undefined;
};

type RetrySettings = Some<Omit<retry.Options, "budget">> & {
  readonly budget?: Some<budget.Options> | undefined;
};

type Some<All> = { readonly [Key in keyof All]?: All[Key] | undefined };

/** Throws `invalid_argument`, with the option's name, when one is wrong or there is none of that name. */
export function completeStreamOptions(given: StreamSettings = {}): Options {
  checkNames("stream", given, { ...DEFAULTS, persistence: true });
  flag("stream.persistence", given.persistence, true);
  const { heartbeatIntervalMs, attachTimeoutMs, retryLookbackWindowMs, reliable, allowDegraded } = given;
  return {
    retry: completeRetry(given.retry),
    stall: completeStall(given.stall),
    heartbeatIntervalMs: timerMs(
      "stream.heartbeatIntervalMs",
      heartbeatIntervalMs,
      DEFAULTS.heartbeatIntervalMs,
    ),
    attachTimeoutMs: timerMs("stream.attachTimeoutMs", attachTimeoutMs, DEFAULTS.attachTimeoutMs),
    retryLookbackWindowMs: numberFrom(
      "stream.retryLookbackWindowMs",
      retryLookbackWindowMs,
      0,
      DEFAULTS.retryLookbackWindowMs,
    ),
    reliable: flag("stream.reliable", reliable, DEFAULTS.reliable),
    allowDegraded: flag("stream.allowDegraded", allowDegraded, DEFAULTS.allowDegraded),
  };
}

/** Everything that is decided when a stream begins. */
export interface StreamPlan {
  readonly options: Options;
  /** Whether its journal goes to disk. */
  readonly persistence: boolean;
}

/** The plan for each new stream, as the settings are at that moment. Throws at once when they are wrong from the beginning. */
export function streamPlans(
  settings: StreamSettings | (() => StreamSettings) | undefined,
  onBug: (bug: unknown) => void,
): () => StreamPlan {
  const planOf = (given: StreamSettings = {}): StreamPlan => ({
    options: completeStreamOptions(given),
    persistence: given.persistence ?? true,
  });
  if (typeof settings !== "function") {
    const plan = planOf(settings);
    return () => plan;
  }
  let lastGood = planOf(settings());
  return () => {
    try {
      lastGood = planOf(settings());
    } catch (cause) {
      onBug(cause);
    }
    return lastGood;
  };
}

/** The switches that a client has beside `stream`; what they say wins over what is said there. */
export interface Switches {
  readonly reliable?: boolean | undefined;
  readonly persistence?: boolean | undefined;
  readonly retryLookbackWindowMs?: number | undefined;
  readonly allowDegraded?: boolean | undefined;
}

export interface SwitchedOptions extends Switches {
  readonly stream?: StreamSettings | (() => StreamSettings) | undefined;
}

/** What a client says beside `stream`, over what `stream` says, over `byDefault`. A function where `stream` is one. */
export function switchedSettings(
  options: SwitchedOptions,
  byDefault: Switches = {},
): StreamSettings | (() => StreamSettings) {
  const { stream, reliable, persistence, retryLookbackWindowMs, allowDegraded } = options;
  checkSwitches(options);
  const switched = (said: StreamSettings = {}): StreamSettings => {
    completeStreamOptions(said);
    return {
      ...said,
      reliable: reliable ?? said.reliable ?? byDefault.reliable,
      persistence: persistence ?? said.persistence ?? byDefault.persistence,
      retryLookbackWindowMs:
        retryLookbackWindowMs ?? said.retryLookbackWindowMs ?? byDefault.retryLookbackWindowMs,
      allowDegraded: allowDegraded ?? said.allowDegraded ?? byDefault.allowDegraded,
    };
  };
  return typeof stream === "function" ? () => switched(stream()) : switched(stream);
}

/** False when no stream of this client will ever have a journal on disk. */
export function mayPersist(options: SwitchedOptions, byDefault: Switches = {}): boolean {
  const { persistence, stream } = options;
  if (persistence !== undefined) return persistence;
  return typeof stream === "function" || (stream?.persistence ?? byDefault.persistence ?? true);
}

function checkSwitches({ reliable, persistence, retryLookbackWindowMs, allowDegraded }: Switches): void {
  flag("reliable", reliable, true);
  flag("persistence", persistence, true);
  flag("allowDegraded", allowDegraded, true);
  checkWhole("retryLookbackWindowMs", retryLookbackWindowMs, 0);
}

function completeRetry(given: RetrySettings = {}): retry.Options {
  const { retry: byDefault } = DEFAULTS;
  checkNames("stream.retry", given, byDefault);
  return {
    baseMs: numberFrom("stream.retry.baseMs", given.baseMs, 0, byDefault.baseMs),
    capMs: timerMs("stream.retry.capMs", given.capMs, byDefault.capMs),
    budget: completeBudget(given.budget),
    giveUpAfterMs: numberFrom("stream.retry.giveUpAfterMs", given.giveUpAfterMs, 0, byDefault.giveUpAfterMs),
  };
}

function completeBudget(given: Some<budget.Options> = {}): budget.Options {
  const { budget: byDefault } = DEFAULTS.retry;
  checkNames("stream.retry.budget", given, byDefault);
  return {
    burst: numberFrom("stream.retry.budget.burst", given.burst, 1, byDefault.burst),
    refillMs: timerMs("stream.retry.budget.refillMs", given.refillMs, byDefault.refillMs),
  };
}

function completeStall(given: Some<stall.Options> = {}): stall.Options {
  const { stall: byDefault } = DEFAULTS;
  checkNames("stream.stall", given, byDefault);
  const { heartbeatsMissedMax, progressMs, unansweredMs } = given;
  return {
    heartbeatsMissedMax: numberFrom(
      "stream.stall.heartbeatsMissedMax",
      heartbeatsMissedMax,
      1,
      byDefault.heartbeatsMissedMax,
    ),
    progressMs: numberFrom("stream.stall.progressMs", progressMs, 1, byDefault.progressMs),
    unansweredMs: numberFrom("stream.stall.unansweredMs", unansweredMs, 1, byDefault.unansweredMs),
  };
}
