/**
 * What is being measured and how long it may still take, on stderr: the table has stdout to itself.
 */

export interface Progress {
  step(what: string): void;
}

/** `stepCount` over the whole run; the time left is what the steps so far took on average. */
export function stderrProgress(stepCount: number): Progress {
  const startedMs = performance.now();
  let begun = 0;
  return {
    step(what) {
      const left = begun === 0 ? "" : `, ${timeLeft(startedMs, begun, stepCount)} left`;
      begun++;
      process.stderr.write(`[${begun}/${Math.max(begun, stepCount)}] ${what}${left}\n`);
    },
  };
}

function timeLeft(startedMs: number, done: number, stepCount: number): string {
  const seconds = ((performance.now() - startedMs) / 1000 / done) * Math.max(0, stepCount - done);
  return seconds < 90 ? `about ${Math.ceil(seconds)} s` : `about ${Math.round(seconds / 60)} min`;
}
