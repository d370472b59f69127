/**
 * How often an address may fail to sign in.
 *
 * A try is reserved before the token is looked at and given back when the token was good, so a thousand guesses at once are no more
 * than a thousand in a row. While others of its address are being looked at, one that finds nothing to reserve waits for their
 * outcome: many clients behind one address that return at the same time are all let in, and guesses are refused together.
 *
 * Invariant: within any span of T ms at most `burst + T / refillMs` tokens of an address fail, and no refusal makes the wait longer (E1).
 */
import * as budget from "../../core/budget.ts";
import { putLast } from "../../protocol/put-last.ts";

/** A token is being looked at. `over` says, once, what came of it. */
export interface Try {
  readonly kind: "try";
  over(hasFailed: boolean): void;
}

export interface Refusal {
  readonly kind: "refused";
  readonly waitMs: number;
}

interface Address {
  budget: budget.State;
  /** Tokens that are being looked at. */
  checking: number;
  /** Requests that wait for the outcome of those; as many as the port lets be open. */
  readonly waiting: (() => void)[];
}

/** So many addresses are remembered; beyond, the oldest are forgotten. */
const ADDRESSES_MAX = 10_000;

export function signInTries(options: budget.Options, now: () => number) {
  const addresses = new Map<string, Address>();

  function over(name: string, address: Address, hasFailed: boolean): void {
    address.checking--;
    if (!hasFailed) address.budget = budget.giveBack(address.budget);
    // Each outcome frees at most one reservation. After the last one nothing is left to wait for.
    const woken = address.waiting.splice(0, address.checking === 0 ? address.waiting.length : 1);
    for (const wake of woken) wake();
    const isIdle = address.checking === 0 && woken.length === 0;
    if (isIdle && budget.isWhole(address.budget, now())) addresses.delete(name);
  }

  function addressOf(name: string): Address {
    const address = addresses.get(name) ?? {
      budget: budget.init(options, now()),
      checking: 0,
      waiting: [],
    };
    putLast(addresses, name, address, ADDRESSES_MAX);
    return address;
  }

  return {
    async reserve(name: string): Promise<Try | Refusal> {
      for (;;) {
        const address = addressOf(name);
        const [left, { waitMs }] = budget.take(address.budget, now());
        address.budget = left;
        if (waitMs === 0) {
          address.checking++;
          return { kind: "try", over: (hasFailed) => over(name, address, hasFailed) };
        }
        if (address.checking === 0) return { kind: "refused", waitMs };
        await new Promise<void>((resolve) => void address.waiting.push(resolve));
      }
    },
    /** A try of a token that was good before: it needs no reservation, and counts when it fails. */
    free(name: string): Try {
      return {
        kind: "try",
        over: (hasFailed) => {
          if (!hasFailed) return;
          const address = addressOf(name);
          [address.budget] = budget.take(address.budget, now());
        },
      };
    },
  };
}
