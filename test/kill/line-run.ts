/**
 * The campaign of `npm run kill -- --line`: every provider, client, stage and kill; all of them, or those that are chosen.
 *
 * A case that fails does not end the campaign: its report names every one.
 */
import {
  checkLineCase,
  CLIENTS,
  hasLine,
  KILLED,
  type LineCase,
  nameOf,
  PROVIDERS,
  runLineCase,
  STAGES,
} from "./line-cases.ts";

export interface LineReport {
  readonly cases: number;
  readonly whole: number;
  /** Requests that the providers got in cases in which the line lived. */
  readonly requestsWithLine: number;
  readonly casesWithLine: number;
  /** From the kill to the whole answer, start of the server included: the middle one of the cases with a line. */
  readonly silentMsMedian: number;
  /** One sentence for each case that ended as it must not. */
  readonly violations: readonly string[];
}

export const LINE_CASES: readonly LineCase[] = STAGES.flatMap((stage) =>
  KILLED.flatMap((killed) =>
    PROVIDERS.flatMap((provider) => CLIENTS.map((client) => ({ provider, client, killed, stage }))),
  ),
);

export interface LineCampaign {
  readonly cycles: number;
  /** Only cases whose name has this in it. */
  readonly only: string;
  /** The k-th of n parts, from 1, so that a long campaign can be run piece by piece. */
  readonly part: readonly [k: number, n: number];
  /** So many cases run beside each other: each waits more than it works. */
  readonly atOnce: number;
  readonly say: (line: string) => void;
}

/** So many of the chosen cases, evenly spread over them. */
export function chosenCases({
  cycles,
  only,
  part: [k, n],
}: Pick<LineCampaign, "cycles" | "only" | "part">): readonly LineCase[] {
  const named = LINE_CASES.filter((one) => nameOf(one).includes(only)).filter((_, at) => at % n === k - 1);
  const count = Math.min(cycles, named.length);
  return named.filter(
    (_, at) => Math.floor((at * count) / named.length) > Math.floor(((at - 1) * count) / named.length),
  );
}

export async function runLineKills(campaign: LineCampaign): Promise<LineReport> {
  const chosen = chosenCases(campaign);
  const { say, atOnce } = campaign;
  let whole = 0;
  const violations: string[] = [];
  const requests: number[] = [];
  const silent: number[] = [];
  const play = async (one: LineCase): Promise<void> => {
    const after: (() => void | Promise<void>)[] = [];
    try {
      const outcome = await runLineCase({ after: (act) => void after.push(act) }, one);
      say(`${nameOf(one)}: ${outcome.requests} request(s), ${outcome.isWhole ? "whole" : "a clean error"}`);
      checkLineCase(one, outcome);
      if (outcome.isWhole) whole++;
      if (hasLine(one)) {
        requests.push(outcome.requests);
        silent.push(outcome.silentMs);
      }
    } catch (error) {
      const why = (error instanceof Error ? error.message : String(error)).slice(0, 1_000);
      say(`VIOLATION ${nameOf(one)}: ${why}`);
      violations.push(`${nameOf(one)}: ${why}`);
    } finally {
      for (const act of after) await act();
    }
  };
  const waiting = chosen.values();
  const work = async (): Promise<void> => {
    for (const one of waiting) await play(one);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  const sorted = silent.toSorted((a, b) => a - b);
  return {
    cases: chosen.length,
    whole,
    casesWithLine: requests.length,
    requestsWithLine: requests.reduce((sum, count) => sum + count, 0),
    silentMsMedian: Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0),
    violations,
  };
}
