/**
 * Puts the tools of a machine together: the workspace, the shell and its sandbox, declared tools, approvals.
 *
 * What does not work here is left out and said in `notices`; only a wrong setting, or a workspace that is not there,
 * is an error.
 */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../protocol/errors.ts";
import { approvalsBy, type Ask } from "./approvals.ts";
import { closedDirectories, type ClosedDirectories, isClosed } from "./closed.ts";
import { TOOLS_DEFAULTS, type ToolsConfig } from "./config.ts";
import { type FunctionTool, functionTools } from "./declared-tools.ts";
import type { Environment } from "./environment.ts";
import { failureOf } from "./faults.ts";
import { Jail } from "./jail.ts";
import { startMcpServers } from "./mcp-servers.ts";
import { processRecords } from "./process-records.ts";
import { findProgram, findSandbox, runsAsRoot, type Sandbox } from "./sandbox.ts";
import { type Subagents, toolSet, type ToolSet } from "./tool-set.ts";

export interface ToolsOptions {
  /** The only directory that file tools reach (E6). */
  readonly workspace: string;
  /** Private to this user: which processes run for which exec. */
  readonly stateDirectory: string;
  /** As `parseToolsConfig` gives it. Default: everything as usual. */
  readonly config?: ToolsConfig;
  /** None: what would ask is denied, with a reason. */
  readonly ask?: Ask;
  /** Directories of ours that no tool may touch, wherever they lie: data of a server, keys. */
  readonly closed?: readonly string[];
  readonly functions?: Readonly<Record<string, FunctionTool>>;
  readonly subagents?: Subagents;
  /** Where PATH and what commands may see comes from. Default: this process's. */
  readonly env?: Environment;
}

const AS_ROOT =
  "this runs as root, and so do its tools: run it as an ordinary user unless root is what you need";

/** Journals in the workspace; see the client's scopes. */
const JOURNALS = ".holdfast";

export async function createTools(options: ToolsOptions): Promise<ToolSet> {
  const config = options.config ?? TOOLS_DEFAULTS;
  const env = options.env ?? process.env;
  const functions = functionTools(options.functions ?? {});
  const { jail, closed } = openJail(options.workspace, options.closed ?? []);
  const letGo = (): void => {
    jail.close();
    closed.close();
  };
  const notices: string[] = [];
  try {
    const hasFiles = process.platform !== "win32";
    if (!hasFiles) notices.push("file tools and the shell are off: they are not safe on Windows; use WSL");
    if (hasFiles && runsAsRoot()) notices.push(AS_ROOT);
    const { path: workspace } = jail.root;
    const sandbox: Sandbox =
      hasFiles && config.shell.enabled ? findSandbox(config.shell, { workspace, closed }, env) : UNUSED;
    if (sandbox.notice !== undefined) notices.push(sandbox.notice);
    const records = processRecords(options.stateDirectory);
    const taken = new Set(functions.map(({ definition }) => definition.name));
    const mcp = await startMcpServers(config.mcp, workspace, taken);
    return toolSet({
      workspace,
      approvals: approvalsBy(config, { workspace, jail: hasFiles ? jail : undefined }, options.ask),
      files: hasFiles
        ? {
            shell: { jail, config: config.shell, sandbox, records, env },
            ripgrep: findProgram("rg", workspace, env),
          }
        : undefined,
      declared: [...functions, ...mcp.tools],
      subagents: options.subagents,
      notices: [...notices, ...mcp.notices],
      close: async () => {
        await mcp.close();
        letGo();
      },
    });
  } catch (cause) {
    letGo();
    throw cause;
  }
}

const UNUSED: Sandbox = { wrap: (argv) => argv, notice: undefined };

function openJail(
  workspace: string,
  directories: readonly string[],
): { jail: Jail; closed: ClosedDirectories } {
  try {
    const root = realpathSync(workspace);
    const closed = closedDirectories(root, [join(root, JOURNALS), ...directories]);
    const jail = Jail.open(workspace, closed);
    if (!isClosed(closed.now, "", jail.root.stats)) return { jail, closed };
    jail.close();
    closed.close();
    const message = `the workspace ${root} is a directory of Holdfast's own: choose another one`;
    throw new HoldfastError("invalid_argument", message);
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause;
    const { value } = failureOf(cause, workspace);
    const why = "message" in value ? value.message : "it cannot be opened";
    throw new HoldfastError("not_found", `the workspace cannot be used: ${why}`, { cause });
  }
}
