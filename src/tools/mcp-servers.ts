/**
 * All MCP servers of the user's config: started together, and one that does not start takes nothing from the others.
 */
import { create } from "../protocol/message.ts";
import { messageOf } from "../protocol/errors.ts";
import { ToolDefinitionSchema } from "../protocol/messages.ts";
import type { McpServerConfig } from "./config.ts";
import { declaredName, type DeclaredTool } from "./declared-tools.ts";

/** `taken` are names that are in use. */
export async function startMcpServers(
  configs: Readonly<Record<string, McpServerConfig>>,
  workspace: string,
  taken: ReadonlySet<string>,
) {
  const named = Object.entries(configs);
  if (named.length === 0) return { tools: [], notices: [], close: async () => undefined };
  // Its library takes longer to load than everything else here, and most clients have no such server.
  const { mcpServer } = await import("./mcp-server.ts");
  const servers = named.map(([name, config]) => mcpServer(name, config, workspace));
  const found = await Promise.allSettled(servers.map((server) => server.listTools()));
  const names = new Set(taken);
  const tools: DeclaredTool[] = [];
  const notices: string[] = [];
  for (const [at, server] of servers.entries()) {
    const listed = found[at];
    if (listed?.status !== "fulfilled") {
      notices.push(`${messageOf(listed?.reason)}; its tools are not offered`);
      continue;
    }
    for (const tool of listed.value) {
      const name = declaredName(server.name, tool.name, taken);
      // The server names two tools alike; a call could only mean one of them.
      if (names.has(name)) continue;
      names.add(name);
      const definition = create(ToolDefinitionSchema, {
        name,
        description: tool.description ?? "",
        parametersJson: JSON.stringify(tool.inputSchema),
        server: server.name,
      });
      tools.push({ definition, policy: undefined, call: (args, run) => server.call(tool.name, args, run) });
    }
  }
  const close = async () => {
    await Promise.allSettled(servers.map((server) => server.close()));
  };
  return { tools, notices, close };
}
