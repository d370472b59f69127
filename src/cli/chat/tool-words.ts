/**
 * A tool call in one line: its name, and of its arguments what a person wants to see first.
 */
import { fieldsOf, parsedJson } from "../../protocol/fields.ts";
import { counted } from "../terminal.ts";
import { safeLine } from "./safe-text.ts";

export interface ToolLine {
  readonly name: string;
  readonly about: string;
}

/** The arguments that tell most, in this order; the rest is shown when none of them is there. */
const TELLING = ["command", "pattern", "path", "description", "prompt", "query", "url", "text"] as const;
/** Together with the one before it: where a pattern is looked for. */
const WHERE = "path";

export function toolLine(tool: string, argsJson: string): ToolLine {
  return {
    name: safeLine(tool),
    about: safeLine(
      aboutOf(argsJson)
        .replaceAll(/\s*\n\s*/g, "\n")
        .replaceAll(/[^\S\n]+/g, " "),
    ),
  };
}

function aboutOf(argsJson: string): string {
  const parsed = parsedJson(argsJson);
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return argsJson.trim();
  const args = fieldsOf(parsed);
  const { todos, questions } = args;
  if (Array.isArray(todos)) return counted(todos.length, "item");
  if (Array.isArray(questions)) return counted(questions.length, "question");
  const telling = TELLING.find((name) => typeof args[name] === "string" && args[name] !== "");
  if (telling === undefined) return Object.keys(args).length === 0 ? "" : JSON.stringify(args);
  const where = telling === "pattern" && typeof args[WHERE] === "string" ? ` in ${args[WHERE]}` : "";
  return `${String(args[telling])}${where}`;
}
