/**
 * What one API key may do at the gateway: which models, how often, how much at once.
 *
 * The limits are part of the API key's row, so that they hold on every node and after every start. An absent limit limits nothing; a row with a
 * limit that cannot be read is damaged: the server does not guess limits.
 */
import * as z from "../protocol/rules.ts";
import { list, textThat, whole } from "../protocol/checked.ts";
import { HoldfastError } from "../protocol/errors.ts";

export const COUNT_MAX = 1_000_000;
/** More than any model says in a day. */
export const TOKENS_MAX = 1_000_000_000_000;
const PATTERNS_MAX = 100;
const pattern = textThat((said) => /^[\x21-\x7e]{1,200}$/.test(said), "must be the name of a model");

/** Strict: a limit that a newer version wrote is a limit too, and this version must not let more through. */
export const LIMITS = z.strictObject({
  /** Names of models; `*` stands for any characters. */
  models: z.exactOptional(z.readonly(list(pattern).check(z.minLength(1), z.maxLength(PATTERNS_MAX)))),
  /** Requests in a minute, in the long run; as many may come at once. */
  ratePerMinute: z.exactOptional(whole(1, COUNT_MAX)),
  /** Requests that are being answered at the same time. */
  concurrency: z.exactOptional(whole(1, COUNT_MAX)),
  /** Sessions that wait for a tool's result at the same time. */
  parked: z.exactOptional(whole(0, COUNT_MAX)),
  /** Tokens in a day of UTC, as models report them. Unlike the others it counts for streams, too. */
  tokensPerDay: z.exactOptional(whole(1, TOKENS_MAX)),
});

export type ApiKeyLimits = Readonly<z.output<typeof LIMITS>>;

/** Throws for limits that no caller can have meant. */
export function checkLimits(limits: ApiKeyLimits): void {
  if (z.safeParse(LIMITS, limits).success) return;
  throw new HoldfastError(
    "invalid_argument",
    `limits are whole numbers from 1 to ${COUNT_MAX} (parked: from 0; tokensPerDay: to ${TOKENS_MAX}), and at most ${PATTERNS_MAX} names of models without spaces`,
  );
}

/** True when it limits what only the gateway counts. */
export function isForGatewayOnly(limits: ApiKeyLimits | undefined): boolean {
  return Object.keys(limits ?? {}).some((limit) => limit !== "tokensPerDay");
}

/** True when it limits anything at all. */
export function isLimited(limits: ApiKeyLimits | undefined): limits is ApiKeyLimits {
  return limits !== undefined && Object.keys(limits).length > 0;
}
