/**
 * From the API keys of a request to a principal.
 *
 * A token is needed on loopback as well: other users and other programs of the machine are there too (E7). Each address may
 * fail so often (`sign-in-tries.ts`); then it is refused before the token is looked at. A token that was good before is
 * always looked at, so that one misconfigured program does not lock out its neighbours.
 */
import { hash } from "node:crypto";
import { isIPv6 } from "node:net";
import type * as budget from "../../core/budget.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { putLast } from "../../protocol/put-last.ts";
import type { ApiKeyLimits } from "../api-key-limits.ts";
import { signInTries } from "./sign-in-tries.ts";

/** Whom an API key stands for. */
export interface SignedIn {
  readonly principal: string;
  /** Absent: what is counted by API key is counted by principal. */
  readonly apiKeyId?: string;
  readonly limits?: ApiKeyLimits | undefined;
}

/** Who came in, and by which token; undefined where `authenticate` asks for none. */
export interface Entry extends SignedIn {
  readonly token: string | undefined;
}

/** Rejects with `unauthenticated` for a token that is absent, unknown or revoked: one answer for all. */
export type Authenticate = (apiKey: string | undefined) => Promise<SignedIn>;

/** A person who mistypes never meets it; a program that guesses gets one try in a second. */
export const FAILED_SIGN_INS: budget.Options = { burst: 20, refillMs: 1_000 };

/** So many good tokens are remembered; beyond, the oldest are forgotten. */
const REMEMBERED_MAX = 10_000;

export type SignIn = ReturnType<typeof createSignIn>;

export function createSignIn(
  authenticate: Authenticate,
  options = FAILED_SIGN_INS,
  now = () => performance.now(),
) {
  /** By the hashes of tokens that were good. */
  const good = new Map<string, true>();
  let failureCount = 0;
  const tries = signInTries(options, now);

  async function firstGood([token, ...others]: readonly string[]): Promise<Entry> {
    try {
      const signedIn = await authenticate(token);
      if (token !== undefined) putLast(good, markOf(token), true, REMEMBERED_MAX);
      return { ...signedIn, token };
    } catch (cause) {
      if (token !== undefined && isRefusal(cause)) good.delete(markOf(token));
      if (others.length === 0 || !isRefusal(cause)) throw cause;
      return firstGood(others);
    }
  }

  return {
    get failureCount() {
      return failureCount;
    },
    /**
     * By the first of the tokens that is good. Rejects with `unauthenticated`, or with `overloaded` when this address has failed too
     * often. A request fails once, however many tokens it brings, and not at all when one of them is good.
     */
    async enter(tokens: readonly string[], remoteAddress: string): Promise<Entry> {
      const address = networkOf(remoteAddress);
      const isKnown = tokens.some((token) => good.has(markOf(token)));
      const attempt = isKnown ? tries.free(address) : await tries.reserve(address);
      if (attempt.kind === "refused") {
        failureCount++;
        const message = "too many failed sign-ins from this address; wait, and check the API key";
        throw new HoldfastError("overloaded", message, { retryAfterMs: attempt.waitMs });
      }
      try {
        const entry = await firstGood(tokens);
        attempt.over(false);
        return entry;
      } catch (cause) {
        const hasFailed = isRefusal(cause);
        attempt.over(hasFailed);
        if (hasFailed) failureCount++;
        throw cause;
      }
    },
    /** True when a token that let a client in still would, and when that cannot be found out. */
    async isGood(token: string | undefined): Promise<boolean> {
      try {
        await authenticate(token);
        return true;
      } catch (cause) {
        return !isRefusal(cause);
      }
    },
  };
}

function markOf(token: string): string {
  return hash("sha256", token, "base64");
}

function isRefusal(cause: unknown): boolean {
  return HoldfastError.codeOf(cause) === "unauthenticated";
}

/** One household has one address of IPv4, and 2^64 of IPv6. */
function networkOf(address: string): string {
  // Told at a glance: asking the platform takes a microsecond.
  if (!address.includes(":") || !isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = ""] = address.split("::");
  const groups = head.split(":").filter((group) => group !== "");
  return `${[...groups, "0", "0", "0", "0"].slice(0, 4).join(":")}::/64`;
}
