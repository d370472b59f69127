/**
 * The tools that a chat request declares, and what it says about using them.
 *
 * Function tools only: the client carries them out itself. Tools that a provider carries out on its own side (web search and the
 * like) are refused, because the gateway could not answer for them.
 */
import type { MessageInitShape } from "../../protocol/message.ts";
import { ToolChoiceMode, type ToolChoiceSchema } from "../../protocol/messages.ts";
import type { Fields } from "./fields.ts";

/** Fits the protocol's `ToolDefinition`. */
export interface RequestTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema, as the client wrote it. */
  readonly parametersJson: string;
  readonly strict: boolean;
}

/** Four times what OpenAI takes: other providers take more, and MCP servers bring many. */
export const TOOLS_MAX = 512;

/** What at least one provider takes; each refuses for itself what it does not. */
const NAME = /^[A-Za-z0-9_.:-]{1,128}$/;

export function chatTools(body: Fields): readonly RequestTool[] {
  if (body.has("functions")) throw body.unsupported("functions", "functions are outdated; send tools");
  const given = body.objects("tools") ?? [];
  if (given.length > TOOLS_MAX) throw body.wrong("tools", `has ${given.length} tools, at most ${TOOLS_MAX}`);
  return distinct(body, given.map(toolOf));
}

/** Throws when two tools have one name. */
export function distinct(body: Fields, tools: readonly RequestTool[]): readonly RequestTool[] {
  const names = new Set<string>();
  for (const { name } of tools) {
    if (names.has(name))
      throw body.wrong("tools", `declares ${JSON.stringify(name)} twice; names must differ`);
    names.add(name);
  }
  return tools;
}

function toolOf(tool: Fields): RequestTool {
  const type = tool.textOr("type", "function");
  if (type !== "function") {
    const what = `tools of type ${JSON.stringify(type)} are not supported; declare a function`;
    throw tool.unsupported("type", what);
  }
  return functionTool(tool.needObject("function"));
}

/** `schema`: the door's name of the member that has the parameters. */
export function functionTool(
  declared: Fields,
  schema: "parameters" | "input_schema" = "parameters",
): RequestTool {
  const name = declared.needText("name");
  if (!NAME.test(name)) {
    throw declared.wrong("name", "must have 1 to 128 letters, digits, underscores, dots, colons or dashes");
  }
  const parameters = declared.object(schema) === undefined ? EMPTY_SCHEMA : declared.raw(schema);
  return {
    name,
    description: declared.textOr("description", ""),
    parametersJson: JSON.stringify(parameters),
    strict: declared.flag("strict") ?? false,
  };
}

/** A function without parameters. */
const EMPTY_SCHEMA = { type: "object", properties: {} } as const;

export const MODES: ReadonlyMap<unknown, ToolChoiceMode> = new Map([
  ["auto", ToolChoiceMode.AUTO],
  ["none", ToolChoiceMode.NONE],
  ["required", ToolChoiceMode.REQUIRED],
]);

/** Undefined when the request says nothing, which is auto. */
export function toolChoice(
  body: Fields,
  tools: readonly RequestTool[],
): MessageInitShape<typeof ToolChoiceSchema> | undefined {
  if (body.has("function_call")) throw body.unsupported("function_call", "it is outdated; send tool_choice");
  const given = body.raw("tool_choice");
  if (given === undefined) return undefined;
  const mode = MODES.get(given);
  if (mode !== undefined) {
    if (mode === ToolChoiceMode.REQUIRED && tools.length === 0) {
      throw body.wrong("tool_choice", "is required, but no tools are declared");
    }
    return { choice: { case: "mode", value: mode } };
  }
  if (typeof given === "string")
    throw body.wrong("tool_choice", "must be auto, none, required or a function");
  const named = body.needObject("tool_choice");
  if (named.text("type") !== "function") {
    throw named.unsupported("type", "name one function, or use auto, none or required");
  }
  const name = named.needObject("function").needText("name");
  if (!tools.some((tool) => tool.name === name)) {
    throw body.wrong("tool_choice", `names ${JSON.stringify(name)}, which is not among the tools`);
  }
  return { choice: { case: "tool", value: name } };
}
