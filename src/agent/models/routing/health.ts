/**
 * What is known of the targets of requests, models at their providers and the API keys for them: which failed lately, and until when
 * they are better left alone. Pure: time comes in as `nowMs`.
 *
 * A target cools down after some failures in a row, an API key as soon as it is refused or limited. Cooling down only changes an order: one
 * that is cooling is asked when there is no other, so a lone target and a lone API key are always asked.
 *
 * Invariant: what the request itself was refused for (a 4xx other than 429) never counts against its target.
 */
import type { ModelFailure } from "../../model.ts";
import { remember } from "../remembered.ts";

export interface Cooldown {
  /** So many failures in a row. */
  readonly failures: number;
  readonly ms: number;
}

export const COOLDOWN: Cooldown = { failures: 3, ms: 30_000 };

/** A model at its provider. */
export interface Target {
  /** `provider/model`. */
  readonly id: string;
  /** The names of its API keys; one that needs none has a name all the same. */
  readonly keys: readonly string[];
  readonly cooldown: Cooldown;
}

interface Rest {
  failures: number;
  untilMs: number;
}

/** Changed in place. */
export interface Health {
  /** By target; targets that answer are not in it. */
  readonly targets: Map<string, Rest>;
  /** By target and API key: until when it cools down. */
  readonly keys: Map<string, number>;
  /** By target: the API key that was used last. */
  readonly usedKeys: Map<string, number>;
}

export function newHealth(): Health {
  return { targets: new Map(), keys: new Map(), usedKeys: new Map() };
}

/** 429 and 5xx, answers that break off, silence: what the target did, and not what the request was. */
export function isTargetFailure({ kind, isPassing }: ModelFailure): boolean {
  return isPassing || kind === "rate_limited";
}

/** What another API key of the same target may mend. */
export function isKeyFailure({ kind }: ModelFailure): boolean {
  return kind === "unauthenticated" || kind === "rate_limited";
}

export function noteFailure(
  health: Health,
  target: Target,
  key: number,
  failure: ModelFailure,
  nowMs: number,
): void {
  const { id, cooldown } = target;
  const restMs = Math.max(cooldown.ms, failure.retryAfterMs ?? 0);
  if (isKeyFailure(failure)) remember(health.keys, nameOf(target, key), nowMs + restMs);
  if (!isTargetFailure(failure)) return;
  // While another API key is left, a limit says nothing about the target.
  if (isKeyFailure(failure) && freshKeys(health, target, nowMs).length > 0) return;
  const failures = (health.targets.get(id)?.failures ?? 0) + 1;
  const untilMs = failures >= cooldown.failures ? nowMs + restMs : 0;
  remember(health.targets, id, { failures, untilMs });
}

export function noteAnswer(health: Health, target: Target, key: number): void {
  health.targets.delete(target.id);
  health.keys.delete(nameOf(target, key));
}

export function isCooling(health: Health, { id }: Target, nowMs: number): boolean {
  return (health.targets.get(id)?.untilMs ?? 0) > nowMs;
}

/** In the order in which they are to be used: in turn, beginning behind the last one. */
export function freshKeys(health: Health, target: Target, nowMs: number): readonly number[] {
  return inTurn(health, target).filter((key) => restOf(health, target, key) <= nowMs);
}

/** The API key for the next request; none of `tried` while there is another. Undefined when all were tried. */
export function takeKey(
  health: Health,
  target: Target,
  tried: ReadonlySet<number>,
  nowMs: number,
): number | undefined {
  const readyMs = (key: number): number => Math.max(nowMs, restOf(health, target, key));
  const [key] = inTurn(health, target)
    .filter((one) => !tried.has(one))
    .toSorted((a, b) => readyMs(a) - readyMs(b));
  // A lone one is always in turn.
  if (key !== undefined && target.keys.length > 1) remember(health.usedKeys, target.id, key);
  return key;
}

function inTurn(health: Health, { id, keys }: Target): readonly number[] {
  const last = health.usedKeys.get(id) ?? keys.length - 1;
  return keys.map((_, at) => (last + 1 + at) % keys.length);
}

function restOf(health: Health, target: Target, key: number): number {
  return health.keys.get(nameOf(target, key)) ?? 0;
}

function nameOf({ id, keys }: Target, key: number): string {
  return `${id} ${keys[key] ?? ""}`;
}
