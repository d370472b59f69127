/**
 * Which target one call asks, with which API key, and what it does when that fails. Pure: facts in, the next request out.
 *
 * A target is asked three times at the most while nothing was said. An API key that is refused or limited gives way to another of the same
 * target at once. Then the next target is asked: only when the failure is the target's own, and never when the answer must come from
 * one model alone, because something of it was shown. When all have failed, the failure is that of the model that was asked for.
 *
 * Invariant: a request that is refused (4xx other than 429) is never sent to another target.
 */
import { type Backoff, pauseMsBefore } from "../../../turn/attempts.ts";
import type { ModelFailure } from "../../model.ts";
import {
  freshKeys,
  type Health,
  isCooling,
  isKeyFailure,
  isTargetFailure,
  takeKey,
  type Target,
} from "./health.ts";

/** Three requests at the most: more would hide a problem and cost money. */
const TRIES_MAX = 3;

export interface Ask {
  readonly target: Target;
  /** The place of its API key. */
  readonly key: number;
  readonly pauseMs: number;
}

/** Of one call; changed in place. */
export interface Route {
  /** The model that was asked for. */
  readonly asked: Target | undefined;
  /** It and its fallbacks, in the order of this call. */
  readonly targets: readonly Target[];
  /** Where it is among them. */
  at: number;
  tries: number;
  /** API keys of this target that were refused. */
  refused: Set<number>;
  /** Of the model that was asked for, as soon as there is one. */
  failure: ModelFailure | undefined;
}

/** Targets that cool down are asked last. The first of `targets` is the model that was asked for. */
export function newRoute(health: Health, targets: readonly Target[], nowMs: number): Route {
  const placeOf = (target: Target): number => Number(isCooling(health, target, nowMs));
  const order = targets.toSorted((a, b) => placeOf(a) - placeOf(b));
  return { asked: targets[0], targets: order, at: 0, tries: 0, refused: new Set(), failure: undefined };
}

export function firstAsk(health: Health, route: Route, nowMs: number): Ask | undefined {
  return askAt(health, route, 0, nowMs);
}

interface Circumstances {
  readonly nowMs: number;
  /** Between 0 and 1. */
  readonly random: number;
  readonly backoff: Backoff;
  /** Whether a pause of this length may be waited for. */
  readonly mayWait: (pauseMs: number) => boolean;
}

/** What follows a failure, which `health` knows of already; a failure when nothing does. */
export function nextAsk(
  health: Health,
  route: Route,
  key: number,
  failure: ModelFailure,
  { nowMs, random, backoff, mayWait }: Circumstances,
): Ask | ModelFailure {
  const target = route.targets[route.at];
  if (target === undefined) return failure;
  if (target === route.asked || route.failure === undefined) route.failure = failure;
  if (isKeyFailure(failure)) route.refused.add(key);
  if (!mayWait(0)) return route.failure;
  if (isKeyFailure(failure) && hasSpareKey(health, target, route, nowMs))
    return askAt(health, route, 0, nowMs) ?? failure;
  if (failure.isPassing && route.tries < TRIES_MAX) {
    const pauseMs = pauseMsBefore(route.tries, failure.retryAfterMs, backoff, random);
    if (pauseMs !== undefined && mayWait(pauseMs)) {
      // A limited API key is asked again after its pause.
      route.refused = new Set();
      return askAt(health, route, pauseMs, nowMs) ?? failure;
    }
  }
  // A fallback that refuses is passed over: what the client did was right for the model that it asked for.
  const mayPass = isTargetFailure(failure) || target !== route.asked;
  if (!mayPass || route.at + 1 >= route.targets.length) return route.failure;
  route.at++;
  route.tries = 0;
  route.refused = new Set();
  return askAt(health, route, 0, nowMs) ?? failure;
}

/** Each API key of the target is asked once. */
function hasSpareKey(health: Health, target: Target, { refused }: Route, nowMs: number): boolean {
  return freshKeys(health, target, nowMs).some((key) => !refused.has(key));
}

function askAt(health: Health, route: Route, pauseMs: number, nowMs: number): Ask | undefined {
  const target = route.targets[route.at];
  const key = target === undefined ? undefined : takeKey(health, target, route.refused, nowMs);
  if (target === undefined || key === undefined) return undefined;
  route.tries++;
  return { target, key, pauseMs };
}
