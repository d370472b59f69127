/**
 * `npm run sim:mutants [-- --seeds N] [--only TEXT] [--record]`: plants each bug and looks which seed
 * of the simulator notices it. A bug that survives all seeds fails the run.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parse, refuse, whole } from "../../../scripts/arguments.ts";
import { caughtFile, guaranteesFile, type Caught, placeOf, readCaught, withTable } from "./record.ts";
import { hunt } from "./start-hunt.ts";
import { MUTANTS } from "./table.ts";

const HELP = `npm run sim:mutants -- [options]
  --seeds N     so many seeds may a planted bug survive at most (default 1000)
  --only TEXT   only bugs whose name or invariant contains TEXT, or those of the "agent" or the "gateway"
  --fresh       do not begin with the seed that noticed the bug last time
  --record      keep the seeds for next time and put the table into docs/GUARANTEES.md
  --help        this text`;

const values = parse(
  {
    seeds: { type: "string", default: "1000" },
    only: { type: "string", default: "" },
    fresh: { type: "boolean", default: false },
    record: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
  HELP,
);

if (values.help) print(HELP);
else await main(whole(values.seeds, "seeds", 1, HELP));

async function main(seeds: number): Promise<void> {
  const known = readCaught();
  const caught = new Map<string, Caught>();
  const waiting = MUTANTS.filter(({ name, breaks, hunter = "" }) =>
    `${breaks} ${hunter} ${name}`.includes(values.only),
  );
  const count = waiting.length;
  if (count === 0) refuse(`no planted bug has "${values.only}" in its name or invariant`, HELP);
  const worker = async (): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const first = values.fresh ? 0 : (known.get(mutant.name)?.seed ?? 0);
      const found = await hunt(mutant, first, seeds).catch((cause: unknown) => {
        // Most likely its text is no longer in the source: one verdict less, and the others go on.
        print(`FAILED to plant it: ${cause instanceof Error ? cause.message : String(cause)}`);
        return undefined;
      });
      if (found !== undefined) caught.set(mutant.name, found);
      const verdict = found === undefined ? "SURVIVED" : `caught by ${placeOf(mutant, found)}: ${found.by}`;
      print(`${mutant.breaks.padEnd(3)} ${mutant.name}\n    ${verdict}`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  print(`${caught.size} passed, ${count - caught.size} failed`);
  if (caught.size < count) process.exitCode = 1;
  if (values.record) record(new Map([...known, ...caught]));
}

function record(caught: ReadonlyMap<string, Caught>): void {
  const kept = MUTANTS.flatMap(({ name }) => {
    const one = caught.get(name);
    return one === undefined ? [] : [[name, one] as const];
  });
  writeFileSync(caughtFile, `${JSON.stringify(Object.fromEntries(kept), undefined, 2)}\n`);
  writeFileSync(guaranteesFile, withTable(readFileSync(guaranteesFile, "utf8"), new Map(kept)));
  print("recorded");
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
