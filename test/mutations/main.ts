/**
 * `npm run mutations [-- --only TEXT] [--every N]`: takes back one mend after the other and runs the test that must notice.
 * A mutation that its test does not notice fails the run.
 */
import { availableParallelism } from "node:os";
import { parse, refuse, whole } from "../../scripts/arguments.ts";
import { runMutation } from "./run.ts";
import { readTables } from "./tables.ts";

const HELP = `npm run mutations -- [options]
  --only TEXT   only mutations whose name, file or test contains TEXT
  --every N     only every Nth of them; npm test runs a fifth
  --help        this text`;

const values = parse(
  {
    only: { type: "string", default: "" },
    every: { type: "string", default: "1" },
    help: { type: "boolean", default: false },
  },
  HELP,
);

if (values.help) print(HELP);
else await main(whole(values.every, "every", 1, HELP));

async function main(every: number): Promise<void> {
  const waiting = (await readTables())
    .filter((_, at) => at % every === 0)
    .filter(({ name, file, test, patches }) =>
      [name, file, test, ...patches.map((patch) => patch.file)].join(" ").includes(values.only),
    );
  const count = waiting.length;
  if (count === 0) refuse(`no mutation has "${values.only}" in its name, file or test`, HELP);
  let noticed = 0;
  const worker = async (): Promise<void> => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
      const beganMs = performance.now();
      const verdict = await runMutation(one).then(
        (failure) => (failure === undefined ? "SURVIVED" : `noticed: ${failure}`),
        (cause: unknown) => `FAILED to try it: ${cause instanceof Error ? cause.message : String(cause)}`,
      );
      if (verdict.startsWith("noticed")) noticed += 1;
      const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
      print(`${one.name}\n    ${one.file}, ${one.test}\n    ${verdict} (${seconds} s)`);
    }
  };
  // Those that hang, and are noticed by that, take no processor.
  await Promise.all(Array.from({ length: 2 * availableParallelism() }, worker));
  print(`${noticed} passed, ${count - noticed} failed`);
  if (noticed < count) process.exitCode = 1;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
