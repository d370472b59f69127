/**
 * Planted bugs in what the gateway does with requests that come again, and with what a dead process left behind.
 */
import type { Mutant } from "./table.ts";

const RETURNS = "src/gateway/returns.ts";
const SAID_RESULTS = "src/gateway/said-results.ts";
const RETRIES = "src/gateway/retries.ts";

const hunter = "gateway" as const;

export const RETURN_MUTANTS: readonly Mutant[] = [
  {
    name: "a key is answered from the log of a turn that was stopped while its session rested",
    breaks: "key",
    hunter,
    patches: [
      {
        file: "src/gateway/gateway.ts",
        from: "const isKept = !wasHere || (await this.#retries.isKept(call, before));",
        to: "const isKept = !wasHere || before !== undefined;",
      },
    ],
  },
  {
    name: "a start does not look whether the log has the whole answer",
    breaks: "paused",
    hunter,
    patches: [{ file: "src/gateway/session.ts", from: `, { kind: "look" }];`, to: "];" }],
  },
  {
    name: "a client that returns is told a head that has what its return caused",
    breaks: "F4",
    hunter,
    patches: [
      {
        file: "src/core/host-state.ts",
        from: "if (options.gathers && !isReturning(state))",
        to: "if (options.gathers)",
      },
    ],
  },
  {
    name: "equal bodies of two principals are one request",
    breaks: "E2",
    hunter,
    patches: [
      {
        file: RETRIES,
        from: `this.#parts.names.row("body", principal, bodyHash)`,
        to: `this.#parts.names.row("body", bodyHash)`,
      },
    ],
  },
  {
    name: "a retry does not repeat the results that died with their process",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: SAID_RESULTS,
        from: "await session.say(await bodiesFor(call, session, again));",
        to: "await bodiesFor(call, session, again);",
      },
    ],
  },
  {
    name: "a client that returns does not wait for the log of its session, which is read back",
    breaks: "retry",
    hunter,
    patches: [
      {
        file: RETURNS,
        from: "await session.until(() => isRead() || isKnown(), CATCH_UP_MS);",
        to: "if (isRead() || isKnown()) void CATCH_UP_MS;",
      },
    ],
  },
];
