/**
 * `npm run mutate [-- --seed S] [--count N] [--only TEXT]`: draws mutations of the upper floors by lot, and looks whether a test notices.
 *
 * The tests that are tried: first those that import the changed file, then those of its room, then the simulation. The
 * first that fails ends the trial. A survivor is a hole in the tests, or a change that makes no difference; `survivors.ts`
 * has the reason for each of the second kind.
 */
import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path/posix";
import { availableParallelism } from "node:os";
import { parse, refuse, whole } from "../../../scripts/arguments.ts";
import type { Patch } from "../../simulation/mutants/patch.ts";
import { runPatched } from "../run.ts";
import { draw, ROOMS } from "./drawing.ts";
import { SURVIVORS } from "./survivors.ts";

const HELP = `npm run mutate -- [options]
  --seed S     which mutations are drawn (default 1)
  --count N    how many (default 40)
  --only TEXT  of these only those in files whose path contains TEXT
  --list       print them, run nothing
  --help       this text

Drawn from ${ROOMS.join(", ")}. A mutation that no test notices and that
test/mutations/drawn/survivors.ts does not explain fails the run.`;

const values = parse(
  {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "40" },
    only: { type: "string", default: "" },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
  HELP,
);

/** So many test files in one run of the test runner: it does not stop at the first failure. */
const BATCH = 4;
const SIMULATION_SEEDS = 150;

if (values.help) print(HELP);
else await main(whole(values.seed, "seed", 0, HELP), whole(values.count, "count", 1, HELP));

async function main(seed: number, count: number): Promise<void> {
  const drawn = draw(seed, count).filter(({ file }) => file.includes(values.only));
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
      const said = verdict ?? (why === undefined ? "SURVIVED" : `survives, rightly: ${why}`);
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
  for (const batch of batchesFor(patch.file, tests)) {
    const failure = await runPatched([patch], ["--test", "--test-reporter=tap", ...batch]);
    if (failure !== undefined) return `noticed: ${failure}`;
  }
  const failure = await runPatched([patch], ["test/simulation/main.ts", "--seeds", String(SIMULATION_SEEDS)]);
  return failure === undefined ? undefined : `noticed by the simulation: ${failure}`;
}

/** Tests that import the file, then those of its folder, then those of its room, then those of the whole. */
function batchesFor(file: string, tests: readonly string[]): readonly (readonly string[])[] {
  const near = dirname(file).replace("src/", "test/");
  const [, room = ""] = file.split("/");
  const distance = (test: string): number => {
    if (importsOf(test).includes(file)) return 0;
    if (dirname(test) === near) return 1;
    if (test.startsWith(`test/${room}/`)) return 2;
    return /^test\/(?:e2e|simulation)\//.test(test) ? 3 : 4;
  };
  return [0, 1, 2, 3].flatMap((wanted) => {
    const all = tests.filter((test) => distance(test) === wanted);
    return Array.from({ length: Math.ceil(all.length / BATCH) }, (_, at) =>
      all.slice(at * BATCH, (at + 1) * BATCH),
    );
  });
}

function importsOf(test: string): readonly string[] {
  const text = readFileSync(test, "utf8");
  return [...text.matchAll(/from "(\.[^"]+)"/g)].map(([, path = ""]) => normalize(join(dirname(test), path)));
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
