/**
 * An approval on the screen: a page at a time, never more than the screen holds, so that the question and what it is about are seen
 * together.
 *
 * Each row of what would be done stands behind a bar, wrapped here and not by the terminal. A row without a bar is ours, and so is
 * the sign `▲`, which text of others cannot show (`safe-text.ts`): nothing in a command can look like the question about it.
 *
 * Invariant: a page has at most as many rows as the screen, and says how many rows it leaves out.
 */
import type { ApprovalLine } from "../../tools/index.ts";
import type { Paint } from "../terminal.ts";
import { OUR_SIGN, safeLine } from "./safe-text.ts";
import type { Style } from "./style.ts";
import { cutToWidth, wrapToWidth } from "./text-width.ts";

export interface ShownRequest {
  readonly title: string;
  readonly lines: readonly ApprovalLine[];
  readonly workspace: string;
  /** Undefined where an always is no more than a once. */
  readonly tool?: string;
}

interface ApprovalPage {
  readonly lines: readonly string[];
  /** The row that the next page begins with; the first one again after the last. */
  readonly next: number;
}

const BAR_CELLS = 4;
/** Title, what is left out, workspace, scope, title again, the question, and the line where the cursor goes then. */
const OWN_ROWS = 7;
const ROWS_MIN = 3;
/** With more rows than this in between, chat prints the title again. */
const NEAR_ROWS = 6;

export function approvalPage(
  request: ShownRequest,
  style: Style,
  { from, showsAll }: { readonly from: number; readonly showsAll: boolean },
): ApprovalPage {
  const { workspace, tool } = request;
  const rows = rowsOf(request.lines, style);
  const room = showsAll ? rows.length : Math.max(ROWS_MIN, style.rows() - OWN_ROWS);
  const shown = rows.slice(from, from + room);
  const end = from + shown.length;
  const dimLine = (text: string): string => style.dim(cutToWidth(text, style.columns() - 1));
  const title = `${style.yellow(OUR_SIGN)} ${style.bold(cutToWidth(safeLine(request.title), style.columns() - 3))}`;
  const lines = [
    title,
    ...shown,
    ...(shown.length === rows.length ? [] : [style.yellow(leftOutWords(from, end, rows.length))]),
    ...(workspace === "" ? [] : [dimLine(`  in ${safeLine(workspace)}`)]),
    ...(tool === undefined ? [] : [dimLine(`  "always" covers ${scopeWords(tool)}`)]),
    ...(shown.length > NEAR_ROWS ? [title] : []),
  ];
  return { lines, next: end === rows.length ? 0 : end };
}

function leftOutWords(from: number, end: number, all: number): string {
  const which = end === all ? "m begins anew" : "m shows the next";
  return `  Rows ${from + 1} to ${end} of ${all}: ${which}, s all of them.`;
}

function rowsOf(lines: readonly ApprovalLine[], style: Style): readonly string[] {
  const paints: Readonly<Record<ApprovalLine["kind"], Paint>> = {
    plain: (text) => text,
    context: (text) => text,
    added: style.green,
    removed: style.red,
    hunk: style.cyan,
  };
  const bar = `  ${style.dim("│")} `;
  // One cell stays free: a row that fills the last one leaves it to the terminal where the next begins.
  const cells = Math.max(1, style.columns() - BAR_CELLS - 1);
  return lines.flatMap(({ kind, text }) =>
    wrapToWidth(safeLine(text.replaceAll("\t", "    ")), cells).map((row) => bar + paints[kind](row)),
  );
}

/** What was shown is not all that an always allows. */
function scopeWords(tool: string): string {
  return tool === "shell" ? "this same command" : `every ${safeLine(tool)}, whatever its arguments`;
}

export function approvalPrompt({ yellow, bold }: Style): string {
  return `${yellow(OUR_SIGN)} ${bold("Allow?")} [y]es once, [a]lways this session, [n]o, or no <reason>: `;
}
