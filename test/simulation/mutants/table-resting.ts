/**
 * Planted bugs in sessions that rest: between letting go of their streams and the result that wakes them.
 */
import type { Mutant } from "./table.ts";

const SESSION = "src/gateway/session.ts";
const DRIVER = "src/gateway/session-driver.ts";
const SESSIONS = "src/gateway/sessions.ts";

const hunter = "gateway" as const;

export const RESTING_MUTANTS: readonly Mutant[] = [
  {
    name: "a resting session is taken for gone",
    breaks: "rest",
    hunter,
    patches: [
      {
        file: SESSIONS,
        from: "if (session?.record.principal === principal) await session.woken();",
        to: "",
      },
    ],
  },
  {
    name: "a result wakes two turns",
    breaks: "rest",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `if (state.at !== "sleeping" && state.at !== "resting") return [state, NOTHING];`,
        to: `if (state.at !== "sleeping" && state.at !== "resting" && !isWaiting(state)) return [state, NOTHING];`,
      },
    ],
  },
  {
    name: "a session that rests has no clock",
    breaks: "F1",
    hunter,
    patches: [
      {
        file: SESSION,
        from: `    case "resting":
      return "ttl";`,
        to: `    case "resting":
      return "none";`,
      },
    ],
  },
  {
    name: "a session that rests is over when its stream is let go of",
    breaks: "rest",
    hunter,
    patches: [
      { file: DRIVER, from: "if (this.#stream !== stream) return void (await stream.ended);", to: "" },
    ],
  },
];
