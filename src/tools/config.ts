/**
 * What `holdfast.config.json` may say under `tools`, checked field by field.
 *
 * A field that nobody knows is refused, not ignored. Every message names the field from the top of the file, so
 * that it can be found.
 */
import { HoldfastError } from "../protocol/errors.ts";

export const POLICIES = ["allow", "ask", "deny"] as const;
export type Policy = (typeof POLICIES)[number];

export interface ToolsConfig {
  /** By tool: read, ls, glob, grep, write, delete, shell, subagent, mcp, or the name of a declared tool. */
  readonly approvals: Readonly<Record<string, Policy>>;
  readonly shell: ShellConfig;
  readonly mcp: Readonly<Record<string, McpServerConfig>>;
  /** How long a yes is good. */
  readonly approvalMs: number;
}

export interface ShellConfig {
  /** Off: the server is not offered a shell at all. */
  readonly enabled: boolean;
  /** Undefined = /bin/bash, else /bin/sh. */
  readonly program: string | undefined;
  readonly timeoutMs: number;
  readonly timeoutMsMax: number;
  readonly outputBytesMax: number;
  /** Environment variables besides the usual ones; may end with `*`. */
  readonly environment: readonly string[];
  /** Simple commands that begin with one of these need no approval. */
  readonly allow: readonly string[];
  readonly sandbox: "auto" | "require" | "off";
  readonly network: boolean;
  /** Absolute paths in the home directory that commands in the sandbox may read. */
  readonly readable: readonly string[];
  /** Absolute paths besides the workspace that commands in the sandbox may write. */
  readonly writable: readonly string[];
}

export type McpServerConfig =
  | {
      readonly type: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
  | { readonly type: "http"; readonly url: string; readonly headers: Readonly<Record<string, string>> };

const MINUTE_MS = 60_000;

export const SHELL_DEFAULTS: ShellConfig = Object.freeze({
  enabled: true,
  program: undefined,
  /** Most commands take seconds; a build that takes longer says so in its request. */
  timeoutMs: 2 * MINUTE_MS,
  timeoutMsMax: 10 * MINUTE_MS,
  /** More than a model can use; its beginning and end are kept. */
  outputBytesMax: 256 * 1024,
  environment: [],
  allow: [],
  sandbox: "auto",
  network: true,
  readable: [],
  writable: [],
});

export const TOOLS_DEFAULTS: ToolsConfig = Object.freeze({
  approvals: {},
  shell: SHELL_DEFAULTS,
  mcp: {},
  /** Long enough to come back from a crash, short enough to still know what was approved. */
  approvalMs: 10 * MINUTE_MS,
});

/** Throws `invalid_argument` with the field's name. `field` is where the value stands in the file. */
export function parseToolsConfig(json: unknown, field = "tools"): ToolsConfig {
  if (json === undefined) return TOOLS_DEFAULTS;
  const given = objectOf(json, field, ["approvals", "shell", "mcp", "approvalMs"]);
  return {
    approvals: mapOf(given["approvals"], `${field}.approvals`, policyOf),
    shell: shellOf(given["shell"], `${field}.shell`),
    mcp: mapOf(given["mcp"], `${field}.mcp`, serverOf),
    approvalMs:
      wholeOf(given["approvalMs"], `${field}.approvalMs`, 1000, 24 * 60 * MINUTE_MS) ??
      TOOLS_DEFAULTS.approvalMs,
  };
}

const SHELL_FIELDS = Object.keys(SHELL_DEFAULTS);

function shellOf(json: unknown, field: string): ShellConfig {
  if (json === undefined) return SHELL_DEFAULTS;
  const given = objectOf(json, field, SHELL_FIELDS);
  const day = 24 * 60 * MINUTE_MS;
  const timeoutMsMax =
    wholeOf(given["timeoutMsMax"], `${field}.timeoutMsMax`, 1, day) ?? SHELL_DEFAULTS.timeoutMsMax;
  const timeoutMs = wholeOf(given["timeoutMs"], `${field}.timeoutMs`, 1, timeoutMsMax);
  return {
    enabled: flagOf(given["enabled"], `${field}.enabled`) ?? SHELL_DEFAULTS.enabled,
    program: optionalPath(given["program"], `${field}.program`),
    timeoutMs: timeoutMs ?? Math.min(SHELL_DEFAULTS.timeoutMs, timeoutMsMax),
    timeoutMsMax,
    outputBytesMax:
      wholeOf(given["outputBytesMax"], `${field}.outputBytesMax`, 1024, 16 * 1024 * 1024) ??
      SHELL_DEFAULTS.outputBytesMax,
    environment: listOf(given["environment"], `${field}.environment`, variableOf),
    allow: listOf(given["allow"], `${field}.allow`, textOf),
    sandbox:
      choiceOf(given["sandbox"], `${field}.sandbox`, ["auto", "require", "off"]) ?? SHELL_DEFAULTS.sandbox,
    network: flagOf(given["network"], `${field}.network`) ?? SHELL_DEFAULTS.network,
    readable: listOf(given["readable"], `${field}.readable`, pathOf),
    writable: listOf(given["writable"], `${field}.writable`, pathOf),
  };
}

function serverOf(json: unknown, field: string): McpServerConfig {
  const given = objectOf(json, field, ["type", "command", "args", "env", "url", "headers"]);
  const type =
    choiceOf(given["type"], `${field}.type`, ["stdio", "http"]) ??
    (given["url"] === undefined ? "stdio" : "http");
  const foreign = type === "stdio" ? ["url", "headers"] : ["command", "args", "env"];
  const misplaced = foreign.find((name) => given[name] !== undefined);
  if (misplaced !== undefined)
    throw wrong(`${field}.${misplaced}`, `does not belong to a server of type ${type}`);
  if (type === "http") {
    const url = textOf(given["url"], `${field}.url`);
    if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
      throw wrong(`${field}.url`, "is an http or https address");
    return { type, url, headers: mapOf(given["headers"], `${field}.headers`, textOf) };
  }
  return {
    type,
    command: textOf(given["command"], `${field}.command`),
    args: listOf(given["args"], `${field}.args`, anyTextOf),
    env: mapOf(given["env"], `${field}.env`, anyTextOf),
  };
}

function wrong(field: string, what: string): HoldfastError {
  return new HoldfastError("invalid_argument", `"${field}" ${what}`);
}

function objectOf(
  json: unknown,
  field: string,
  known?: readonly string[],
): Readonly<Record<string, unknown>> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw wrong(field, "is an object");
  for (const name of Object.keys(json)) {
    if (known !== undefined && !known.includes(name)) {
      throw wrong(`${field}.${name}`, `is not known; known are ${known.join(", ")}`);
    }
  }
  return { ...json };
}

type Check<Value> = (json: unknown, field: string) => Value;

function mapOf<Value>(json: unknown, field: string, check: Check<Value>): Readonly<Record<string, Value>> {
  if (json === undefined) return {};
  return Object.fromEntries(
    Object.entries(objectOf(json, field)).map(([name, value]) => [name, check(value, `${field}.${name}`)]),
  );
}

function listOf<Value>(json: unknown, field: string, check: Check<Value>): readonly Value[] {
  if (json === undefined) return [];
  if (!Array.isArray(json)) throw wrong(field, "is a list");
  return json.map((item: unknown, at) => check(item, `${field}[${at}]`));
}

function anyTextOf(json: unknown, field: string): string {
  if (typeof json !== "string") throw wrong(field, "is text");
  return json;
}

function textOf(json: unknown, field: string): string {
  if (typeof json !== "string" || json.trim() === "") throw wrong(field, "is text, and not empty");
  return json;
}

function pathOf(json: unknown, field: string): string {
  const text = textOf(json, field);
  if (!text.startsWith("/")) throw wrong(field, "is an absolute path");
  return text;
}

function optionalPath(json: unknown, field: string): string | undefined {
  return json === undefined ? undefined : pathOf(json, field);
}

function variableOf(json: unknown, field: string): string {
  const text = textOf(json, field);
  if (!/^[A-Za-z_]\w*\*?$/.test(text))
    throw wrong(field, "is the name of an environment variable, or its beginning and *");
  return text;
}

function policyOf(json: unknown, field: string): Policy {
  const policy = choiceOf(json, field, POLICIES);
  if (policy === undefined) throw wrong(field, `is one of ${POLICIES.join(", ")}`);
  return policy;
}

function choiceOf<Choice extends string>(
  json: unknown,
  field: string,
  choices: readonly Choice[],
): Choice | undefined {
  if (json === undefined) return undefined;
  const choice = choices.find((each) => each === json);
  if (choice === undefined) throw wrong(field, `is one of ${choices.join(", ")}`);
  return choice;
}

function flagOf(json: unknown, field: string): boolean | undefined {
  if (json !== undefined && typeof json !== "boolean") throw wrong(field, "is true or false");
  return json;
}

function wholeOf(json: unknown, field: string, min: number, max: number): number | undefined {
  if (json === undefined) return undefined;
  if (typeof json !== "number" || !Number.isSafeInteger(json) || json < min || json > max) {
    throw wrong(field, `is a whole number from ${min} to ${max}`);
  }
  return json;
}
