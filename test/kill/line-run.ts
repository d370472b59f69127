/** The campaign of `npm run kill -- --line`: every provider, client, stage and kill, in an order that a seed decides. */
import {
  checkLineCase,
  CLIENTS,
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
}

export const LINE_CASES: readonly LineCase[] = STAGES.flatMap((stage) =>
  KILLED.flatMap((killed) =>
    PROVIDERS.flatMap((provider) => CLIENTS.map((client) => ({ provider, client, killed, stage }))),
  ),
);

/** So many of the cases, evenly spread over all. */
export async function runLineKills({
  cycles,
  say,
}: {
  readonly cycles: number;
  readonly say: (line: string) => void;
}): Promise<LineReport> {
  const chosen = Array.from(
    { length: Math.min(cycles, LINE_CASES.length) },
    (_, at) => LINE_CASES[Math.floor((at * LINE_CASES.length) / Math.min(cycles, LINE_CASES.length))],
  );
  let whole = 0;
  const requests: number[] = [];
  const silent: number[] = [];
  for (const one of chosen) {
    if (one === undefined) continue;
    const after: (() => void | Promise<void>)[] = [];
    try {
      const outcome = await runLineCase({ after: (act) => void after.push(act) }, one);
      say(`${nameOf(one)}: ${outcome.requests} request(s), ${outcome.isWhole ? "whole" : "a clean error"}`);
      checkLineCase(one, outcome);
      if (outcome.isWhole) whole++;
      if (one.killed === "server" || one.killed === "group") {
        requests.push(outcome.requests);
        silent.push(outcome.silentMs);
      }
    } finally {
      for (const act of after) await act();
    }
  }
  const sorted = silent.toSorted((a, b) => a - b);
  return {
    cases: chosen.length,
    whole,
    casesWithLine: requests.length,
    requestsWithLine: requests.reduce((sum, count) => sum + count, 0),
    silentMsMedian: Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0),
  };
}
