/**
 * An MCP server on standard input and output.
 */
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { testServer } from "./mcp-tools.ts";

await testServer().connect(new StdioServerTransport());
