/**
 * `npm run mutations [-- --only TEXT]`: takes back one mend after the other and runs the test that must notice.
 * A mutation that its test does not notice fails the run.
 */
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parse, refuse } from "../../scripts/arguments.ts";
import type { Mutation } from "./mutation.ts";
import { runMutation } from "./run.ts";

const HELP = `npm run mutations -- [options]
  --only TEXT   only mutations whose name, file or test contains TEXT
  --help        this text`;

const values = parse(
  { only: { type: "string", default: "" }, help: { type: "boolean", default: false } },
  HELP,
);

if (values.help) print(HELP);
else await main();

async function main(): Promise<void> {
  const waiting = (await readTables()).filter(({ name, file, test, patches }) =>
    [name, file, test, ...patches.map((patch) => patch.file)].join(" ").includes(values.only),
  );
  const count = waiting.length;
  if (count === 0) refuse(`no mutation has "${values.only}" in its name, file or test`, HELP);
  let noticed = 0;
  const worker = async (): Promise<void> => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
      const verdict = await runMutation(one).then(
        (failure) => (failure === undefined ? "SURVIVED" : `noticed: ${failure}`),
        (cause: unknown) => `FAILED to try it: ${cause instanceof Error ? cause.message : String(cause)}`,
      );
      if (verdict.startsWith("noticed")) noticed += 1;
      print(`${one.name}\n    ${one.file}, ${one.test}\n    ${verdict}`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  print(`${noticed} passed, ${count - noticed} failed`);
  if (noticed < count) process.exitCode = 1;
}

async function readTables(): Promise<Mutation[]> {
  const paths = globSync("*.table.ts", { cwd: import.meta.dirname }).toSorted();
  const tables = await Promise.all(
    paths.map(async (path) => {
      const loaded: unknown = await import(`./${path}`);
      if (!isTable(loaded)) throw new Error(`${path} exports no MUTATIONS`);
      return loaded.MUTATIONS;
    }),
  );
  return tables.flat();
}

function isTable(loaded: unknown): loaded is { readonly MUTATIONS: readonly Mutation[] } {
  return typeof loaded === "object" && loaded !== null && "MUTATIONS" in loaded;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
