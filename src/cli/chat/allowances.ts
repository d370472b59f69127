/**
 * `--allow` and `--yes`: what may run without asking in this chat, laid over what the config file says.
 *
 * What the file denies stays denied: a flag that was typed once does not undo a decision that was written down.
 */
import { TOOLS_DEFAULTS, type ToolsConfig } from "../../tools/config.ts";
import type { ChatSettings } from "./chat-flags.ts";

/** Everything that has a policy of its own; `mcp` stands for all tools of MCP servers. */
const ALL = ["read", "ls", "glob", "grep", "write", "delete", "shell", "subagent", "mcp"] as const;

export function allowing(
  configured: ToolsConfig | undefined,
  { allow, allowsAll }: Pick<ChatSettings, "allow" | "allowsAll">,
): ToolsConfig {
  const config = configured ?? TOOLS_DEFAULTS;
  const names = [...(allowsAll ? ALL : []), ...allow.map(policyName)];
  const allowed = Object.fromEntries(names.map((name) => [name, "allow"] as const));
  const denied = Object.fromEntries(
    Object.entries(config.approvals).filter(([, policy]) => policy === "deny"),
  );
  return { ...config, approvals: { ...config.approvals, ...allowed, ...denied } };
}

/** An edit reads a file and writes it: what it needs is to write. */
function policyName(tool: string): string {
  return tool === "edit" ? "write" : tool;
}
