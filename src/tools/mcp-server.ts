/**
 * One MCP server of the user's config, spoken to by the official SDK.
 *
 * It is started with the client. One that dies is started again by the next call, never by the call that saw it
 * die: that one may have had its effect (C1).
 *
 * Requests are made by hand: the SDK's own methods check results against the server's schema, whose regular
 * expressions would run here, and one that runs for ever would stop the client.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { getDefaultEnvironment, StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  type CallToolResult,
  CallToolResultSchema,
  ErrorCode,
  ListToolsResultSchema,
  McpError,
  type Tool,
} from "@modelcontextprotocol/sdk/types.js";
import type { ToolRun } from "../client/tools.ts";
import { messageOf } from "../protocol/errors.ts";
import { given } from "../protocol/given.ts";
import type { McpServerConfig } from "./config.ts";
import type { McpSuccessInit } from "./declared-tools.ts";
import { codeOf, fault } from "./faults.ts";
import { contentOf, jsonContentOf } from "./results.ts";

const CONNECT_MS = 10_000;
/** Long for a tool, short for a person who waits for a server that hangs. */
const CALL_MS = 5 * 60_000;
const TOOLS_MAX = 500;
/** A server may say for ever that there is more. */
const PAGES_MAX = 100;
/** Errors carry them as plain numbers. */
const REQUEST_TIMEOUT: number = ErrorCode.RequestTimeout;
const CONNECTION_CLOSED: number = ErrorCode.ConnectionClosed;

export function mcpServer(name: string, config: McpServerConfig, workspace: string) {
  let connected: Promise<Client> | undefined;

  async function reach(): Promise<Client> {
    connected ??= connect();
    try {
      return await connected;
    } catch (cause) {
      connected = undefined;
      throw fault(
        codeOf(cause) || "ECONNREFUSED",
        `the MCP server "${name}" cannot be reached: ${messageOf(cause)}`,
      );
    }
  }

  async function connect(): Promise<Client> {
    const client = new Client({ name: "holdfast", version: "0.1.0" });
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK's client is no EventTarget
    client.onclose = () => {
      connected = undefined;
    };
    try {
      await client.connect(transportTo(config, workspace), { timeout: CONNECT_MS });
    } catch (cause) {
      await client.close().catch(() => undefined);
      throw cause;
    }
    return client;
  }

  return {
    name,
    async listTools(): Promise<readonly Tool[]> {
      const client = await reach();
      const tools: Tool[] = [];
      let params = {};
      for (let pages = 0; tools.length < TOOLS_MAX && pages < PAGES_MAX; pages++) {
        const page = await client.request({ method: "tools/list", params }, ListToolsResultSchema, {
          timeout: CONNECT_MS,
        });
        tools.push(...page.tools);
        if (page.nextCursor === undefined) break;
        params = { cursor: page.nextCursor };
      }
      return tools.slice(0, TOOLS_MAX);
    },
    async call(tool: string, args: unknown, run: ToolRun): Promise<McpSuccessInit> {
      const client = await reach();
      try {
        const options = { signal: run.signal, timeout: CALL_MS, maxTotalTimeout: CALL_MS };
        const params = { name: tool, arguments: objectOf(args) };
        const result = await client.request({ method: "tools/call", params }, CallToolResultSchema, options);
        return await successOf(result, run);
      } catch (cause) {
        throw faultOf(cause, name, run.signal);
      }
    },
    async close(): Promise<void> {
      const last = connected;
      connected = undefined;
      // One that never came up has nothing to close.
      const client = await last?.catch(() => undefined);
      await client?.close();
    },
  };
}

function transportTo(config: McpServerConfig, workspace: string): Transport {
  if (config.type === "http") {
    const { url, headers } = config;
    return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  }
  const { command, args, env } = config;
  return new StdioClientTransport({
    command,
    args: [...args],
    env: { ...getDefaultEnvironment(), ...env },
    cwd: workspace,
    // What a server says about itself would tear the user's screen.
    stderr: "ignore",
  });
}

function objectOf(args: unknown): Record<string, unknown> {
  if (typeof args !== "object" || args === null || Array.isArray(args)) {
    throw fault("EINVAL", "the arguments of an MCP tool are a JSON object");
  }
  return { ...args };
}

function faultOf(cause: unknown, server: string, signal: AbortSignal): unknown {
  if (signal.aborted) return fault("ABORT_ERR", "stopped");
  if (cause instanceof McpError && cause.code === REQUEST_TIMEOUT) {
    return fault("ETIMEDOUT", `the MCP server "${server}" did not answer`, { timeoutMs: CALL_MS });
  }
  if (cause instanceof McpError) return cause.code === CONNECTION_CLOSED ? wentAway(server) : cause;
  // `fetch` says no more than that it failed; only one that was never connected has done nothing for sure.
  const neverConnected = cause instanceof TypeError && NOT_CONNECTED.has(codeOf(cause.cause));
  return cause instanceof TypeError && !neverConnected ? wentAway(server) : cause;
}

const NOT_CONNECTED: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
]);

function wentAway(server: string): Error {
  return fault(
    "ECONNRESET",
    `the MCP server "${server}" went away during the call; whether it took effect is not known`,
  );
}

async function successOf(result: CallToolResult, run: ToolRun): Promise<McpSuccessInit> {
  const content = [];
  for (const part of result.content) {
    const { mediaType, bytes } = partOf(part);
    content.push({ mediaType, content: await contentOf(bytes, run) });
  }
  return {
    content,
    isError: result.isError === true,
    ...given({ structuredJson: await jsonContentOf(result.structuredContent, run) }),
  };
}

function partOf(part: CallToolResult["content"][number]): { mediaType: string; bytes: Uint8Array } {
  switch (part.type) {
    case "text":
      return { mediaType: "", bytes: Buffer.from(part.text) };
    case "image":
    case "audio":
      return { mediaType: part.mimeType, bytes: Buffer.from(part.data, "base64") };
    case "resource_link":
      return { mediaType: "", bytes: Buffer.from(`${part.name}: ${part.uri}`) };
    case "resource":
      return "text" in part.resource
        ? { mediaType: part.resource.mimeType ?? "", bytes: Buffer.from(part.resource.text) }
        : {
            mediaType: part.resource.mimeType ?? "application/octet-stream",
            bytes: Buffer.from(part.resource.blob, "base64"),
          };
  }
}
