/**
 * `npm run mutate [-- --seed S] [--count N] [--from K] [--only TEXT]`: draws mutations of the upper floors by lot, and looks whether a test notices.
 *
 * The tests that are tried: the likeliest (`likely-tests.ts`), then the simulation where it runs the file, then the other tests. The
 * first failure ends the trial. A survivor is a hole in the tests, or a change that makes no difference; `survivors.ts`
 * has the reason for each of the second kind.
 */
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parse, refuse, whole } from "../../../scripts/arguments.ts";
import type { Patch } from "../../simulation/mutants/patch.ts";
import { runPatched } from "../run.ts";
import { draw, ROOMS } from "./drawing.ts";
import { distanceTo, likelyTests } from "./likely-tests.ts";
import { SURVIVORS } from "./survivors.ts";

const HELP = `npm run mutate -- [options]
  --seed S     which mutations are drawn (default 1)
  --count N    how many are drawn (default 40)
  --from K     leave out the first K of them: goes on with a run that was broken off (default 0)
  --only TEXT  of these only those in files whose path contains TEXT
  --likeliest  try only the likeliest tests and the simulation, to see soon where to look; what they miss is not yet a survivor
  --list       print them, run nothing
  --help       this text

Drawn from ${ROOMS.join(", ")}. A mutation that no test notices and that
test/mutations/drawn/survivors.ts does not explain fails the run.`;

const values = parse(
  {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "40" },
    from: { type: "string", default: "0" },
    only: { type: "string", default: "" },
    likeliest: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
  HELP,
);

/** So many test files in one run of the test runner. */
const BATCH = 4;
/** So many tests go before the simulation. */
const LIKELIEST = 8;
const SIMULATION = "test/simulation/main.ts";
const SIMULATION_SEEDS = 150;

if (values.help) print(HELP);
else {
  const [seed, count] = [whole(values.seed, "seed", 0, HELP), whole(values.count, "count", 1, HELP)];
  await main(seed, draw(seed, count).slice(whole(values.from, "from", 0, HELP)));
}

async function main(seed: number, all: readonly Patch[]): Promise<void> {
  const drawn = all.filter(({ file }) => file.includes(values.only));
  if (drawn.length === 0) refuse(`no mutation of seed ${seed} is in a file with "${values.only}"`, HELP);
  const tests = globSync("test/**/*.test.ts").toSorted();
  const waiting = [...drawn];
  let holes = 0;
  let explained = 0;
  const worker = async (): Promise<void> => {
    for (let patch = waiting.shift(); patch !== undefined; patch = waiting.shift()) {
      const shown = describe(patch);
      if (values.list) {
        print(shown);
        continue;
      }
      const beganMs = performance.now();
      const verdict = await tryPatch(patch, tests);
      const seconds = ((performance.now() - beganMs) / 1_000).toFixed(0);
      const why = verdict === undefined ? reasonFor(patch) : undefined;
      if (why !== undefined) explained += 1;
      else if (verdict === undefined) holes += 1;
      const missed = values.likeliest ? "not noticed by the likeliest tests" : "SURVIVED";
      const said = verdict ?? (why === undefined ? missed : `survives, rightly: ${why}`);
      print(`${shown}\n    ${said} (${seconds} s)`);
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, availableParallelism() - 1) }, worker));
  if (values.list) return;
  print(`${drawn.length - holes - explained} noticed, ${explained} explained, ${holes} survived`);
  if (holes > 0) process.exitCode = 1;
}

/** What noticed; undefined when nothing did. */
async function tryPatch(patch: Patch, tests: readonly string[]): Promise<string | undefined> {
  const likely = likelyTests(patch.file, tests);
  const isSimulated = distanceTo(patch.file, SIMULATION) !== undefined;
  const trials = [
    ...batches(likely.slice(0, LIKELIEST)),
    ...(isSimulated ? [[SIMULATION, "--seeds", String(SIMULATION_SEEDS)]] : []),
    ...batches(values.likeliest ? [] : likely.slice(LIKELIEST)),
  ];
  for (const args of trials) {
    const failure = await runPatched([patch], args);
    if (failure !== undefined)
      return `noticed${args[0] === SIMULATION ? " by the simulation" : ""}: ${failure}`;
  }
  return undefined;
}

function batches(tests: readonly string[]): readonly (readonly string[])[] {
  return Array.from({ length: Math.ceil(tests.length / BATCH) }, (_, at) => [
    "--test",
    "--test-reporter=tap",
    "--test-timeout=120000",
    ...tests.slice(at * BATCH, (at + 1) * BATCH),
  ]);
}

function reasonFor({ file, from, to }: Patch): string | undefined {
  return SURVIVORS.find((one) => one.file === file && from.includes(one.from) && to.includes(one.to))?.why;
}

function describe({ file, from, to }: Patch): string {
  const before = from.split("\n");
  const after = to.split("\n");
  const at = before.findIndex((line, index) => line !== after[index]);
  return `${file}\n  - ${(before[at] ?? "").trim()}\n  + ${(after[at] ?? "").trim()}`;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
