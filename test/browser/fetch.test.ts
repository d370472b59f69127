/**
 * `holdfast/fetch` in a real browser, in a page of another origin than the gateway's: the stock SDK's answer outlives its connections, and its stop arrives.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { build } from "esbuild";
import type { BrowserContext, Page } from "playwright-core";
import { portOf } from "../agent/models/providers/server.ts";
import { repository } from "../docs/entry-points.ts";
import { PacedModel } from "../gateway/paced-model.ts";
import { World } from "../gateway/world.ts";
import { ALICE_KEY } from "../server/http/rig.ts";
import { crashPage, noBrowser, profile } from "./chromium.ts";
import { html } from "./bundle.ts";
import { until } from "./rig.ts";

const PAGE = `
  import OpenAI from "openai";
  import { holdfast } from "holdfast/fetch";
  const { baseURL, apiKey } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  const client = new OpenAI({ baseURL, apiKey, fetch: holdfast({ baseURL }), maxRetries: 0, dangerouslyAllowBrowser: true });
  globalThis.ask = async () => {
    globalThis.said = "";
    globalThis.ended = "";
    const messages = [{ role: "user", content: "Say" }];
    try {
      globalThis.stream = await client.chat.completions.create({ model: "paced/model", messages, stream: true });
      for await (const { choices } of globalThis.stream) globalThis.said += choices[0]?.delta.content ?? "";
      globalThis.ended = "whole";
    } catch (error) {
      globalThis.ended = String(error);
    }
  };
  globalThis.isReady = true;
`;

/** A web server with this page alone. */
async function pageServer(t: TestContext): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: PAGE, resolveDir: repository, loader: "js" },
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    alias: { "holdfast/fetch": join(repository, "src/fetch/index.ts") },
  });
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? outputFiles[0]?.text : html("/page.js"));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${portOf(server)}`;
}

async function opened(context: BrowserContext, origin: string, { url }: World): Promise<Page> {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const given = { baseURL: `${url}/v1`, apiKey: ALICE_KEY };
  await page.goto(`${origin}/#${encodeURIComponent(JSON.stringify(given))}`);
  await page.waitForFunction("globalThis.isReady");
  return page;
}

async function showing(page: Page, text: string): Promise<void> {
  await page.waitForFunction(`said === ${JSON.stringify(text)} || ended !== ""`);
  assert.deepEqual(await page.evaluate("[said, ended]"), [text, ""]);
}

test(
  "a page of another origin: cut in mid-answer and unplugged, its user sees nothing; a stop reaches the gateway",
  { skip: noBrowser ?? false },
  async (t) => {
    const origin = await pageServer(t);
    const gates = [0, 1].map(() => Promise.withResolvers<void>());
    const wait = (at: number) => () => gates[at]?.promise ?? Promise.resolve();
    const model = new PacedModel((_, calls) =>
      calls === 1
        ? ["Größer ", wait(0), "als ", wait(1), "大きい家."]
        : ["Again ", () => new Promise(() => undefined)],
    );
    const world = await World.begin(t, model, { allowedOrigins: [origin] });
    const bugs: unknown[] = [];
    const page = await opened(await profile(t), origin, world);
    page.on("pageerror", (bug) => bugs.push(bug));
    const shows = (text: string): Promise<void> => showing(page, text);

    await page.evaluate("void ask()");
    await shows("Größer ");
    world.cable.cut();
    gates[0]?.resolve();
    await shows("Größer als ");
    world.cable.unplug();
    gates[1]?.resolve();
    await until(() => world.gateway.readers === 0, "its reader is gone");
    world.cable.target = world.port;
    await page.waitForFunction("globalThis.ended");
    assert.deepEqual(await page.evaluate("[said, ended]"), ["Größer als 大きい家.", "whole"]);
    assert.equal(model.calls.length, 1);

    await page.evaluate("void ask()");
    await shows("Again ");
    await page.evaluate("globalThis.stream.controller.abort()");
    await until(() => world.gateway.sessions.every(({ state }) => state !== "generating"), "it is stopped");
    assert.equal(model.calls[1]?.signal.aborted, true);
    assert.equal(world.gateway.counters.abandoned, 0);
    assert.deepEqual(bugs, []);
  },
);

/** How a page goes in the middle of its answer. */
const ENDS: Readonly<Record<string, (page: Page) => Promise<unknown>>> = {
  "is closed": (page) => page.close(),
  "goes to another address": (page) => page.goto("about:blank"),
  "is reloaded": (page) => page.reload(),
  "has its process die": (page) => crashPage(page),
};

for (const [name, end] of Object.entries(ENDS)) {
  test(
    `a page that ${name} in mid-answer stops nothing: the answer is complete at the gateway, by one model call`,
    { skip: noBrowser ?? false },
    async (t) => {
      const origin = await pageServer(t);
      const gate = Promise.withResolvers<void>();
      const model = new PacedModel((_, calls) =>
        calls === 1 ? ["Größer ", () => gate.promise, "als 大きい家."] : ["Later."],
      );
      const world = await World.begin(t, model, { allowedOrigins: [origin] });
      const context = await profile(t);
      const page = await opened(context, origin, world);
      const answered = page.waitForResponse((response) => response.request().method() === "POST");
      await page.evaluate("void ask()");
      await showing(page, "Größer ");
      const path = await (await answered).headerValue("x-holdfast-resume");
      await end(page);
      await until(() => world.gateway.readers === 0, "its reader is gone");
      // What the page said last would be there before what another one says.
      const later = await opened(context, origin, world);
      await later.evaluate("ask()");
      assert.equal(await later.evaluate("said"), "Later.");
      assert.equal(model.calls[0]?.signal.aborted, false);
      gate.resolve();
      await until(() => world.gateway.sessions.every(({ state }) => state !== "generating"), "it ends");
      const headers = { authorization: `Bearer ${ALICE_KEY}` };
      const whole = await (await fetch(`${world.url}${path}`, { headers })).text();
      assert.match(whole, /"Größer "[^]*"als [^]*大きい家\."[^]*\[DONE\]/);
      assert.deepEqual([model.calls.length, world.gateway.counters.abandoned], [2, 0]);
      assert.ok(!world.logLines.join("").includes("_stop"), "nothing asked to stop it");
    },
  );
}
