/**
 * The one table that a run prints. Numbers are rounded to three digits: no more is known.
 */
import type { Machine } from "./machine.ts";
import type { Line, Outcome, Row } from "./row.ts";

export interface Finished {
  readonly row: Row;
  readonly outcome: Outcome | undefined;
  readonly failure: string | undefined;
}

const HEAD = ["what", "median", "min .. max", "unit", "ratio", "against", "budget", ""];

/** A quick run is too small to judge anything by. */
export function tableOf(finished: readonly Finished[], quick: boolean): string {
  const cellsOfLine = (line: Line): readonly string[] => cellsOf(line, quick);
  const cells = finished.flatMap(({ outcome }) => (outcome?.lines ?? []).map(cellsOfLine));
  const widths = HEAD.map((_, column) =>
    Math.max(...[HEAD, ...cells].map((row) => row[column]?.length ?? 0)),
  );
  const print = (row: readonly string[]): string =>
    row
      .map((cell, column) =>
        isNumeric(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd();
  const out = [print(HEAD)];
  for (const { row, outcome, failure } of finished) {
    out.push("", `${row.name}: ${row.title}`);
    if (failure !== undefined) out.push(`  failed: ${failure}`);
    if (outcome?.skipped !== undefined) out.push(`  skipped: ${outcome.skipped}`);
    for (const line of outcome?.lines ?? []) {
      out.push(print(cellsOfLine(line)));
      if (line.note !== undefined) out.push(`    ${line.note}`);
    }
  }
  return out.join("\n");
}

export function headingOf(machine: Machine, rounds: number, quick: boolean): string {
  const { node, system, processor, cores, memoryGiB, loadAverage, pinned, commit } = machine;
  const cores2 = pinned ? "server and load pinned to a core each" : "not pinned";
  return [
    `Holdfast ${commit}, Node ${node}, ${system}, ${processor}, ${cores} cores (${cores2}), ${memoryGiB} GiB`,
    `medians of ${rounds} interleaved rounds, load average ${loadAverage} at the start${quick ? "; QUICK: sizes are too small to mean anything" : ""}`,
  ].join("\n");
}

const isNumeric = (column: number): boolean => column === 1 || column === 2 || column === 4;

function cellsOf(line: Line, quick: boolean): readonly string[] {
  const { value, ratio, budget } = line;
  return [
    `  ${line.what}`,
    rounded(value.median),
    `${rounded(value.min)} .. ${rounded(value.max)}`,
    line.unit,
    ratio === undefined ? "" : rounded(ratio.value),
    ratio?.to ?? "",
    budget?.text ?? "",
    budget === undefined || quick ? "" : budget.met ? "met" : "NOT MET",
  ];
}

export function rounded(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (Math.abs(value) >= 1000) return Math.round(Number(value.toPrecision(3))).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}
