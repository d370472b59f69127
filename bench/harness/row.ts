/**
 * What a row of the benchmark is: something that is measured, and lines of a table that say how it went.
 */
import type { Rounds } from "./rounds.ts";
import type { Spread } from "./statistics.ts";

/** One budget of the design, judged on this machine in this run. */
export interface Budget {
  /** As the design says it: "at least 0.6". */
  readonly text: string;
  readonly met: boolean;
}

export interface Line {
  readonly what: string;
  readonly unit: string;
  readonly value: Spread;
  /** Against what else in the same run, and how it compares. */
  readonly ratio?: { readonly to: string; readonly value: number };
  readonly budget?: Budget;
  /** What a reader of the line must know. */
  readonly note?: string;
}

export interface Outcome {
  readonly lines: readonly Line[];
  /** Why nothing was measured; the row has then not failed. */
  readonly skipped?: string;
}

export interface Row {
  readonly name: string;
  readonly title: string;
  /** How many steps one round has, for the estimate of what is left. */
  readonly stepsPerRound: number;
  /** Runs only when it is named. */
  readonly isLong?: boolean;
  run(rounds: Rounds): Promise<Outcome>;
}
