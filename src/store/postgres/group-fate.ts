/**
 * What became of a group that was sent, judged by the answers.
 *
 * Three fates: it is committed, it was undone, or nothing is known. Only the first may be reported. The third is resolved by the receipt (decision 107), never by sending
 * again in the hope that it did not happen.
 */
import { type Meaning, meaningOf } from "./failures.ts";
import type { Answer } from "./driver.ts";

export type Fate =
  | { readonly kind: "committed" }
  | { readonly kind: "undone"; readonly meaning: Exclude<Meaning, "lost">; readonly cause: unknown }
  | { readonly kind: "unknown"; readonly cause: unknown };

/** One result for each statement of the group, the last one that of `COMMIT`. */
export function fateOf(results: readonly PromiseSettledResult<Answer>[], hasWarning: boolean): Fate {
  // Whatever fails behind the first failure fails because of it.
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) {
    const cause: unknown = failed.reason;
    const meaning = meaningOf(cause);
    return meaning === "lost" ? { kind: "unknown", cause } : { kind: "undone", meaning, cause };
  }
  const end = results.at(-1);
  const command = end?.status === "fulfilled" ? end.value.command : "";
  if (command !== "COMMIT") {
    return { kind: "undone", meaning: "again", cause: new Error(`the server answered ${command}`) };
  }
  // Such as a wait for a synchronous standby that was cancelled or given up: it is committed here, and perhaps nowhere else (A3).
  return hasWarning
    ? { kind: "unknown", cause: new Error("the server committed with a warning") }
    : { kind: "committed" };
}

/** Of an open store, as the database has it. */
export interface Receipt {
  readonly groupNumber: number;
}

/** Whether a group whose fate was unknown has happened. Its term is over, so nothing of it can still happen. */
export function hasHappened(sent: number, receipt: Receipt): boolean {
  return receipt.groupNumber >= sent;
}
