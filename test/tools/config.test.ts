import assert from "node:assert/strict";
import { test } from "node:test";
import { parseToolsConfig } from "../../src/tools/index.ts";

test("a config is taken with its defaults", () => {
  const config = parseToolsConfig({
    approvals: { shell: "deny", files__read: "allow" },
    shell: { timeoutMs: 5000, network: false, allow: ["git status"] },
    mcp: {
      files: { command: "files-server", args: ["."] },
      web: { url: "https://mcp.example.com/", headers: { a: "b" } },
    },
  });
  assert.equal(config.shell.timeoutMsMax, 600_000);
  assert.equal(config.shell.sandbox, "auto");
  assert.deepEqual(config.mcp["files"], { type: "stdio", command: "files-server", args: ["."], env: {} });
  assert.equal(config.mcp["web"]?.type, "http");
  assert.equal(parseToolsConfig(undefined).approvalMs, 600_000);
  assert.equal(parseToolsConfig({ shell: { timeoutMsMax: 1000 } }).shell.timeoutMs, 1000);
});

test("what is wrong is named by its field", () => {
  const table: readonly (readonly [unknown, RegExp])[] = [
    [[], /^"tools" must be an object/],
    [{ shel: {} }, /^"tools\.shel" is not known; did you mean "shell"\?$/],
    [{ approvals: { shell: "maybe" } }, /^"tools\.approvals\.shell" must be one of allow, ask, deny/],
    [{ shell: { timeoutMs: 700_000 } }, /^"tools\.shell\.timeoutMs" must be a whole number from 1 to 600000/],
    [{ shell: { environment: ["A B"] } }, /^"tools\.shell\.environment\[0\]" must be the name/],
    [{ shell: { sandbox: "yes" } }, /^"tools\.shell\.sandbox" must be one of auto, require, off/],
    [{ shell: { readable: ["x"] } }, /^"tools\.shell\.readable\[0\]" must be an absolute path/],
    [{ shell: { network: 1 } }, /^"tools\.shell\.network" must be true or false/],
    [{ mcp: { a: {} } }, /^"tools\.mcp\.a\.command" is missing: it must be a text/],
    [{ mcp: { a: { url: "ftp://x" } } }, /^"tools\.mcp\.a\.url" must begin with http/],
    [
      { mcp: { a: { url: "http://x", args: [] } } },
      /^"tools\.mcp\.a\.args" does not belong to a server of type http/,
    ],
    [{ mcp: { a: { type: "sse" } } }, /^"tools\.mcp\.a\.type" must be one of stdio, http/],
  ];
  for (const [json, message] of table)
    assert.throws(() => parseToolsConfig(json), { name: "HoldfastError", message });
});
