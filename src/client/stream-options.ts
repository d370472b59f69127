/**
 * The options of a stream in detail: what the application leaves out, at any depth, is as the defaults say.
 *
 * Everything is checked before a stream begins. Its machine gets complete options and never looks again, so a switch that
 * changes while a client runs counts for the streams that begin after it.
 */
import * as z from "../protocol/rules.ts";
import type * as budget from "../core/budget.ts";
import { DEFAULTS, type Options } from "../core/client-state.ts";
import type * as retry from "../core/retry.ts";
import type * as stall from "../core/stall.ts";
import { checked, fields, numberFrom, timerMs, whole, yesOrNo } from "../protocol/checked.ts";

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

const { retry: RETRY, stall: STALL } = DEFAULTS;

const RETRY_SCHEMA = fields({
  baseMs: z._default(numberFrom(0), RETRY.baseMs),
  capMs: z._default(timerMs(), RETRY.capMs),
  budget: z.prefault(
    fields({
      burst: z._default(numberFrom(1), RETRY.budget.burst),
      refillMs: z._default(timerMs(), RETRY.budget.refillMs),
    }),
    {},
  ),
  giveUpAfterMs: z._default(numberFrom(0), RETRY.giveUpAfterMs),
});

const STALL_SCHEMA = fields({
  heartbeatsMissedMax: z._default(numberFrom(1), STALL.heartbeatsMissedMax),
  progressMs: z._default(numberFrom(1), STALL.progressMs),
  unansweredMs: z._default(numberFrom(1), STALL.unansweredMs),
});

/** What one stream can be given. Below `stream`, so that a wrong field is called by its whole name. */
const STREAM_SCHEMA = fields({
  stream: z.prefault(
    fields({
      retry: z.prefault(RETRY_SCHEMA, {}),
      stall: z.prefault(STALL_SCHEMA, {}),
      heartbeatIntervalMs: z._default(timerMs(), DEFAULTS.heartbeatIntervalMs),
      attachTimeoutMs: z._default(timerMs(), DEFAULTS.attachTimeoutMs),
      retryLookbackWindowMs: z._default(numberFrom(0), DEFAULTS.retryLookbackWindowMs),
      reliable: z._default(yesOrNo(), DEFAULTS.reliable),
      allowDegraded: z._default(yesOrNo(), DEFAULTS.allowDegraded),
      persistence: z._default(yesOrNo(), true),
    }),
    {},
  ),
});

/** Throws `invalid_argument`, with the field's name, when one is wrong or there is none of that name. */
function planOf(stream: StreamSettings | undefined): StreamPlan {
  const { persistence, ...options } = checked(STREAM_SCHEMA, { stream }).stream;
  return { options, persistence };
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

/** The same, as fields of a client's options. */
export const SWITCH_FIELDS = {
  reliable: z.optional(yesOrNo()),
  persistence: z.optional(yesOrNo()),
  retryLookbackWindowMs: z.optional(whole(0)),
  allowDegraded: z.optional(yesOrNo()),
  // Checked by itself; a function's answers are, when they are there.
  stream: z.optional(z.custom<StreamSettings | (() => StreamSettings)>()),
} as const;

interface SwitchedOptions extends Switches {
  readonly stream?: StreamSettings | (() => StreamSettings) | undefined;
}

/** What a client says beside `stream`, over what `stream` says, over `byDefault`. A function where `stream` is one. */
export function switchedSettings(
  options: SwitchedOptions,
  byDefault: Switches = {},
): StreamSettings | (() => StreamSettings) {
  const { stream, reliable, persistence, retryLookbackWindowMs, allowDegraded } = options;
  const switched = (said: StreamSettings = {}): StreamSettings => {
    planOf(said);
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
