/**
 * The blocks of the manual for pages, in a real browser and against a real server: the one that follows a turn, and the one
 * of another tab that joins it.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { createModels } from "../../src/agent/models/index.ts";
import { createAgent } from "../../src/agent/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { serveHttp } from "../../src/server/http/index.ts";
import { createServer } from "../../src/server/index.ts";
import { memoryBlobStore, memoryStreamStore } from "../../src/store/index.ts";
import { noBrowser, profile } from "../browser/chromium.ts";
import { blocksRunBy } from "./blocks.ts";
import { repository } from "./entry-points.ts";

const [following, joining] = blocksRunBy("test/docs/browser.test.ts");

/** Whatever the page has to bring along for the block. */
const PAGE = `
  const apiKey = "secret";
  const text = "count to 30 every 50 ms";
  const output = document.body.appendChild(document.createElement("pre"));
`;
const OTHER_TAB = `
  import { openClient } from "holdfast/client/browser";
  const client = await openClient({ apiKey: "secret" });
  const idempotencyKey = globalThis.theStream;
  const clear = () => (globalThis.shown = []);
  const show = (eventId) => globalThis.shown.push(eventId);
`;

async function bundled(code: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: repository, loader: "js" },
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    alias: { "holdfast/client/browser": join(repository, "src/client/browser/index.ts") },
  });
  return outputFiles[0]?.text ?? "";
}

async function agentServer(t: TestContext): Promise<string> {
  const server = createServer({
    store: await memoryStreamStore({ now: Date.now }),
    blobs: memoryBlobStore({ now: Date.now }),
    sealing: nodeSealing(),
    application: createAgent({ models: createModels({ environment: {} }) }),
  });
  const http = await serveHttp({ server, port: 0, authenticate: async () => ({ principal: "alice" }) });
  t.after(() => http.close({ drainMs: 0 }));
  return http.url;
}

/** A page that runs this; what goes wrong in it is kept. */
async function tab(page: Page, url: string, code: string, bugs: unknown[]): Promise<void> {
  page.on("pageerror", (bug) => bugs.push(bug));
  await page.goto(url);
  await page.addScriptTag({ type: "module", content: await bundled(code) });
}

const ALL = Array.from({ length: 30 }, (_, at) => `${at + 1} `).join("");

test(
  "the manual's page shows a turn, and another tab joins its stream",
  { skip: noBrowser ?? false },
  async (t) => {
    const url = await agentServer(t);
    const context = await profile(t);
    const bugs: unknown[] = [];
    const page = await context.newPage();
    await tab(
      page,
      url,
      `${PAGE}${following?.text}\nglobalThis.isOver = true;`.replace(
        "for await",
        "globalThis.theStream = turn.stream.idempotencyKey;\nfor await",
      ),
      bugs,
    );
    await page.waitForFunction("document.querySelector('pre')?.textContent.length > 5");
    const key: unknown = await page.evaluate("theStream");
    const other = await context.newPage();
    await tab(
      other,
      url,
      `globalThis.theStream = ${JSON.stringify(key)};${OTHER_TAB}${joining?.text}\nglobalThis.isOver = true;`,
      bugs,
    );
    await page.waitForFunction("globalThis.isOver");
    assert.equal(await page.textContent("pre"), ALL);
    await other.waitForFunction("globalThis.isOver");
    const shown: unknown = await other.evaluate("globalThis.shown");
    assert.ok(Array.isArray(shown) && shown.length > 3);
    assert.deepEqual(
      shown,
      shown.toSorted((a, b) => a - b),
    );
    assert.deepEqual(bugs, []);
  },
);
