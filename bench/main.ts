/**
 * `npm run bench [-- --only name,name] [--json file] [--rounds n] [--quick]`
 *
 * Runs the rows one after another and prints one table. A missed budget is printed, not an error; a
 * row that cannot run is one.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { thisMachine } from "./harness/machine.ts";
import { stopAllPeers } from "./harness/peer.ts";
import { stderrProgress } from "./harness/progress.ts";
import { Rounds } from "./harness/rounds.ts";
import type { Row } from "./harness/row.ts";
import { type Finished, headingOf, tableOf } from "./harness/table.ts";
import { removeTemporaryDirectories } from "./harness/temporary.ts";
import { rows } from "./rows/index.ts";

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    json: { type: "string" },
    rounds: { type: "string" },
    quick: { type: "boolean", default: false },
  },
});

const ROUNDS = 5;

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
  const given = Number(text);
  if (!Number.isSafeInteger(given) || given < 1) throw new Error("--rounds takes a whole number above 0");
  return given;
}

function chosenRows(only: string | undefined): readonly Row[] {
  if (only === undefined) return rows;
  return only.split(",").map((name) => {
    const row = rows.find((candidate) => candidate.name === name);
    if (row === undefined) {
      throw new Error(
        `there is no row ${name}; there are: ${rows.map((candidate) => candidate.name).join(", ")}`,
      );
    }
    return row;
  });
}
