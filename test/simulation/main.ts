/**
 * `npm run sim -- --seeds N [--seed S] [--trace]`: runs the production code in the deterministic
 * world, seed after seed, and says what it met. There are three kinds of worlds: clients and servers of streams, the gateway, and two nodes of a gateway on one database.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { parse, refuse, whole } from "../../scripts/arguments.ts";
import { GATEWAY_KINDS } from "./gateway/kinds.ts";
import { NODES_KINDS, runNodesSeed } from "./gateway/nodes-scenario.ts";
import { runGatewaySeed } from "./gateway/scenario.ts";
import { caughtSeeds } from "./mutants/record.ts";
import { ALL_KINDS, runSeed, type SeedResult } from "./scenario.ts";
import { Counters, WorldFailure } from "./world/index.ts";

const HELP = `npm run sim -- [options]
  --seeds N     how many seeds of streams to run (default 100); a fifth as many of the gateway, and a fortieth of its nodes
  --only WORLD  "streams", "gateway" or "nodes": only those, N seeds of them
  --from S      the first seed (default 1)
  --seed S      one seed only, twice, and check that both runs are identical (of streams, unless --only says otherwise)
  --trace       print every line of the trace (with --seed)
  --seconds T   stop after T seconds of each world instead of after N seeds
  A run of 800 seeds of streams, or 160 of the gateway, or 20 of its nodes, or more must meet every kind of fault and every condition; where some are missing it
  takes more seeds, up to four times as many, and fails if they are missing still. From seed 1 on it also runs those seeds behind its last one that notice planted bugs.
  --help        this text`;

interface Campaign {
  readonly name: string;
  readonly run: (seed: number, print?: (line: string) => void) => Promise<SeedResult>;
  readonly kinds: readonly string[];
  /** A handful of seeds cannot meet everything; so many must, or a few times as many. */
  readonly seeds: number;
  /** Seeds that a campaign from the first one on runs as well. */
  readonly always?: readonly number[];
}

const STREAMS: Campaign = {
  name: "streams",
  run: runSeed,
  kinds: ALL_KINDS,
  seeds: 800,
  always: caughtSeeds("streams"),
};
const GATEWAY: Campaign = {
  name: "gateway",
  run: runGatewaySeed,
  kinds: GATEWAY_KINDS,
  seeds: 160,
  always: caughtSeeds("gateway"),
};
const NODES: Campaign = {
  name: "nodes",
  run: runNodesSeed,
  kinds: NODES_KINDS,
  seeds: 20,
  always: caughtSeeds("nodes"),
};
/** A seed of the gateway costs some five times as much, one of its nodes some forty times. */
const SHARES = { gateway: 5, nodes: 40 } as const;
const CAMPAIGN_FACTOR_MAX = 4;

const values = parse(
  {
    seeds: { type: "string" },
    from: { type: "string" },
    seed: { type: "string" },
    only: { type: "string" },
    seconds: { type: "string" },
    trace: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
  HELP,
);

const only = [STREAMS, GATEWAY, NODES].find(({ name }) => name === values.only);
if (values.only !== undefined && only === undefined) refuse("--only is streams, gateway or nodes", HELP);

if (values.help) {
  print(HELP);
} else if (values.seed !== undefined) {
  const many = (["seeds", "from", "seconds"] as const).filter((name) => values[name] !== undefined);
  if (many.length > 0) refuse(`--seed runs one seed; it does not go with --${many.join(" and --")}`, HELP);
  await runOne(only ?? STREAMS, whole(values.seed, "seed", 0, HELP), values.trace);
} else {
  if (values.trace) refuse("--trace goes with --seed", HELP);
  const seconds = values.seconds === undefined ? undefined : whole(values.seconds, "seconds", 1, HELP);
  const from = whole(values.from ?? "1", "from", 0, HELP);
  const seeds = whole(values.seeds ?? "100", "seeds", 1, HELP);
  if (only !== undefined) await runMany(only, from, seeds, seconds);
  else {
    const beside = async (): Promise<void> => {
      await runBeside(GATEWAY, from, Math.ceil(seeds / SHARES.gateway), seconds);
      await runBeside(NODES, from, Math.ceil(seeds / SHARES.nodes), seconds);
    };
    await Promise.all([runMany(STREAMS, from, seeds, seconds), beside()]);
  }
}

// Worlds that are over leave real timers behind, of uploads that were cut.
process.exit();

/** In a process of its own: each campaign keeps one core busy. What it prints comes at its end, in one piece. */
async function runBeside(
  campaign: Campaign,
  from: number,
  count: number,
  seconds: number | undefined,
): Promise<void> {
  const given = { only: campaign.name, from, seeds: count, ...(seconds === undefined ? {} : { seconds }) };
  const args = Object.entries(given).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn(process.execPath, [...process.execArgv, import.meta.filename, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [printed] = await Promise.all([text(child.stdout), once(child, "close")]);
  print(printed.trimEnd());
  if (child.exitCode !== 0) process.exitCode = 1;
}

async function runOne(campaign: Campaign, seed: number, isTraced: boolean): Promise<void> {
  const first = await attempt(campaign, seed, isTraced ? print : undefined);
  if (first === undefined) return;
  const second = await attempt(campaign, seed, undefined);
  if (first.traceHash !== second?.traceHash) {
    print(`seed ${seed} does not replay: ${first.traceHash} and ${second?.traceHash}`);
    process.exitCode = 1;
    return;
  }
  print(`seed ${seed}: ${first.steps} steps, trace ${first.traceHash}, replayed to the same trace`);
}

async function runMany(
  campaign: Campaign,
  from: number,
  count: number,
  seconds: number | undefined,
): Promise<void> {
  const counters = new Counters();
  counters.expect(campaign.kinds);
  const startMs = performance.now();
  /** With a time, until it is over; else so many seeds, and in a campaign more while something was not met. */
  const isWanted = (run: number): boolean => {
    if (seconds !== undefined) return performance.now() < startMs + seconds * 1_000;
    if (run < count) return true;
    const isCampaign = count >= campaign.seeds && run < count * CAMPAIGN_FACTOR_MAX;
    return isCampaign && counters.neverHit().length > 0;
  };
  let seeds = 0;
  let steps = 0;
  let simulatedMs = 0;
  let shownMs = startMs;
  const isFirst = from === 1 && seconds === undefined && count >= campaign.seeds;
  const beyond = isFirst ? (campaign.always ?? []).filter((seed) => seed > count) : [];
  function* numbers(): Generator<number> {
    yield* beyond;
    for (let seed = from; isWanted(seed - from); seed++) yield seed;
  }
  for (const seed of numbers()) {
    const result = await attempt(campaign, seed, undefined);
    if (result === undefined) return;
    seeds++;
    steps += result.steps;
    simulatedMs += result.simulatedMs;
    counters.merge(result.hits);
    if (performance.now() - shownMs > 10_000) {
      shownMs = performance.now();
      print(`... ${seeds} seeds, ${steps.toLocaleString("en")} steps`);
    }
  }
  const elapsed = (performance.now() - startMs) / 1_000;
  printHits(counters);
  const perSecond = Math.round(steps / elapsed).toLocaleString("en");
  const hours = Math.round(simulatedMs / 3_600_000).toLocaleString("en");
  print(
    `${campaign.name}: ${seeds} seeds, ${steps.toLocaleString("en")} steps, ${perSecond} steps/s, ${hours} simulated hours, no violation`,
  );
  const missed = counters.neverHit();
  if (missed.length > 0 && seeds >= campaign.seeds) {
    print(`never hit: ${missed.join(", ")}`);
    process.exitCode = 1;
  }
}

async function attempt(
  campaign: Campaign,
  seed: number,
  trace: ((line: string) => void) | undefined,
): Promise<SeedResult | undefined> {
  try {
    return await campaign.run(seed, trace);
  } catch (failure) {
    process.exitCode = 1;
    if (!(failure instanceof WorldFailure)) throw failure;
    print(failure.lines.slice(-60).join("\n"));
    const cause = failure.cause instanceof Error ? (failure.cause.stack ?? "") : "";
    print(`\n${cause}\n\nVIOLATION ${failure.message}`);
    print(`replay with: npm run sim -- --only ${campaign.name} --seed ${seed} --trace`);
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
