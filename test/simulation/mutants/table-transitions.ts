/**
 * Planted bugs made from the transition table in `src/gateway/session.ts`: for each way out of a state, a session that does not take it.
 *
 * The table is read from the file's header, so a new way out has its bug at once, and `npm run sim:mutants -- --record` looks for a seed that notices it.
 */
import { readFileSync } from "node:fs";
import type { Patch } from "./patch.ts";
import type { Mutant } from "./table.ts";

const SESSION = "src/gateway/session.ts";
const SESSIONS = "src/gateway/sessions.ts";

export interface Transition {
  readonly at: string;
  readonly input: string;
}

/** The rows of the table, each with what leads out of its state. */
export function transitions(): readonly Transition[] {
  const text = readFileSync(new URL(`../../../${SESSION}`, import.meta.url), "utf8");
  const [header = ""] = text.split("*/");
  return [...header.matchAll(/^ \* \| (\w+) +\| [^|]+\| ([^|]+)\|$/gm)].flatMap(([, at = "", ways = ""]) =>
    [...ways.matchAll(/`(\w+)`/g)].map(([, input = ""]) => ({ at, input })),
  );
}

export function nameOf({ at, input }: Transition): string {
  return `${at}: a session does not hear \`${input}\``;
}

/** What hides the bug, where something does. */
const HIDING: Readonly<Record<string, readonly Patch[]>> = {
  // A request that is too large is refused before it has a session.
  "fresh unopened": [
    {
      file: "src/gateway/requests.ts",
      from: `  checkSize(first.length, LIMITS.chunkBytesMax, "the request without its messages, mostly its tools,");\n`,
      to: "",
    },
  ],
};

export const TRANSITION_MUTANTS: readonly Mutant[] = transitions().map((transition) => ({
  name: nameOf(transition),
  breaks: transition.input,
  hunter: "gateway",
  patches: [
    {
      file: SESSION,
      from: "const [next, effects] = react(state, input);",
      to: `const [next, effects] = state.at === "${transition.at}" && input.kind === "${transition.input}" ? [state, NOTHING] : react(state, input);`,
    },
    // A gateway that closes would wait in circles for a session that does not end.
    {
      file: SESSIONS,
      from: "while (this.#byStream.size > 0 || !tasks.isIdle) {",
      to: `for (let round = 0; this.#byStream.size > 0 || !tasks.isIdle; round++) {
      if (round === 100) throw new Error("F1: a gateway never closes");`,
    },
    // A start would look for ever for room that such a session does not make.
    {
      file: SESSIONS,
      from: "while (this.#openOf(principal) > openStreamsMax && this.#evictOne(principal) !== undefined);",
      to: `for (let round = 0; this.#openOf(principal) > openStreamsMax && this.#evictOne(principal) !== undefined; round++)
        if (round === 100) throw new Error("E8: a session that is ended makes no room");`,
    },
    ...(HIDING[`${transition.at} ${transition.input}`] ?? []),
  ],
}));
