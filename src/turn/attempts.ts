/**
 * A step, over as many attempts as it takes: what happens when a crash or a provider breaks its output off.
 *
 * The call of an attempt that a crash cut off may be held by a process that outlives this one: then the same generation is read again, and
 * continues behind what the log has of it. Else, and when it says something else than the log, the step begins anew: a reader whose text is
 * final is then served while the new attempt says the same (`answer.ts`), and one that begins anew has all of it.
 *
 * The text of an attempt that broke, or is not held any more, is continued by the same model where it can (`join.ts`). Else a broken attempt is
 * rolled back and the step begins anew, while nothing was shown that cannot be taken back. Text that an
 * OpenAI stream has shown cannot: then the turn fails, with an error that says so. What was thought, or written of a tool call, is
 * no text: a call behind the text is made anew. The count of requests is durable: each attempt begins with an event that says how many were sent before it, and
 * only the very first request of a step leaves before its event is on disk. What a killed attempt has sent is not known, so it
 * counts for all that it may have: three, or what the log says when it is more.
 *
 * Invariants: a step begins anew at most three times (F1); one whose provider broke never does behind text that is final (G1); over all attempts, tries and
 * kills it sends at most `STEP_REQUESTS_MAX` requests and makes at most `ATTEMPTS_MAX` attempts (G2).
 */
import type { Ending, StepPlace } from "./decision.ts";
import type { Facts } from "./facts.ts";
import { failed } from "./failure.ts";
import type { Broken } from "./found.ts";
import { promptOf } from "./join.ts";
import { mayHaveSent, type OpenStep } from "./open-step.ts";

/** A step restarts so often, then the turn fails (F1). */
export const STEP_RESTARTS_MAX = 3;

export const STEP_REQUESTS_MAX = 12;

/** Each attempt pays for one answer at the most, and a step for so many (G2): it begins, begins anew three times, and is continued twice. */
const ATTEMPTS_MAX = 6;

/** Another generation continues the text of a step so often at the most, and no more behind one that added less than this. */
const CONTINUATIONS_MAX = 2;
const ADDED_CHARS_MIN = 16;

/** So many restarts in a row look for a held call without a word of it: it may be what takes the server down (F1). */
const ATTACHES_MAX = 8;

/**
 * So long the gateway keeps the head of a streamed answer back, to tell of a failure by an HTTP status. A wait that ends later would turn the
 * provider's status into an error within the stream: the client, which knows the status, does better by itself.
 */
const HEAD_HELD_MS = 10_000;

export interface Backoff {
  /** The first pause before another try is at most this, the second twice; chosen at random (full jitter). */
  readonly backoffMs: number;
  /** A provider that asks for a longer pause is not waited for: the user decides. */
  readonly retryAfterMsMax: number;
}

/** The pause before another try, after so many; undefined when the provider asks for a longer one than is waited for. */
export function pauseMsBefore(
  tries: number,
  retryAfterMs: number | undefined,
  { backoffMs, retryAfterMsMax }: Backoff,
  random: number,
): number | undefined {
  if (retryAfterMs === undefined) return random * backoffMs * 2 ** (tries - 1);
  return retryAfterMs <= retryAfterMsMax ? retryAfterMs : undefined;
}

/** Whether a step that has sent so many requests may wait so long for the next one. */
export function mayWait(
  { requests, passedMs }: Pick<Broken, "requests" | "passedMs">,
  isHeadHeld: boolean,
  pauseMs: number,
): boolean {
  if (requests >= STEP_REQUESTS_MAX) return false;
  return !isHeadHeld || passedMs >= HEAD_HELD_MS || passedMs + pauseMs <= HEAD_HELD_MS;
}

/** A step that has not begun. */
export function firstPlace(facts: Facts): StepPlace {
  const isRepeated = isRestarted(facts);
  // A run that was killed may have sent a first request, and lost the event that tells of it.
  const requestsBefore = isRepeated ? 1 : 0;
  return {
    step: facts.steps,
    requestsBefore,
    isRepeated,
    attempt: 0,
    begin: { how: "start" },
    pauseMs: 0,
    onlyModel: undefined,
  };
}

/** This run follows a restart, and has not come further than the runs before it. */
function isRestarted({ found: { pastHead }, lastStep }: Facts): boolean {
  return pastHead !== undefined && (lastStep?.eventId ?? 0) <= pastHead;
}

/** The next attempt of a step that was cut off; an ending when there may be none. */
export function nextPlace(facts: Facts, open: OpenStep, backoff: Backoff): StepPlace | Ending {
  const { broken, ways } = facts.found;
  // The provider has refused, or broke, while no server was there to ask it again.
  const isUnanswered = broken?.wasHeld === true && !open.hasContent;
  if (broken === undefined || isUnanswered) return cutOffPlace(facts, open);
  const { failure, isPassing, requests, retryAfterMs, random } = broken;
  const isFinal = isShownFinal(facts);
  const isKept = isFinal && open.hasText && !wasCutOff(facts, open);
  const given: Ending = isKept
    ? failed("upstream_interrupted", failure.message)
    : { reason: "failed", failure };
  // Before any content the model has tried again by itself.
  if (!isPassing || !open.hasContent) return { reason: "failed", failure };
  if (ways.continues === "off" || requests >= STEP_REQUESTS_MAX) return given;
  const pauseMs = pauseMsBefore(open.attempt + 1, retryAfterMs, backoff, random);
  if (pauseMs === undefined) return given;
  const continued = continuedPlace(facts, open);
  if (continued !== undefined) return { ...continued, requestsBefore: requests, pauseMs };
  if (isKept || !mayBeginAnew(open)) return given;
  if (!open.hasThinking && !mayWait(broken, isFinal, pauseMs)) return given;
  return { ...restartPlace(facts, open), requestsBefore: requests, pauseMs };
}

/**
 * A crash cut this attempt off behind all of its text, and the model did not continue it: the step begins anew, as it does where no model can. What this run
 * has shown itself is read by clients that it serves.
 */
function wasCutOff({ found: { broken, pastHead } }: Facts, { textEvent }: OpenStep): boolean {
  return broken?.isUnjoined === true && textEvent <= (pastHead ?? 0);
}

/** A crash cut it off: its call may still be held. Else its text is continued, or it begins anew. */
function cutOffPlace(facts: Facts, open: OpenStep): StepPlace | Ending {
  const { found } = facts;
  const mayBeHeld = found.opened?.holdsCalls === true && !found.isLost && found.broken === undefined;
  if (mayBeHeld && open.attaches < ATTACHES_MAX) {
    const onlyModel = open.hasContent ? open.servedBy : undefined;
    const begin = { how: "attach", runs: open.runs, join: open.joined } as const;
    return { ...restartPlace(facts, open), attempt: open.attempt, begin, onlyModel };
  }
  const continued = mayHaveSent(open) < STEP_REQUESTS_MAX ? continuedPlace(facts, open) : undefined;
  if (continued !== undefined) return continued;
  if (mayBeginAnew(open)) return restartPlace(facts, open);
  return failed("restarts_exhausted", `a step was cut off ${open.attempt + 1} times`);
}

function mayBeginAnew({ restarts, attempt }: OpenStep): boolean {
  return restarts < STEP_RESTARTS_MAX && attempt + 1 < ATTEMPTS_MAX;
}

/** Its text, continued by the model that said it; undefined when that cannot be, or may not be any more. */
function continuedPlace(facts: Facts, open: OpenStep): StepPlace | undefined {
  const { ways, broken } = facts.found;
  const isJson = facts.options?.responseFormat?.format.case === "json";
  if (ways.continues !== "exact" || ways.prefills === "no" || isJson || hasCallInText(open)) return undefined;
  if (open.attempt + 1 >= ATTEMPTS_MAX) return undefined;
  const { text, textEvent: rollbackTo, joined, continuations } = open;
  const isUnproved = broken?.isUnjoined === true;
  if (isUnproved) {
    // Once more with all of the text, where the model is known to continue what it is given.
    if (joined === undefined || joined.isUnproved || ways.prefills !== "proved") return undefined;
  } else if (joined !== undefined) {
    const isSpent = continuations >= CONTINUATIONS_MAX || text.length - joined.text.length < ADDED_CHARS_MIN;
    if (isSpent) return undefined;
  }
  const join = { text, isUnproved };
  if (promptOf(join) === "") return undefined;
  const continuation = isUnproved ? continuations : continuations + 1;
  const begin = { how: "prefill", join, rollbackTo, continuation } as const;
  return { ...restartPlace(facts, open), begin, onlyModel: open.servedBy };
}

/** A call that came before the last words cannot be given to the model as the beginning of its answer. */
function hasCallInText({ runs }: OpenStep): boolean {
  const last = runs.findLastIndex(({ kind }) => kind === "text");
  return runs.slice(0, Math.max(last, 0)).some(({ kind }) => kind === "call" || kind === "arguments");
}

function restartPlace(facts: Facts, open: OpenStep): StepPlace {
  const { step, attempt, restarts, sinceEvent: rollbackTo, shownBy } = open;
  return {
    step,
    attempt: attempt + 1,
    begin: { how: "restart", rollbackTo, restart: restarts + 1 },
    requestsBefore: mayHaveSent(open),
    isRepeated: isRestarted(facts),
    pauseMs: 0,
    onlyModel: isShownFinal(facts) && shownBy !== "" ? shownBy : undefined,
  };
}

function isShownFinal({ options }: Facts): boolean {
  return options?.shownIsFinal === true;
}
