/**
 * `npm test`: everything that has to hold, in the order in which it is cheapest to learn that it does not.
 *
 * `npm test -- lint core` runs only the stages named. A failing stage does not stop the ones after it,
 * so one run tells everything. The last line counts tests, and one for each stage that is no test run.
 *
 * Tests wait for processes, disks and timers for a part of their time. Stages that only compute, in virtual time, run from the beginning at a lower priority, one after
 * the other: they take what the others leave of the processor, and print what they have to say at their end. So do lint and types beside `core`, which is one process.
 */
import { spawn } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { availableParallelism, constants, setPriority } from "node:os";
import { resolve } from "node:path";
import { bundleCommand } from "./tested-command.ts";

interface Stage {
  readonly name: string;
  readonly about: string;
  readonly command: readonly [string, ...string[]];
  /** The test files of a test run. A run without any would pass for nothing, so it fails. */
  readonly tests?: readonly string[];
  /** It only computes: it runs beside the stage of this name when that one is wanted as well, or beside all. */
  readonly beside?: "core" | "all";
  /** A stage that measures coverage compiles everything anew: code from the cache has lost where its lines are. */
  readonly compilesAnew?: boolean;
  /** Its tests start the command: it is bundled for them once. */
  readonly startsCommand?: boolean;
  /** Variables of its own. */
  readonly env?: Readonly<Record<string, string>>;
}

interface Outcome {
  readonly name: string;
  readonly seconds: number;
  readonly passed: number;
  readonly failed: number;
  /** Tests that could not run here, each with its reason. */
  readonly skipped: readonly string[];
  /** What the test runner says of those that failed. */
  readonly why: string;
}

/** Some four minutes of computing, with a fifth as many seeds of the gateway and a fortieth of its nodes. `npm run sim -- --seeds N` runs as many as you like. */
const simulationSeeds = 800;

const tests = globSync("test/**/*.test.ts").toSorted();
/** Tests of the two folders without I/O, of the driver that runs the turn's decisions, and of the gateway's machine. */
const isPure = (path: string): boolean =>
  /^test\/(?:core|turn)\/|^test\/agent\/[^/]+$|^test\/gateway\/session\.test/.test(path);
/** Tests whose gateway reads and writes its tables as one of several nodes when it is told to. */
const isOfWorlds = (path: string): boolean =>
  path.startsWith("test/gateway/") && readFileSync(path, "utf8").includes('/world.ts"');
/** Generous: a test that takes longer waits for something that will not come. */
const testMs = 300_000;
/** Tests wait for processes, disks and timers for half of their time: with two files for each core, and one more, the cores stay busy. */
const atOnce = 2 * availableParallelism() + 1;
const runTests = [
  "--test",
  "--test-reporter=spec",
  `--test-concurrency=${String(atOnce)}`,
  `--test-timeout=${String(testMs)}`,
];

/** Some thousand processes are started by the tests. With what they compile kept, each starts in half the time. */
const compiled = resolve("node_modules/.cache/holdfast-compiled");

const stages: readonly Stage[] = [
  { name: "format", about: "the format (oxfmt)", command: ["npm", "run", "--silent", "format:check"] },
  {
    name: "lint",
    about: "lint, type-aware (oxlint)",
    command: ["npm", "run", "--silent", "lint"],
    beside: "core",
  },
  {
    name: "types",
    about: "types, for Node and for browsers (tsc)",
    command: ["npm", "run", "--silent", "typecheck"],
    beside: "core",
  },
  {
    name: "core",
    about: "tests of the core and the turn, which must cover 100 % of their lines and 95 % of their branches",
    command: [
      "node",
      "--import=./scripts/load-core.ts",
      "--experimental-test-coverage",
      "--test-coverage-include=src/core/**",
      "--test-coverage-include=src/turn/**",
      "--test-coverage-include=src/gateway/session.ts",
      "--test-coverage-lines=100",
      "--test-coverage-branches=95",
      // Without I/O they need no process each: the code is loaded once. And what counts as covered was run, which the sum over many processes does not say.
      "--test-isolation=none",
      ...runTests,
    ],
    tests: tests.filter(isPure),
    compilesAnew: true,
  },
  {
    name: "unit",
    about: "all other tests",
    command: ["node", ...runTests],
    tests: tests.filter((path) => !isPure(path)),
    startsCommand: true,
  },
  {
    name: "shared",
    about: "tests of the gateway again, over tables that other nodes could share",
    command: ["node", ...runTests],
    tests: tests.filter(isOfWorlds),
    env: { HOLDFAST_SHARED_WORLDS: "1" },
  },
  {
    name: "sim",
    about: `simulation, ${String(simulationSeeds)} seeds of streams, a fifth as many of the gateway and a fortieth of its nodes`,
    command: ["npm", "run", "--silent", "sim", "--", "--seeds", String(simulationSeeds)],
    beside: "all",
  },
  {
    name: "mutants",
    about: "simulation of planted bugs, each of which must be caught",
    command: ["npm", "run", "--silent", "sim:mutants"],
    beside: "all",
  },
  {
    name: "mutations",
    about: "every fifth mend taken back, each of which a test must notice (npm run mutations: all of them)",
    command: ["npm", "run", "--silent", "mutations", "--", "--every", "5"],
  },
];

/** Runs a command, and returns its exit code and standard output. `isBeside`: its priority is lower, and nothing of it is shown as it comes. */
async function run(
  command: string,
  args: readonly string[],
  { env, isBeside }: { readonly env: NodeJS.ProcessEnv; readonly isBeside: boolean },
): Promise<{ code: number; output: string }> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"], env });
  if (isBeside && child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL);
  let output = "";
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (text: string) => {
    output += text;
    if (!isBeside) process.stdout.write(text);
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      resolve({ code: code ?? 1, output });
    });
  });
}

/** A number of the summary that node's test runner prints. */
function counted(output: string, what: "pass" | "fail" | "cancelled"): number {
  return Number(new RegExp(`^ℹ ${what} (\\d+)$`, "m").exec(output)?.[1] ?? 0);
}

/** As the runner's reporter writes them: a small minus sign, the test, and why. */
function skippedOf(output: string): readonly string[] {
  return [...output.matchAll(/^\s*\ufe63 (.*)$/gm)].map(([, said = ""]) => said);
}

/** What node's test runner repeats at its end. */
function failuresOf(output: string): string {
  const at = output.lastIndexOf("\n✖ failing tests:");
  return at === -1 ? "" : output.slice(at + 1);
}

async function runStage(stage: Stage, { isBeside }: { readonly isBeside: boolean }): Promise<Outcome> {
  const { name, about, command, tests, compilesAnew, startsCommand, env: own } = stage;
  const heading = `\n== ${name}: ${about}`;
  if (!isBeside) console.log(heading);
  const began = performance.now();
  const outcome = (passed: number, failed: number, why = "", skipped: readonly string[] = []): Outcome => {
    return { name, seconds: (performance.now() - began) / 1000, passed, failed, skipped, why };
  };
  if (tests?.length === 0) {
    console.log("there are no such tests");
    return outcome(0, 1);
  }
  const [program, ...args] = command;
  const env = {
    ...process.env,
    ...own,
    ...(compilesAnew === true ? {} : { NODE_COMPILE_CACHE: compiled }),
    ...(startsCommand === true ? { HOLDFAST_TESTED_COMMAND: await bundleCommand() } : {}),
  };
  const { code, output } = await run(program, [...args, ...(tests ?? [])], { env, isBeside });
  if (isBeside) console.log(`${heading}\n${output.trimEnd()}\n`);
  if (tests === undefined) return code === 0 ? outcome(1, 0) : outcome(0, 1);
  // A run may fail without a failing test: coverage below its bound, a file that does not load.
  const failed = counted(output, "fail") + counted(output, "cancelled");
  const isBad = code === 0 ? failed : Math.max(1, failed);
  return outcome(counted(output, "pass"), isBad, failuresOf(output), skippedOf(output));
}

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !stages.some((stage) => stage.name === name));
if (unknown.length > 0) {
  console.error(
    `no such stage: ${unknown.join(", ")}; there are ${stages.map(({ name }) => name).join(", ")}`,
  );
  process.exit(2);
}

console.log(`Node ${process.version}`);
const chosen = stages.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
const isBeside = ({ beside }: Stage): boolean =>
  beside === "all"
    ? chosen.some((other) => other.beside !== beside)
    : chosen.some(({ name }) => name === beside);

/** One after the other. */
async function runAll(
  some: readonly Stage[],
  how: { readonly isBeside: boolean },
): Promise<readonly Outcome[]> {
  const all: Outcome[] = [];
  for (const stage of some) {
    const others = chosen.filter(({ beside }) => beside === stage.name);
    const [own, more] = await Promise.all([runStage(stage, how), runAll(others, { isBeside: true })]);
    all.push(own, ...more);
  }
  return all;
}

const front = chosen.filter((stage) => !isBeside(stage));
const behind = chosen.filter((stage) => stage.beside === "all" && isBeside(stage));
const outcomes = (
  await Promise.all([runAll(front, { isBeside: false }), runAll(behind, { isBeside: true })])
).flat();

// Again, where nobody has to look for it among what the stages behind it said.
for (const { name, why } of outcomes) if (why !== "") console.log(`\n== ${name}, once more: ${why}`);

const skipped = outcomes.flatMap((outcome) => outcome.skipped);
if (skipped.length > 0) console.log(`\n== SKIPPED, ${skipped.length} tests:\n${skipped.join("\n")}`);

console.log("");
for (const { name, seconds, passed, failed } of outcomes) {
  const verdict = failed === 0 ? "ok" : "FAILED";
  console.log(
    `${name.padEnd(9)} ${seconds.toFixed(1).padStart(6)} s  ${verdict}  ${String(passed)} passed, ${String(failed)} failed`,
  );
}
const total = (which: "passed" | "failed"): number =>
  outcomes.reduce((sum, outcome) => sum + outcome[which], 0);
console.log(`\n${String(total("passed"))} passed, ${String(total("failed"))} failed`);
process.exitCode = total("failed") === 0 ? 0 : 1;
