/**
 * `npm run sim -- --seeds N [--seed S] [--trace]`: runs the production code in the deterministic
 * world, seed after seed, and says what it met.
 */
import { parse, refuse, whole } from "../../scripts/arguments.ts";
import { ALL_KINDS, runSeed, type SeedResult } from "./scenario.ts";
import { Counters, WorldFailure } from "./world/index.ts";

const HELP = `npm run sim -- [options]
  --seeds N     how many seeds to run (default 100)
  --from S      the first seed (default 1)
  --seed S      one seed only, twice, and check that both runs are identical
  --trace       print every line of the trace (with --seed)
  --seconds T   stop after T seconds instead of after N seeds
  A run of 800 seeds or more must meet every kind of fault and every condition; where some are missing it
  takes more seeds, up to four times as many, and fails if they are missing still.
  --help        this text`;

/** A handful of seeds cannot meet everything; a campaign of so many must, or of a few times as many. */
const CAMPAIGN_SEEDS = 800;
const CAMPAIGN_FACTOR_MAX = 4;

const values = parse(
  {
    seeds: { type: "string" },
    from: { type: "string" },
    seed: { type: "string" },
    seconds: { type: "string" },
    trace: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
  HELP,
);

if (values.help) {
  print(HELP);
} else if (values.seed !== undefined) {
  const many = (["seeds", "from", "seconds"] as const).filter((name) => values[name] !== undefined);
  if (many.length > 0) refuse(`--seed runs one seed; it does not go with --${many.join(" and --")}`, HELP);
  await runOne(whole(values.seed, "seed", 0, HELP), values.trace);
} else {
  if (values.trace) refuse("--trace goes with --seed", HELP);
  const seconds = values.seconds === undefined ? undefined : whole(values.seconds, "seconds", 1, HELP);
  const from = whole(values.from ?? "1", "from", 0, HELP);
  await runMany(from, whole(values.seeds ?? "100", "seeds", 1, HELP), seconds);
}

async function runOne(seed: number, isTraced: boolean): Promise<void> {
  const first = await attempt(seed, isTraced ? print : undefined);
  if (first === undefined) return;
  const second = await attempt(seed, undefined);
  if (first.traceHash !== second?.traceHash) {
    print(`seed ${seed} does not replay: ${first.traceHash} and ${second?.traceHash}`);
    process.exitCode = 1;
    return;
  }
  print(`seed ${seed}: ${first.steps} steps, trace ${first.traceHash}, replayed to the same trace`);
}

async function runMany(from: number, count: number, seconds: number | undefined): Promise<void> {
  const counters = new Counters();
  counters.expect(ALL_KINDS);
  const startMs = performance.now();
  /** With a time, until it is over; else so many seeds, and in a campaign more while something was not met. */
  const isWanted = (run: number): boolean => {
    if (seconds !== undefined) return performance.now() < startMs + seconds * 1_000;
    if (run < count) return true;
    const isCampaign = count >= CAMPAIGN_SEEDS && run < count * CAMPAIGN_FACTOR_MAX;
    return isCampaign && counters.neverHit().length > 0;
  };
  let seeds = 0;
  let steps = 0;
  let simulatedMs = 0;
  let shownMs = startMs;
  for (; isWanted(seeds); seeds++) {
    const result = await attempt(from + seeds, undefined);
    if (result === undefined) return;
    steps += result.steps;
    simulatedMs += result.simulatedMs;
    counters.merge(result.hits);
    if (performance.now() - shownMs > 10_000) {
      shownMs = performance.now();
      print(`... ${seeds + 1} seeds, ${steps.toLocaleString("en")} steps`);
    }
  }
  const elapsed = (performance.now() - startMs) / 1_000;
  printHits(counters);
  const perSecond = Math.round(steps / elapsed).toLocaleString("en");
  const hours = Math.round(simulatedMs / 3_600_000).toLocaleString("en");
  print(
    `${seeds} seeds, ${steps.toLocaleString("en")} steps, ${perSecond} steps/s, ${hours} simulated hours, no violation`,
  );
  const missed = counters.neverHit();
  if (missed.length > 0 && seeds >= CAMPAIGN_SEEDS) {
    print(`never hit: ${missed.join(", ")}`);
    process.exitCode = 1;
  }
}

async function attempt(
  seed: number,
  trace: ((line: string) => void) | undefined,
): Promise<SeedResult | undefined> {
  try {
    return await runSeed(seed, trace);
  } catch (failure) {
    process.exitCode = 1;
    if (!(failure instanceof WorldFailure)) throw failure;
    print(failure.lines.slice(-60).join("\n"));
    const cause = failure.cause instanceof Error ? (failure.cause.stack ?? "") : "";
    print(`\n${cause}\n\nVIOLATION ${failure.message}`);
    print(`replay with: npm run sim -- --seed ${seed} --trace`);
    return undefined;
  }
}

function printHits(counters: Counters): void {
  const hits = Object.entries(counters.toJSON());
  const width = Math.max(...hits.map(([kind]) => kind.length));
  for (const [kind, count] of hits) print(`${kind.padEnd(width)} ${count.toLocaleString("en").padStart(12)}`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
