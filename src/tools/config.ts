/**
 * What `holdfast.config.json` may say under `tools`.
 *
 * A field that is not known is refused, not ignored. Every message names the field from the top of the file, so
 * that it can be found.
 */
import * as z from "zod/mini";
import {
  checked,
  fields,
  httpUrl,
  list,
  named,
  oneOf,
  text,
  textThat,
  whole,
  yesOrNo,
} from "../protocol/checked.ts";

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

const DAY_MS = 24 * 60 * MINUTE_MS;

const anyText = z.string({ error: "must be text" });
const absolutePath = textThat((path) => path.startsWith("/"), "must be an absolute path");
const variableName = textThat(
  (name) => /^[A-Za-z_]\w*\*?$/.test(name),
  "must be the name of an environment variable, or its beginning and *",
);

const SHELL = z.pipe(
  fields({
    enabled: z._default(yesOrNo(), SHELL_DEFAULTS.enabled),
    program: z.optional(absolutePath),
    timeoutMs: z.optional(whole(1, DAY_MS)),
    timeoutMsMax: z._default(whole(1, DAY_MS), SHELL_DEFAULTS.timeoutMsMax),
    outputBytesMax: z._default(whole(1024, 16 * 1024 * 1024), SHELL_DEFAULTS.outputBytesMax),
    environment: z._default(list(variableName), []),
    allow: z._default(list(text()), []),
    sandbox: z._default(oneOf(["auto", "require", "off"]), SHELL_DEFAULTS.sandbox),
    network: z._default(yesOrNo(), SHELL_DEFAULTS.network),
    readable: z._default(list(absolutePath), []),
    writable: z._default(list(absolutePath), []),
  }).check(({ value: { timeoutMs, timeoutMsMax }, issues }) => {
    if (timeoutMs === undefined || timeoutMs <= timeoutMsMax) return;
    const message = `must be a whole number from 1 to ${timeoutMsMax}, as "timeoutMsMax" says`;
    issues.push({ code: "custom", path: ["timeoutMs"], input: timeoutMs, message });
  }),
  z.transform(({ program, timeoutMs, ...shell }): ShellConfig => ({
    ...shell,
    program,
    timeoutMs: timeoutMs ?? Math.min(SHELL_DEFAULTS.timeoutMs, shell.timeoutMsMax),
  })),
);

const elsewhere =
  (type: string, names: readonly string[]) =>
  (name: string): string | undefined =>
    names.includes(name) ? `does not belong to a server of type ${type}` : undefined;

const STDIO = fields(
  {
    type: z.literal("stdio"),
    command: text(),
    args: z._default(list(anyText), []),
    env: z._default(named(anyText), {}),
  },
  elsewhere("stdio", ["url", "headers"]),
);

const HTTP = fields(
  {
    type: z.literal("http"),
    url: httpUrl(),
    headers: z._default(named(text()), {}),
  },
  elsewhere("http", ["command", "args", "env"]),
);

/** A server with an address is reached by HTTP, unless it says otherwise. */
const typed = z.transform((server: unknown) => {
  const isPlain = typeof server === "object" && server !== null && !Array.isArray(server);
  if (!isPlain || "type" in server) return server;
  return { type: "url" in server ? "http" : "stdio", ...server };
});

const MCP_SERVER = z.pipe(
  typed,
  z.discriminatedUnion("type", [STDIO, HTTP], {
    error: ({ input }) =>
      typeof input === "object" && input !== null && !Array.isArray(input)
        ? "must be one of stdio, http"
        : "must be an object",
  }),
);

export const TOOLS = fields({
  approvals: z._default(named(oneOf(POLICIES)), {}),
  shell: z.prefault(SHELL, {}),
  mcp: z._default(named(MCP_SERVER), {}),
  approvalMs: z._default(whole(1000, DAY_MS), TOOLS_DEFAULTS.approvalMs),
});

/** Throws `invalid_argument` with the field's name, from the top of the file. */
export function parseToolsConfig(json: unknown): ToolsConfig {
  return checked(
    TOOLS,
    json === undefined ? {} : json,
    (name) => `"${name === "" ? "tools" : `tools.${name}`}"`,
  );
}
