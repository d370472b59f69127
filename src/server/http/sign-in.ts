/**
 * From the `authorization` header to a principal.
 *
 * A token is needed on loopback as well: other users and other programs of the machine are there too (E7). Whoever
 * fails too often from one address is refused before the token is looked at; a token that was good before is
 * always looked at, so that one misconfigured program does not lock out its neighbours.
 */
import { createHash } from "node:crypto";
import { isIPv6 } from "node:net";
import * as budget from "../../core/budget.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ApiKeyLimits } from "../api-key-limits.ts";

/** Whom an API key stands for. */
export interface SignedIn {
  readonly principal: string;
  /** Absent: what is counted by API key is counted by principal. */
  readonly apiKeyId?: string;
  readonly limits?: ApiKeyLimits | undefined;
}

/** Rejects with `unauthenticated` for a token that is absent, unknown or revoked: one answer for all. */
export type Authenticate = (apiKey: string | undefined) => Promise<SignedIn>;

/** A person who mistypes never meets it; a program that guesses gets one try in a second. */
export const FAILED_SIGN_INS: budget.Options = { burst: 20, refillMs: 1_000 };

/** So many addresses and good tokens are remembered; beyond, the oldest are forgotten. */
const REMEMBERED_MAX = 10_000;

export class SignIn {
  readonly #authenticate: Authenticate;
  readonly #options: budget.Options;
  readonly #now: () => number;
  readonly #failures = new Map<string, budget.State>();
  /** Hashes of tokens that were good. */
  readonly #good = new Map<string, true>();
  failureCount = 0;

  constructor(authenticate: Authenticate, options = FAILED_SIGN_INS, now = () => performance.now()) {
    this.#authenticate = authenticate;
    this.#options = options;
    this.#now = now;
  }

  /** Rejects with `unauthenticated`, or with `overloaded` when this address has failed too often. */
  async principalOf(authorization: string | undefined, remoteAddress: string): Promise<string> {
    return (await this.enter(authorization, remoteAddress)).principal;
  }

  /** The same, with everything that is known of the API key. */
  async enter(authorization: string | undefined, remoteAddress: string): Promise<SignedIn> {
    const token = bearerToken(authorization);
    const mark = token === undefined ? "" : createHash("sha256").update(token).digest("base64");
    const address = networkOf(remoteAddress);
    if (!this.#good.has(mark)) this.#checkFailures(address);
    try {
      const signedIn = await this.#authenticate(token);
      if (token !== undefined) remember(this.#good, mark, true);
      return signedIn;
    } catch (cause) {
      if (cause instanceof HoldfastError && cause.code === "unauthenticated") {
        this.failureCount++;
        this.#good.delete(mark);
        this.#countFailure(address);
      }
      throw cause;
    }
  }

  /** Whether a token that let somebody in still would. When that cannot be found out, it is left alone. */
  async isGood(authorization: string | undefined): Promise<boolean> {
    try {
      await this.#authenticate(bearerToken(authorization));
      return true;
    } catch (cause) {
      return !(cause instanceof HoldfastError && cause.code === "unauthenticated");
    }
  }

  #checkFailures(address: string): void {
    const known = this.#failures.get(address);
    if (known === undefined) return;
    const [, { waitMs }] = budget.spend(known, this.#now());
    if (waitMs === 0) return;
    this.failureCount++;
    const message = "too many failed sign-ins from this address; wait, and check the API key";
    throw new HoldfastError("overloaded", message, { retryAfterMs: waitMs });
  }

  #countFailure(address: string): void {
    const nowMs = this.#now();
    const [next] = budget.spend(this.#failures.get(address) ?? budget.init(this.#options, nowMs), nowMs);
    remember(this.#failures, address, next);
  }
}

/** The youngest last; the oldest leaves. */
function remember<Value>(map: Map<string, Value>, name: string, value: Value): void {
  map.delete(name);
  map.set(name, value);
  const oldest = map.keys().next();
  if (map.size > REMEMBERED_MAX && oldest.done !== true) map.delete(oldest.value);
}

const BEARER = /^bearer +([\x21-\x7e]+) *$/i;

function bearerToken(authorization: string | undefined): string | undefined {
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
}

/** One household has one address of IPv4, and 2^64 of IPv6. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = ""] = address.split("::");
  const groups = head.split(":").filter((group) => group !== "");
  return `${[...groups, "0", "0", "0", "0"].slice(0, 4).join(":")}::/64`;
}
