/**
 * A question that names a tool, as the rehearsal model takes it: "What is the weather in Oslo?" calls `weather` with `{"city":"Oslo"}`.
 *
 * So a first program shows its tool without any AI. A call is made only when every argument that the tool requires stands in the question.
 */
import { fieldsOf } from "../../protocol/fields.ts";
import type { ModelTool } from "../model.ts";
import type { Act } from "./rehearsal-script.ts";

/** The call, or undefined when this is no such question. */
export function askedCall(text: string, tools: readonly ModelTool[]): Act | undefined {
  const question = text.trim();
  if (!question.endsWith("?") || question.includes("\n")) return undefined;
  const words = new Set(wordsOf(question));
  for (const { name, parameters } of tools) {
    const isNamed = wordsOf(name).every((word) => words.has(word));
    const args = isNamed ? argumentsIn(question, parameters) : undefined;
    if (args !== undefined) return { kind: "call", tool: name, args: JSON.stringify(args) };
  }
  return undefined;
}

/** `cityWeather` and `city_weather` are two words. */
function wordsOf(text: string): readonly string[] {
  const parted = text.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ");
  return parted.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

function argumentsIn(question: string, parameters: object): object | undefined {
  const { properties, required } = fieldsOf(parameters);
  const needed: readonly unknown[] = Array.isArray(required) ? required : [];
  const found: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(fieldsOf(properties))) {
    const value = valueIn(question, fieldsOf(schema));
    if (value !== undefined) found[name] = value;
    else if (needed.includes(name)) return undefined;
  }
  return found;
}

function valueIn(question: string, schema: ReturnType<typeof fieldsOf>): string | number | undefined {
  const { type, enum: options } = schema;
  if (Array.isArray(options)) {
    const words = new Set(wordsOf(question));
    const isSaid = (option: unknown): option is string =>
      typeof option === "string" && words.has(option.toLowerCase());
    return options.find(isSaid);
  }
  if (type === "number" || type === "integer") {
    const digits = /\d+(?:\.\d+)?/.exec(question)?.[0];
    return digits === undefined ? undefined : Number(digits);
  }
  return type === "string" ? nameIn(question) : undefined;
}

/** What is quoted, else the last words behind the first that begin with a capital letter. */
function nameIn(question: string): string | undefined {
  const quoted = /"(?<text>[^"]+)"/.exec(question)?.groups?.["text"];
  if (quoted !== undefined) return quoted;
  const [, ...rest] = question.split(" ");
  return rest
    .join(" ")
    .match(/\p{Lu}[\p{L}\p{N}'-]*(?: \p{Lu}[\p{L}\p{N}'-]*)*/gu)
    ?.at(-1);
}
