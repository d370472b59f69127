/**
 * A conversation of any length on the screen, without a server: the page's own chat with turns that a test makes, in a real Chromium.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { browser } from "./chromium.ts";

const folder = join(import.meta.dirname, "../../src/page");

/** `show(count, news)`: so many turns; `news` is what answers say more, by their place, or what they have said while they run. Heights differ from turn to turn. */
const SCRIPT = `
import { createElement, render } from "preact/compat";
import { Chat } from "./chat.tsx";

let more = {};
const answerOf = (at) => Array(1 + ((at * 7) % 5)).fill("Some **words** of answer " + at + ". ".repeat(9)).join("\\n\\n") + (more[at] ?? "");
const made = new Map();
const turnOf = (at) => {
  const isRunning = typeof more[at] === "object";
  const text = isRunning ? more[at].running : answerOf(at);
  const known = made.get(at);
  if (known?.parts[0]?.text === text && !isRunning) return known;
  const user = { text: "Question " + at, messageId: "", attachments: [] };
  const end = { reason: "completed", message: "" };
  const parts = text === "" ? [] : [{ type: "text", step: 0, text }];
  const turn = { id: "t" + at, user, parts, end: isRunning ? undefined : end, usage: undefined, model: "" };
  made.set(at, turn);
  return turn;
};
const approvals = [];
const decide = () => undefined;
const resend = () => undefined;
globalThis.show = (count, news = {}) => {
  more = news;
  const turns = Array.from({ length: count }, (_, at) => turnOf(at));
  const chat = createElement(Chat, { turns, approvals, mayEdit: true, decide, resend });
  render(createElement("div", { className: "page" }, chat), document.getElementById("root"));
};
`;

const HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div>';

const scripts = new Map<string, Promise<string>>();

async function bundled(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: folder, loader: "js" },
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2024",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    alias: { react: "preact/compat", "react/jsx-runtime": "preact/jsx-runtime" },
  });
  return outputFiles[0]?.text ?? "";
}

/** A page with this script, which may import from `src/page`, and the page's own style. */
export async function pageWith(t: TestContext, contents: string): Promise<Page> {
  const context = await (await browser()).newContext({ viewport: { width: 1000, height: 800 } });
  t.after(() => context.close());
  const page = await context.newPage();
  // No server is asked: a page must only be somewhere.
  await page.route("http://chat.test/", (route) => route.fulfill({ contentType: "text/html", body: HTML }));
  await page.goto("http://chat.test/");
  await page.addStyleTag({ content: readFileSync(join(folder, "style.css"), "utf8") });
  const script = scripts.get(contents) ?? bundled(contents);
  scripts.set(contents, script);
  await page.addScriptTag({ content: await script });
  return page;
}

/** Shows so many turns; `news` is what their answers say more, or all that one has said that runs. */
export type Show = (
  count: number,
  news?: Readonly<Record<number, string | { readonly running: string }>>,
) => Promise<void>;

export async function longChat(t: TestContext): Promise<{ readonly page: Page; readonly show: Show }> {
  const page = await pageWith(t, SCRIPT);
  const show: Show = async (count, news = {}) => {
    await page.evaluate(`show(${count}, ${JSON.stringify(news)})`);
    await settled(page);
  };
  return { page, show };
}

/** Two frames later: everything that follows from what was done is laid out. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
}
