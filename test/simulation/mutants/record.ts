/**
 * Which seed noticed which planted bug, kept for next time, and as the table that users read.
 */
import { existsSync, readFileSync } from "node:fs";
import { rows } from "./rows.ts";
import { type Mutant, MUTANTS } from "./table.ts";

export const caughtFile = new URL("caught.json", import.meta.url);
export const guaranteesFile = new URL("../../../docs/GUARANTEES.md", import.meta.url);

export interface Caught {
  /** Of the world, or the number of the crash point. */
  readonly seed: number;
  /** What the simulator said. */
  readonly by: string;
}

export function readCaught(): ReadonlyMap<string, Caught> {
  if (!existsSync(caughtFile)) return new Map();
  const kept: unknown = JSON.parse(readFileSync(caughtFile, "utf8"));
  if (typeof kept !== "object" || kept === null) return new Map();
  return new Map(Object.entries(kept).filter((entry): entry is [string, Caught] => isCaught(entry[1])));
}

function isCaught(value: unknown): value is Caught {
  return typeof value === "object" && value !== null && "seed" in value && "by" in value;
}

/** The seeds of a kind of world by which planted bugs were caught. */
export function caughtSeeds(world: "streams" | "gateway" | "nodes"): readonly number[] {
  const caught = readCaught();
  const own = MUTANTS.filter(({ hunter = "streams" }) => hunter === world);
  return [...new Set(own.flatMap(({ name }) => caught.get(name)?.seed ?? []))].toSorted((a, b) => a - b);
}

const BEGIN = "<!-- mutants:begin -->";
const END = "<!-- mutants:end -->";
const ROWS_BEGIN = "<!-- rows:begin -->";
const ROWS_END = "<!-- rows:end -->";

/** The document with both tables between their marks. */
export function withTable(document: string, caught: ReadonlyMap<string, Caught>): string {
  return between(between(document, ROWS_BEGIN, ROWS_END, rowsTable()), BEGIN, END, tableOf(caught));
}

function between(document: string, begin: string, end: string, table: string): string {
  const [before, rest] = document.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error(`the document needs ${begin} and ${end}`);
  return `${before}${begin}\n\n${table}\n\n${end}${after}`;
}

/** Which planted bugs stand for which rule. */
export function rowsTable(): string {
  const body = rows().map(({ room, row, bugs }) => [room, row, bugs.join("; ")]);
  return aligned([["rules of", "row", "planted bugs"], ...body]);
}

export function tableOf(caught: ReadonlyMap<string, Caught>): string {
  const bugs = MUTANTS.map((mutant) => {
    const { name, breaks } = mutant;
    const one = caught.get(name);
    return [
      breaks,
      name,
      one === undefined ? "" : placeOf(mutant, one),
      one === undefined ? "" : shortOf(one.by),
    ];
  });
  return aligned([["breaks", "planted bug", "noticed by", "noticed as"], ...bugs]);
}

function aligned(table: readonly (readonly string[])[]): string {
  const columns = [...(table[0] ?? []).keys()];
  const widths = columns.map((column) => Math.max(...table.map((row) => row[column]?.length ?? 0), 3));
  const line = (row: readonly string[]): string =>
    `| ${widths.map((width, column) => (row[column] ?? "").padEnd(width)).join(" | ")} |`;
  const [head = [], ...body] = table;
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body.map(line)].join(
    "\n",
  );
}

/** Where it was noticed: in which seed, or by a crash at which of the points of a conversation. */
export function placeOf({ hunter }: Mutant, { seed }: Caught): string {
  if (hunter === undefined) return `seed ${seed}`;
  if (hunter !== "agent") return `${hunter} seed ${seed}`;
  return seed === 0 ? "no crash" : `crash ${seed}`;
}

/** Without ids and long quotations of what a model said, which say nothing to a reader. */
function shortOf(by: string): string {
  return by
    .replaceAll(/"[^"]{30,}"/g, '"…"')
    .replaceAll(/[0-9a-f]{32}/g, "…")
    .replaceAll(/\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b(?:\/\d+)?/g, "…")
    .replaceAll(/\be\d+\.[a-z0-9]+\.\d+/g, "…")
    .replaceAll(/(…, )+…/g, "…")
    .replaceAll("|", "/");
}
