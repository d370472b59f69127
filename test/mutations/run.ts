/**
 * Runs one test with one mutation in place, and tells whether the test noticed.
 *
 * The patches reach every process and thread that the test starts, through NODE_OPTIONS. A test counts as having noticed
 * only when it failed itself: a file that does not load, a patch that does not fit, or one that names what is not there, is an error of the table.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { applyPatch, type Patch } from "../simulation/mutants/patch.ts";
import type { Mutation } from "./mutation.ts";

const root = new URL("../../", import.meta.url);
/** A test that hangs under a mutation has noticed it. */
const HANGING_MS = 120_000;
/** As long as all tests of a run may take together, on a machine with much else to do. */
const RUN_MS = 900_000;
const FIRST_FAILURE = /^\s*not ok \d+ - (.*)\n/m;
/** What V8 says of a name that the source does not have any more: that is no mutation. */
const NO_PROGRAM = / is not (?:a function|defined)\b/;
/** The last line of a run: everything is told. A process that does not end behind it, which was seen once in some hundred, is ended. */
const LAST_LINE = /^# duration_ms .*\n/m;
/** Where `npm test` keeps what its processes compile. */
const compiled = fileURLToPath(new URL("node_modules/.cache/holdfast-compiled", root));
const plant = new URL("../simulation/mutants/plant.ts", import.meta.url).href;

/** Resolves with the reason of the failure when the test noticed, undefined when it passed. Rejects when nothing was tried. */
export async function runMutation({ patches, file, test }: Mutation): Promise<string | undefined> {
  checkFit(patches);
  const { output } = await run(patches, argumentsFor(file, test), LAST_LINE, 2 * HANGING_MS);
  const [, passed = "0"] = /^# pass (\d+)$/m.exec(output) ?? [];
  const failure = failureOf(output, test);
  if (failure !== undefined && NO_PROGRAM.test(failure)) throw new Error(`it is no program: ${failure}`);
  if (failure === undefined && passed === "0") throw new Error(`no test ran: ${lastLinesOf(output)}`);
  return failure;
}

/** Throws when a patch is not in its file exactly once. A second patch of a file sees what the first has made of it. */
export function checkFit(patches: readonly Patch[]): void {
  const texts = new Map<string, string>();
  for (const patch of patches) {
    const before = texts.get(patch.file) ?? readFileSync(new URL(patch.file, root), "utf8");
    texts.set(patch.file, applyPatch(before, patch));
  }
}

/**
 * Runs Node with the patches in place, until the first test fails. Resolves with the first reason when it failed, undefined when
 * all passed.
 */
export async function runPatched(
  patches: readonly Patch[],
  args: readonly string[],
): Promise<string | undefined> {
  const { code, output } = await run(patches, args, FIRST_FAILURE, RUN_MS);
  if (code === 0) return undefined;
  const [, name] = FIRST_FAILURE.exec(output) ?? [];
  return name ?? lastLinesOf(output);
}

function argumentsFor(file: string, test: string): readonly string[] {
  return [
    "--test",
    "--test-isolation=none",
    "--test-reporter=tap",
    "--test-force-exit",
    `--test-timeout=${String(HANGING_MS)}`,
    `--test-name-pattern=${test.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)}`,
    file,
  ];
}

/** A mutation may have made a loop without end: who stops the runner must not leave it running. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

function leave(): void {
  process.exit(1);
}

/** Ends when Node does, when its output matches `until`, or after so long; then with all processes that it has started. */
function run(
  patches: readonly Patch[],
  args: readonly string[],
  until: RegExp,
  atMostMs: number,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: {
      NODE_COMPILE_CACHE: compiled,
      ...env,
      NODE_OPTIONS: `--import=${plant}`,
      HOLDFAST_PATCHES: JSON.stringify(patches),
    },
    stdio: ["ignore", "pipe", "pipe"],
    // A process group of its own, so that it can be ended as a whole.
    detached: true,
  });
  const end = (): void => {
    const isRunning = child.exitCode === null && child.signalCode === null && !child.killed;
    // The group, and then the child, which is marked as killed by that.
    if (isRunning && child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    child.kill("SIGKILL");
  };
  const timer = setTimeout(end, atMostMs);
  process.once("exit", end);
  for (const signal of SIGNALS) process.once(signal, leave);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      if (until.test(output)) end();
    });
  }
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      process.off("exit", end);
      for (const signal of SIGNALS) process.off(signal, leave);
      resolve({ code, output });
    });
  });
}

/** The reason that the named test, or one below it, gave. */
function failureOf(output: string, test: string): string | undefined {
  const escaped = test.replaceAll("#", String.raw`\#`);
  const lines = output.split("\n");
  const at = lines.findIndex((line) => /^\s*not ok \d+ - /.test(line) && line.includes(escaped));
  if (at === -1) return undefined;
  const error = lines.slice(at).findIndex((line) => /^\s*error: /.test(line));
  if (error === -1) return "failed";
  const [, first = ""] = /error: (.*)$/.exec(lines[at + error] ?? "") ?? [];
  return first.startsWith("|") ? (lines[at + error + 1] ?? "").trim() : first;
}

function lastLinesOf(output: string): string {
  return output.trim().split("\n").slice(-8).join(" / ");
}
