/**
 * The options of a stream in detail: what the application leaves out, at any depth, is as the defaults say.
 *
 * Everything is checked once, before anything is opened. The machines get complete options and never look again.
 */
import type * as budget from "../core/budget.ts";
import { DEFAULTS, type Options } from "../core/client-state.ts";
import type * as retry from "../core/retry.ts";
import type * as stall from "../core/stall.ts";
import { checkNames, checkWhole, flag, numberFrom, timerMs } from "./option-checks.ts";

/** Each may be left out, and so may each part of `retry`, of its `budget`, and of `stall`. */
export type StreamSettings = Some<Omit<Options, "retry" | "stall">> & {
  readonly retry?: RetrySettings | undefined;
  readonly stall?: Some<stall.Options> | undefined;
};

type RetrySettings = Some<Omit<retry.Options, "budget">> & {
  readonly budget?: Some<budget.Options> | undefined;
};

type Some<All> = { readonly [Key in keyof All]?: All[Key] | undefined };

/** Throws `invalid_frame`, with the option's name, when one is wrong or there is none of that name. */
export function completeStreamOptions(given: StreamSettings = {}): Options {
  checkNames("stream", given, DEFAULTS);
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

/** The switches that clients have beside `stream`; they win over what is said there. */
export interface StreamSwitches {
  readonly stream?: StreamSettings | undefined;
  readonly retryLookbackWindowMs?: number | undefined;
  readonly reliable?: boolean | undefined;
  readonly allowDegraded?: boolean | undefined;
}

export function switchedStreamOptions(options: StreamSwitches): Options {
  const { retryLookbackWindowMs, reliable, allowDegraded } = options;
  const stream = completeStreamOptions(options.stream);
  checkWhole("retryLookbackWindowMs", retryLookbackWindowMs, 0);
  return {
    ...stream,
    reliable: flag("reliable", reliable, stream.reliable),
    allowDegraded: flag("allowDegraded", allowDegraded, stream.allowDegraded),
    retryLookbackWindowMs: retryLookbackWindowMs ?? stream.retryLookbackWindowMs,
  };
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
