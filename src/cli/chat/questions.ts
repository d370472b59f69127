/**
 * What a person is asked, and what their answer means: approvals of tools, and questions of the model.
 *
 * An approval shows the whole of what would be done, hidden characters made visible. Only a clear yes is one: an answer that is
 * not understood is asked again, and the end of the input is a no.
 */
import { type ApprovalAnswer, foldedText } from "../../tools/index.ts";
import type { Question } from "../../protocol/messages.ts";
import { safeLine, safeText } from "./safe-text.ts";
import type { Style } from "./style.ts";

/** Undefined when the answer is not understood. */
export function parseApproval(line: string): ApprovalAnswer | "more" | "show" | undefined {
  const { word, rest } = /^(?<word>[a-z]+)\b[\s,:]*(?<rest>[^]*)$/i.exec(line.trim())?.groups ?? {};
  const said = rest?.trim() ?? "";
  switch (word?.toLowerCase()) {
    case "y":
    case "yes":
      return said === "" ? { answer: "once" } : undefined;
    case "a":
    case "always":
      return said === "" ? { answer: "always" } : undefined;
    case "m":
    case "more":
      return said === "" ? "more" : undefined;
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
    ...safeText(foldedText(text))
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
