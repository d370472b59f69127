/**
 * What a person is asked, and what their answer means: approvals of tools, and questions of the model.
 *
 * An approval shows the whole of what would be done, hidden characters made visible. Only a clear yes is one: an answer that is
 * not understood is asked again, and the end of the input is a no.
 */
import type { ApprovalAnswer, ApprovalRequest } from "../../tools/index.ts";
import type { Question } from "../../protocol/messages.ts";
import { safeLine, safeText } from "./safe-text.ts";
import type { Style } from "./style.ts";
import { cutToWidth } from "./text-width.ts";

/** More than this of the arguments is told by its number of lines, and shown on request. */
const APPROVAL_LINES_MAX = 30;

/** `tool` is undefined where an always is no more than a once. */
export type ShownRequest = Pick<ApprovalRequest, "title" | "text" | "workspace"> & {
  readonly tool?: string;
};

export function approvalLines(
  { title, text, workspace, tool }: ShownRequest,
  style: Style,
  showsAll: boolean,
): readonly string[] {
  const lines = safeText(text).split("\n");
  const shown = showsAll ? lines : lines.slice(0, APPROVAL_LINES_MAX);
  const more = lines.length - shown.length;
  return [
    `${style.yellow("▲")} ${style.bold(cutToWidth(safeLine(title), style.columns() - 2))}`,
    ...shown.map((line) => `  ${line}`),
    ...(more === 0 ? [] : [style.dim(`  … ${more} more lines; s shows all`)]),
    ...(workspace === "" ? [] : [style.dim(`  in ${safeLine(workspace)}`)]),
    ...(tool === undefined ? [] : [style.dim(`  always would be for ${scopeWords(tool)}`)]),
  ];
}

/** What was shown is not all that an always allows. */
function scopeWords(tool: string): string {
  return tool === "shell" ? "this same command" : `every ${safeLine(tool)}, whatever its arguments`;
}

export const APPROVAL_PROMPT = "  Allow? [y]es once, [a]lways this session, [n]o, or no <reason>: ";

/** Undefined when the answer is not understood. */
export function parseApproval(line: string): ApprovalAnswer | "show" | undefined {
  const { word, rest } = /^(?<word>[a-z]+)\b[\s,:]*(?<rest>[^]*)$/i.exec(line.trim())?.groups ?? {};
  const said = rest?.trim() ?? "";
  switch (word?.toLowerCase()) {
    case "y":
    case "yes":
      return said === "" ? { answer: "once" } : undefined;
    case "a":
    case "always":
      return said === "" ? { answer: "always" } : undefined;
    case "s":
    case "show":
      return said === "" ? "show" : undefined;
    case "n":
    case "no":
      return said === "" ? { answer: "no" } : { answer: "no", reason: said };
    default:
      return undefined;
  }
}

type Asked = Pick<Question, "text" | "options" | "allowMultiple" | "allowText">;

export function questionLines(
  { text, options }: Pick<Asked, "text" | "options">,
  style: Style,
): readonly string[] {
  return [
    ...safeText(text)
      .split("\n")
      .map((line, at) => (at === 0 ? `${style.yellow("?")} ${style.bold(line)}` : `  ${line}`)),
    ...options.map(({ label }, at) => `  ${at + 1}. ${safeLine(label)}`),
  ];
}

export function questionPrompt({ options, allowMultiple, allowText }: Asked): string {
  if (options.length === 0) return "  Answer (empty = skip): ";
  const which = allowMultiple ? "Numbers, apart by commas" : "Number";
  return `  ${which}${allowText ? ", or a text" : ""} (empty = skip): `;
}

export interface QuestionAnswer {
  readonly optionIds: readonly string[];
  readonly text: string;
}

/** Undefined when the answer is not understood; an empty one skips the question. */
export function parseAnswer(
  line: string,
  { options, allowMultiple, allowText }: Asked,
): QuestionAnswer | undefined {
  const text = line.trim();
  if (text === "" || options.length === 0) return { optionIds: [], text };
  const numbers = /^\d+(?:[\s,]+\d+)*$/.test(text) ? text.split(/[\s,]+/).map(Number) : [];
  const chosen = numbers.map((number) => options[number - 1]?.id);
  const optionIds = chosen.filter((id) => id !== undefined);
  const isChoice = optionIds.length > 0 && optionIds.length === chosen.length;
  if (isChoice && (allowMultiple || optionIds.length === 1)) return { optionIds, text: "" };
  return allowText && numbers.length === 0 ? { optionIds: [], text } : undefined;
}
