/**
 * `--allow` and `--yes`: what may run without asking in this chat, laid over what the config file says.
 *
 * What the file denies stays denied: a flag that was typed once does not undo a decision that was written down.
 */
import { TOOLS_DEFAULTS, type ToolsConfig } from "../../tools/config.ts";
import { mayBeOf } from "../../tools/declared-tools.ts";
import type { ChatSettings } from "./chat-flags.ts";

/** Everything that has a policy of its own; `mcp` stands for all tools of MCP servers. */
const ALL = ["read", "ls", "glob", "grep", "write", "delete", "shell", "subagent", "mcp"] as const;

export function allowing(
  configured: ToolsConfig | undefined,
  { allow, allowsAll }: Pick<ChatSettings, "allow" | "allowsAll">,
): ToolsConfig {
  const config = configured ?? TOOLS_DEFAULTS;
  const { approvals } = config;
  const denied = Object.keys(approvals).filter((name) => approvals[name] === "deny");
  const names = [...(allowsAll ? ALL : []), ...allow.map(policyName)];
  const allowed = names.filter((name) => !denied.some((one) => one === name || isMoreGeneral(one, name)));
  return {
    ...config,
    approvals: { ...approvals, ...Object.fromEntries(allowed.map((name) => [name, "allow"] as const)) },
  };
}

/** A tool of an MCP server is denied with its server, and both with `mcp`. */
function isMoreGeneral(denied: string, name: string): boolean {
  if (ALL.some((known) => known === name)) return false;
  return denied === "mcp" || mayBeOf(denied, name);
}

/** An edit reads a file and writes it: what it needs is to write. */
function policyName(tool: string): string {
  return tool === "edit" ? "write" : tool;
}
