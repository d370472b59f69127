/**
 * What one API key may do at the gateway: which models, how often, how much at once.
 *
 * The limits are part of the API key's row, so that they hold on every node and after every start. An absent limit limits nothing; a row that
 * has one which cannot be read is damaged, because a limit that is guessed is none.
 */
import { HoldfastError } from "../protocol/errors.ts";

export interface ApiKeyLimits {
  /** Names of models; `*` stands for any characters. */
  readonly models?: readonly string[];
  /** Requests in a minute, in the long run; as many may come at once. */
  readonly ratePerMinute?: number;
  /** Requests that are being answered at the same time. */
  readonly concurrency?: number;
  /** Sessions that wait for a tool's result at the same time. */
  readonly parked?: number;
}

const COUNTS = ["ratePerMinute", "concurrency", "parked"] as const;
const COUNT_MAX = 1_000_000;
const PATTERNS_MAX = 100;
const PATTERN = /^[\x21-\x7e]{1,200}$/;

/** Throws for limits that nobody can have meant. */
export function checkLimits(limits: ApiKeyLimits): void {
  if (readLimits({ ...limits }) === undefined) {
    throw new HoldfastError(
      "invalid_argument",
      `limits are whole numbers from 1 to ${COUNT_MAX} (parked: from 0), and at most ${PATTERNS_MAX} names of models without spaces`,
    );
  }
}

/** Undefined when it is not the limits of an API key. */
export function readLimits(value: unknown): ApiKeyLimits | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const fields = new Map<string, unknown>(Object.entries(value));
  const limits: { -readonly [Name in keyof ApiKeyLimits]: ApiKeyLimits[Name] } = {};
  const models = fields.get("models");
  fields.delete("models");
  if (models !== undefined) {
    if (!isPatterns(models)) return undefined;
    limits.models = models;
  }
  for (const name of COUNTS) {
    const count = fields.get(name);
    fields.delete(name);
    if (count === undefined) continue;
    if (!isCount(count, name === "parked" ? 0 : 1)) return undefined;
    limits[name] = count;
  }
  // One that a newer version wrote is a limit too: not to know it is no reason to let more through.
  return fields.size === 0 ? limits : undefined;
}

/** Whether it limits anything at all. */
export function isLimited(limits: ApiKeyLimits | undefined): limits is ApiKeyLimits {
  return limits !== undefined && Object.keys(limits).length > 0;
}

function isCount(value: unknown, min: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= COUNT_MAX;
}

function isPatterns(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= PATTERNS_MAX &&
    value.every((pattern) => typeof pattern === "string" && PATTERN.test(pattern))
  );
}
