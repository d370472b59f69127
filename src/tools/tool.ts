/**
 * A tool of a program: a description, its arguments, and a function.
 *
 * Arguments are a shape of zod, a zod schema, or a JSON Schema. What a zod schema says is checked before the function is called, and the model is told
 * what does not fit. The function's result is its answer to the model, and what it throws is too.
 *
 * Invariant: a tool runs at most once for a call, unless it says that it is `repeatable`.
 */
import * as z from "zod/mini";
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import { fieldsOf } from "../protocol/fields.ts";
import type { FunctionResult } from "./results.ts";

export interface ToolContext {
  /** Fires when the turn is aborted, or when the program closes its client. */
  readonly signal: AbortSignal;
  /** The conversation that asked. */
  readonly conversation: string;
  /** The same for this call however often it runs: an idempotency key for payment services and the like. */
  readonly callId: string;
  /** A line for people while it runs: a `tool-output` part of the turn. */
  readonly progress: (text: string) => void;
}

export interface ToolOptions {
  /** Running it twice does no harm: it may run again when a crash hides its outcome. Default: false, and the model is told that the outcome is unknown. */
  readonly repeatable?: boolean | undefined;
  /** It runs only when `approve` of `connect` says yes. Default: false. */
  readonly needsApproval?: boolean | undefined;
}

export interface Tool {
  readonly description: string;
  /** JSON Schema. */
  readonly parameters: object;
  readonly repeatable: boolean;
  readonly needsApproval: boolean;
  run(args: unknown, context: ToolContext): Promise<FunctionResult>;
}

/** A JSON Schema of an object. */
export interface JsonObjectSchema {
  readonly type: "object";
  readonly [keyword: string]: unknown;
}

/** A shape of zod such as `{ city: z.string() }`. */
type Shape = Readonly<Record<string, z.core.$ZodType>>;
export type ToolParameters = Shape | z.core.$ZodType | JsonObjectSchema;

/** What the function is given. Arguments of a JSON Schema are not checked: the model may have written anything. */
export type ToolArguments<Parameters> = Parameters extends z.core.$ZodType
  ? z.output<Parameters>
  : Parameters extends Shape
    ? { -readonly [Name in keyof Parameters]: z.output<Parameters[Name]> }
    : Readonly<Record<string, unknown>>;

export function tool<Parameters extends ToolParameters>(
  description: string,
  parameters: Parameters,
  run: (args: ToolArguments<Parameters>, context: ToolContext) => unknown,
  { repeatable = false, needsApproval = false }: ToolOptions = {},
): Tool {
  const { json, read } = readerOf(parameters);
  // `read` has looked at what the schema says.
  const checked = z.custom<ToolArguments<Parameters>>();
  return {
    description,
    parameters: json,
    repeatable,
    needsApproval,
    run: async (args, context) => {
      const found = await read(args);
      if (!found.success) return { text: misfit(found.error), isError: true };
      return resultOf(await run(z.parse(checked, found.data), context));
    },
  };
}

interface ArgumentReader {
  readonly json: object;
  readonly read: (args: unknown) => Promise<z.core.util.SafeParseResult<unknown>>;
}

function readerOf(parameters: ToolParameters): ArgumentReader {
  if (isJsonSchema(parameters))
    return { json: parameters, read: async (args) => ({ success: true, data: args }) };
  const schema = isZod(parameters) ? parameters : z.object(shapeOf(parameters));
  return { json: jsonSchemaOf(schema), read: (args) => z.safeParseAsync(schema, args) };
}

function isZod(value: unknown): value is z.core.$ZodType {
  return "_zod" in fieldsOf(value);
}

function isJsonSchema(value: ToolParameters): value is JsonObjectSchema {
  return !isZod(value) && value["type"] === "object";
}

const WRONG =
  'the arguments of a tool are a shape such as { city: z.string() }, an object of zod 4, or a JSON Schema with type "object"';

function shapeOf(parameters: Shape): Shape {
  const strange = Object.entries(parameters).find(([, value]) => !isZod(value));
  if (strange === undefined) return parameters;
  throw new HoldfastError("invalid_argument", `${WRONG}; "${strange[0]}" is something else`);
}

function jsonSchemaOf(schema: z.core.$ZodType): object {
  let json: object;
  try {
    json = z.toJSONSchema(schema, { io: "input" });
  } catch (cause) {
    const why = `a model cannot be told of these arguments: ${messageOf(cause)}`;
    throw new HoldfastError("invalid_argument", why, { cause });
  }
  if (fieldsOf(json)["type"] !== "object") throw new HoldfastError("invalid_argument", WRONG);
  return Object.fromEntries(
    Object.entries(json).filter(([name]) => name !== "$schema" && name !== "~standard"),
  );
}

function misfit(error: z.core.$ZodError): string {
  return `These arguments do not fit:\n${z.prettifyError(error)}`;
}

/** Text as it is, anything else as JSON; a model that hears nothing may ask again. */
function resultOf(result: unknown): FunctionResult {
  if (typeof result === "string") return result;
  return { text: JSON.stringify(result) ?? "done" };
}
