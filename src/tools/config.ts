/**
 * What `holdfast.config.json` may say under `tools`.
 *
 * A field that is not known is refused, not ignored. Every message names the field from the top of the file, so
 * that it can be found.
 */
import * as z from "../protocol/rules.ts";
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

const POLICIES = ["allow", "ask", "deny"] as const;
export type Policy = (typeof POLICIES)[number];

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Most commands take seconds; a build that takes longer says so in its request. */
const COMMAND_MS = 2 * MINUTE_MS;

const anyText = z.string({ error: "must be text" });
const absolutePath = textThat((path) => path.startsWith("/"), "must be an absolute path");
const variableName = textThat(
  (name) => /^[A-Za-z_]\w*\*?$/.test(name),
  "must be the name of an environment variable, or its beginning and *",
);

function listOrNone<Output, Input>(item: z.Rule<Output, Input>) {
  return z._default(z.readonly(list(item)), []);
}

const SHELL = z.pipe(
  fields({
    /** Off: the server is not offered a shell at all. */
    enabled: z._default(yesOrNo(), true),
    /** Left out: /bin/bash, else /bin/sh. */
    program: z.optional(absolutePath),
    timeoutMs: z.optional(whole(1, DAY_MS)),
    timeoutMsMax: z._default(whole(1, DAY_MS), 10 * MINUTE_MS),
    /** Usually more than a model can use; its beginning and end are kept. */
    outputBytesMax: z._default(whole(1024, 16 * 1024 * 1024), 256 * 1024),
    /** Environment variables besides the usual ones; may end with `*`. */
    environment: listOrNone(variableName),
    /** Simple commands that begin with one of these need no approval. */
    allow: listOrNone(text()),
    sandbox: z._default(oneOf(["auto", "require", "off"]), "auto"),
    network: z._default(yesOrNo(), true),
    /** Absolute paths in the home directory that commands in the sandbox may read. */
    readable: listOrNone(absolutePath),
    /** Absolute paths besides the workspace that commands in the sandbox may write. */
    writable: listOrNone(absolutePath),
  }).check(({ value: { timeoutMs, timeoutMsMax }, issues }) => {
    if (timeoutMs === undefined || timeoutMs <= timeoutMsMax) return;
    const message = `must be a whole number from 1 to ${timeoutMsMax}, as "timeoutMsMax" says`;
    issues.push({ path: ["timeoutMs"], input: timeoutMs, message });
  }),
  z.transform(({ program, timeoutMs, ...shell }) => ({
    ...shell,
    program,
    timeoutMs: timeoutMs ?? Math.min(COMMAND_MS, shell.timeoutMsMax),
  })),
);

export type ShellConfig = Readonly<z.output<typeof SHELL>>;

const elsewhere =
  (type: string, names: readonly string[]) =>
  (name: string): string | undefined =>
    names.includes(name) ? `does not belong to a server of type ${type}` : undefined;

const STDIO = fields(
  {
    type: z.literal("stdio"),
    command: text(),
    args: listOrNone(anyText),
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

export type McpServerConfig = Readonly<z.output<typeof MCP_SERVER>>;

export const TOOLS = fields({
  /** By tool: read, ls, glob, grep, write, delete, shell, subagent, mcp, or the name of a declared tool. */
  approvals: z._default(named(oneOf(POLICIES)), {}),
  shell: z.prefault(SHELL, {}),
  mcp: z._default(named(MCP_SERVER), {}),
  /** How long a yes is good: long enough to recover from a crash, short enough to still know what was approved. */
  approvalMs: z._default(whole(1000, DAY_MS), 10 * MINUTE_MS),
});

export type ToolsConfig = Readonly<z.output<typeof TOOLS>>;

export const TOOLS_DEFAULTS: ToolsConfig = checked(TOOLS, {});

/** Throws `invalid_argument` with the field's name, from the top of the file. */
export function parseToolsConfig(json: unknown): ToolsConfig {
  return checked(
    TOOLS,
    json === undefined ? {} : json,
    (name) => `"${name === "" ? "tools" : `tools.${name}`}"`,
  );
}
