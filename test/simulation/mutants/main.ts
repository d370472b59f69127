/**
 * `npm run sim:mutants [-- --seeds N] [--only TEXT] [--json FILE]`: plants each bug and looks which
 * seed of the simulator notices it first. A bug that survives all seeds fails the run.
 */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { type Mutant, MUTANTS } from "./table.ts";

const HELP = `npm run sim:mutants -- [options]
  --seeds N     so many seeds may a planted bug survive at most (default 1000)
  --only TEXT   only bugs whose name or invariant contains TEXT
  --json FILE   write the results
  --help        this text`;

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1000" },
    only: { type: "string", default: "" },
    json: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

interface Catch {
  readonly mutant: Mutant;
  /** Undefined: it survived. */
  readonly seed: number | undefined;
  readonly by: string;
}

if (values.help) print(HELP);
else await main(Number(values.seeds));

async function main(seeds: number): Promise<void> {
  const waiting = MUTANTS.filter(({ name, breaks }) => `${breaks} ${name}`.includes(values.only));
  const catches: Catch[] = [];
  const worker = async (): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const caught = await hunt(mutant, seeds);
      catches.push(caught);
      const where = caught.seed === undefined ? "SURVIVED" : `seed ${caught.seed}`;
      print(`${mutant.breaks.padEnd(3)} ${where.padEnd(10)} ${mutant.name}\n               ${caught.by}`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  const survivors = catches.filter(({ seed }) => seed === undefined);
  print(`${catches.length - survivors.length} passed, ${survivors.length} failed`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(catches, undefined, 2)}\n`);
  if (survivors.length > 0) process.exitCode = 1;
}

function hunt(mutant: Mutant, seeds: number): Promise<Catch> {
  const plant = new URL("plant.ts", import.meta.url).href;
  const hunter = new URL("hunt.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, ["--import", plant, hunter, String(seeds)], {
    env: { ...process.env, HOLDFAST_MUTANT: mutant.name },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.err += text));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code !== 0) return reject(new Error(`the hunt for "${mutant.name}" broke off: ${output.err}`));
      const [seed = "", by = ""] = output.out.trim().split("\t");
      return resolve({ mutant, seed: seed === "none" ? undefined : Number(seed), by });
    });
  });
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
