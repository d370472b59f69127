/**
 * `npm run bench [-- --only name,name] [--json file] [--rounds n] [--quick]`
 *
 * Runs the rows one after another and prints one table. A missed budget is printed, not an error; a
 * row that cannot run is one.
 */
import { writeFileSync } from "node:fs";
import { parse, refuse, whole } from "../scripts/arguments.ts";
import { thisMachine } from "./harness/machine.ts";
import { stopAllPeers } from "./harness/peer.ts";
import { stderrProgress } from "./harness/progress.ts";
import { Rounds } from "./harness/rounds.ts";
import type { Row } from "./harness/row.ts";
import { type Finished, headingOf, tableOf } from "./harness/table.ts";
import { removeTemporaryDirectories } from "./harness/temporary.ts";
import { rows } from "./rows/index.ts";

const ROUNDS = 5;

const HELP = `npm run bench -- [options]
  --only NAMES  rows to run, with commas: ${rows.map(({ name }) => name).join(", ")}
  --rounds N    how often each is measured, the median counts (default ${String(ROUNDS)})
  --quick       small and short, to see that it works; the numbers mean nothing
  --json FILE   the results for a program
  --help        this text`;

const values = parse(
  {
    only: { type: "string" },
    json: { type: "string" },
    rounds: { type: "string" },
    quick: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
  HELP,
);
if (values.help) {
  process.stdout.write(`${HELP}\n`);
  process.exit(0);
}

const quick = values.quick;
const count = roundCount(values.rounds);
const chosen = chosenRows(values.only);
const machine = thisMachine();
const progress = stderrProgress(chosen.reduce((sum, row) => sum + row.stepsPerRound * count, 0));
const finished: Finished[] = [];

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    void stopAllPeers()
      .then(removeTemporaryDirectories)
      .finally(() => process.exit(130));
  });
}
for (const row of chosen) finished.push(await finish(row));

process.stdout.write(`${headingOf(machine, count, quick)}\n\n${tableOf(finished, quick)}\n`);
if (values.json !== undefined) {
  const report = finished.map(({ row: { name, title }, outcome, failure }) => ({
    name,
    title,
    ...outcome,
    failure,
  }));
  writeFileSync(values.json, `${JSON.stringify({ machine, rounds: count, quick, rows: report }, null, 2)}\n`);
}
process.exitCode = finished.some(({ failure }) => failure !== undefined) ? 1 : 0;

async function finish(row: Row): Promise<Finished> {
  try {
    const outcome = await row.run(new Rounds({ count, quick, progress, row: row.name }));
    return { row, outcome, failure: undefined };
  } catch (cause) {
    return {
      row,
      outcome: undefined,
      failure: cause instanceof Error ? (cause.stack ?? cause.message) : String(cause),
    };
  }
}

function roundCount(text: string | undefined): number {
  if (text === undefined) return quick ? 1 : ROUNDS;
  return whole(text, "rounds", 1, HELP);
}

function chosenRows(only: string | undefined): readonly Row[] {
  if (only === undefined) return rows.filter(({ isLong = false }) => !isLong);
  return only.split(",").map((name) => {
    const row = rows.find((candidate) => candidate.name === name);
    return row ?? refuse(`there is no row ${name}`, HELP);
  });
}
