/**
 * The tools of an MCP server for tests, made with the official SDK.
 */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";

export function testServer(): McpServer {
  const server = new McpServer({ name: "test", version: "1.0.0" });
  server.registerTool(
    "add",
    {
      description: "Adds two numbers.",
      inputSchema: { a: z.number(), b: z.number() },
      outputSchema: { sum: z.number() },
    },
    ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }], structuredContent: { sum: a + b } }),
  );
  server.registerTool("odd.name", { description: "An image." }, () => ({
    content: [{ type: "image", mimeType: "image/png", data: Buffer.from("png").toString("base64") }],
  }));
  server.registerTool("fail", {}, () => ({ isError: true, content: [{ type: "text", text: "it broke" }] }));
  server.registerTool("die", {}, () => process.exit(1));
  server.registerTool("hang", {}, () => new Promise(() => undefined));
  return server;
}
