/**
 * How the page bears much: an answer of ten thousand events with the stream view open, and a conversation of two thousand messages. Prints what the browser
 * measured: `npx node test/browser/large-page.ts [turns]`. It asserts nothing about time.
 */
import { test, type TestContext } from "node:test";
import type { BrowserContext, CDPSession, Page } from "playwright-core";
import { browser } from "./chromium.ts";
import { PageServer, Tab } from "./page-rig.ts";

/** Tasks above 50 ms, as the browser sees them. */
const WATCH_TASKS = `
globalThis.longTasks = [];
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) globalThis.longTasks.push(Math.round(duration));
}).observe({ type: "longtask", buffered: true });
`;

/** Without the watcher of other tests: it keeps every text that was ever shown, which is more work than the page's own. */
async function person(t: TestContext): Promise<BrowserContext> {
  const context = await (await browser()).newContext();
  t.after(() => context.close());
  await context.addInitScript({ content: WATCH_TASKS });
  return context;
}

/** Of the page's main thread, in seconds since it was loaded. */
const before = new Map<string, number>();

async function measured(page: Page, session: CDPSession, what: string): Promise<void> {
  const tasks = await page.evaluate<readonly number[]>("globalThis.longTasks.splice(0)");
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const of = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? 0;
  const total = tasks.reduce((sum, ms) => sum + ms, 0);
  const heap = `${Math.round(of("JSHeapUsedSize") / 1e6)} MB of heap, ${of("Nodes")} nodes`;
  const spent = ["TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"].map((name) => {
    const seconds = of(name) - (before.get(name) ?? 0);
    before.set(name, of(name));
    return `${name.replace("Duration", "").toLowerCase()} ${seconds.toFixed(1)} s`;
  });
  console.log(
    `${what}: ${tasks.length} long tasks, longest ${Math.max(0, ...tasks)} ms, above 100 ms ${tasks.filter((ms) => ms > 100).length}, together ${total} ms; ${spent.join(", ")}; ${heap}`,
  );
}

test("much", { timeout: 1_200_000 }, async (t) => {
  const turns = Number(process.argv[2] ?? 1_000);
  const server = await PageServer.start(t);
  const context = await person(t);
  const tab = await Tab.open(context, server.link);
  await tab.isReady();
  const session = await context.newCDPSession(tab.page);
  await session.send("Performance.enable");
  const tell = (what: string): Promise<void> => measured(tab.page, session, what);
  await tell("an empty page");

  await tab.page.keyboard.press("Alt+KeyS");
  const beganMs = performance.now();
  await tab.say("pace 1 ms\nlong 10000");
  // Not asked for its text meanwhile: that would be work of the page too.
  await tab.is("ended");
  const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
  await tell(`an answer of 10,000 words in ${seconds} s, with the stream view`);
  const rows = tab.page.getByRole("listbox", { name: "Entries" });
  const facts = await tab.page.locator(".stream .tools .hint").innerText();
  console.log(`${facts}, of which ${await rows.getByRole("option").count()} are drawn`);
  for (let times = 0; times < 50; times++) await rows.hover().then(() => tab.page.mouse.wheel(0, -2_000));
  await tell("scrolling through them");
  await tab.page.keyboard.press("Alt+KeyS");

  if (turns === 0) return;
  await tab.begin();
  for (let turn = 0; turn < turns; turn++) {
    // Of many turns only the last are drawn, so they cannot be counted.
    await tab.page.getByLabel("Message", { exact: true }).fill(`say Answer **${turn}** of many.`);
    await tab.page.keyboard.press("Enter");
    await tab.answers((answer) => answer === `Answer ${turn} of many.`, "it is answered");
    await tab.is("ended");
  }
  await tell(`saying ${turns} messages`);
  await tab.page.reload();
  await tab.page.getByText(`Answer ${turns - 1} of many.`).waitFor();
  await tell(`reading ${2 * turns} messages anew`);
  for (let times = 0; times < 100; times++) {
    await tab.page.getByRole("main").hover();
    await tab.page.mouse.wheel(0, -4_000);
  }
  await tell("scrolling up through them");
});
