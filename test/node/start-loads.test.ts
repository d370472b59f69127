/** Providers' SDKs and the client of MCP are large: a server loads them when a model or a tool of theirs is used, and not before. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const SOURCE = join(import.meta.dirname, "../../src");

/** The packages that these files import, and all that they import, before anything is called. */
function packagesOf(...files: readonly string[]): readonly string[] {
  const urls = files.map((file) => pathToFileURL(join(SOURCE, file)).href);
  const program = `import { registerHooks } from "node:module";
    const asked = new Set();
    const resolve = (name, context, next) => (asked.add(name), next(name, context));
    registerHooks({ resolve });
    for (const url of ${JSON.stringify(urls)}) await import(url);
    console.log(JSON.stringify([...asked].filter((name) => /^[@a-z]/.test(name) && !/^(?:node|file):/.test(name))));`;
  const said = execFileSync(process.execPath, ["--input-type=module", "--eval", program], {
    encoding: "utf8",
  });
  const names: unknown = JSON.parse(said);
  assert.ok(Array.isArray(names));
  return names.map(String);
}

test("serve, connect and the commands load no SDK of a provider, and none of MCP", () => {
  const loaded = packagesOf("node/index.ts", "cli/serve.ts", "cli/chat.ts", "agent/models/index.ts");
  // What the SDKs have in common, a few errors; and so the hook is seen to see.
  assert.ok(loaded.includes("@ai-sdk/provider"));
  assert.deepEqual(
    loaded.filter((name) => /^(?:@ai-sdk\/(?!provider$)|@modelcontextprotocol\/|openai|ai$)/.test(name)),
    [],
  );
});
