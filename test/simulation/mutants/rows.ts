/**
 * Which planted bug stands for which rule: each thing that happens to a gateway session, each row of its transition table, each arm of `next()`, each row of the gateway's
 * matching.
 *
 * The rows are read from the source, so a new one without a bug is noticed.
 */
import { readFileSync } from "node:fs";
import { GATEWAY_MUTANTS } from "./table-gateway.ts";
import { RETURN_MUTANTS } from "./table-returns.ts";
import { RESTING_MUTANTS } from "./table-resting.ts";
import { SESSION_MUTANTS } from "./table-session.ts";
import { nameOf, transitions } from "./table-transitions.ts";
import { TURN_MUTANTS } from "./table-turn.ts";

const root = new URL("../../../", import.meta.url);

/** Inputs of a session under which its planted bugs have other names in `breaks`. */
const SESSION_BREAKS: Readonly<Record<string, readonly string[]>> = {
  clock: ["grace", "expiry"],
  end: ["stop", "eviction"],
  leave: ["close"],
  restarted: ["G1"],
};

const MATCHING: Readonly<Record<string, string>> = {
  results: "every pending tool call answered, lineage matches",
  next: "a new user message on a finished turn",
  key: "same Idempotency-Key and body",
  retry: "identical body without that header",
  fresh: "partly answered, edited, unknown ids, another model",
  E2: "another principal",
};

export interface Row {
  readonly room: "session" | "session at" | "next()" | "matching";
  readonly row: string;
  /** The names of the planted bugs. */
  readonly bugs: readonly string[];
}

export function rows(): readonly Row[] {
  const inputs = inputsIn("src/gateway/session.ts", "function react(", "\nfunction ");
  const arms = kindsIn("src/turn/decision.ts", "export type Decision =", ";\n\n");
  return [
    ...inputs.map((row): Row => {
      const breaks = new Set([row, ...(SESSION_BREAKS[row] ?? [])]);
      const bugs = [...SESSION_MUTANTS, ...RESTING_MUTANTS].filter((mutant) => breaks.has(mutant.breaks));
      return { room: "session", row, bugs: bugs.map(({ name }) => name) };
    }),
    ...[...new Set(transitions().map(({ at }) => at))].map((row): Row => {
      const bugs = transitions().filter(({ at }) => at === row);
      return { room: "session at", row, bugs: bugs.map(nameOf) };
    }),
    ...arms.map((row): Row => {
      const bugs = TURN_MUTANTS.filter(({ name }) => name.startsWith(`${row}: `));
      return { room: "next()", row, bugs: bugs.map(({ name }) => name) };
    }),
    ...Object.entries(MATCHING).map(([breaks, row]): Row => {
      const bugs = [...GATEWAY_MUTANTS, ...RETURN_MUTANTS].filter((mutant) => mutant.breaks === breaks);
      return { room: "matching", row, bugs: bugs.map(({ name }) => name) };
    }),
  ];
}

function inputsIn(file: string, from: string, to: string): readonly string[] {
  return found(file, from, to, /\n    case "(\w+)":/g);
}

function kindsIn(file: string, from: string, to: string): readonly string[] {
  return found(file, from, to, /readonly kind: "(\w+)"/g);
}

function found(file: string, from: string, to: string, pattern: RegExp): readonly string[] {
  const text = readFileSync(new URL(file, root), "utf8");
  const [, rest = ""] = text.split(from);
  const part = rest.split(to)[0] ?? "";
  return [...part.matchAll(pattern)].map(([, name = ""]) => name);
}
