/**
 * How the page bears much: an answer of ten thousand events with the stream view open, and a conversation of two thousand messages. Prints what the browser
 * measured: `npx node test/browser/large-page.ts [turns]`. It asserts nothing about time.
 *
 * Tasks of the page's main thread are measured by the processor time that they took: by the clock, a task is as long as a busy machine makes it wait.
 */
import { test, type TestContext } from "node:test";
import type { BrowserContext, CDPSession, Page } from "playwright-core";
import * as z from "zod";
import { browser } from "./chromium.ts";
import { longChat, settled } from "./long-chat.ts";
import { PageServer, Tab } from "./page-rig.ts";

/** Without the watcher of other tests: it keeps every text that was ever shown, which is more work than the page's own. */
async function person(t: TestContext): Promise<BrowserContext> {
  const context = await (await browser()).newContext();
  t.after(() => context.close());
  return context;
}

/** What a task took, in milliseconds, of the processor and by the clock. */
interface Task {
  readonly cpuMs: number;
  readonly clockMs: number;
}

async function beginTrace(page: Page): Promise<void> {
  await (await browser()).startTracing(page, { categories: ["toplevel", "__metadata"] });
}

/** Of the main threads of pages, since the trace began. */
async function tracedTasks(): Promise<readonly Task[]> {
  const { traceEvents } = z
    .object({
      traceEvents: z.array(
        z.object({
          name: z.string(),
          pid: z.number(),
          tid: z.number(),
          dur: z.optional(z.number()),
          tdur: z.optional(z.number()),
          args: z.optional(z.object({ name: z.optional(z.string()) })),
        }),
      ),
    })
    .parse(JSON.parse((await (await browser()).stopTracing()).toString()));
  const place = ({ pid, tid }: { readonly pid: number; readonly tid: number }): string => `${pid} ${tid}`;
  const mains = new Set(
    traceEvents
      .filter(({ name, args }) => name === "thread_name" && args?.name === "CrRendererMain")
      .map(place),
  );
  return traceEvents
    .filter((event) => event.name.endsWith("RunTask") && mains.has(place(event)))
    .map(({ dur = 0, tdur = 0 }) => ({ cpuMs: tdur / 1_000, clockMs: dur / 1_000 }));
}

/** Of traces that are over: the trace of much is longer than a string may be. */
const traced: Task[] = [];

async function traceAnew(page: Page): Promise<void> {
  traced.push(...(await tracedTasks()));
  await beginTrace(page);
}

/** Of the page's main thread, in seconds since it was loaded. */
const before = new Map<string, number>();

async function measured(page: Page, session: CDPSession, what: string): Promise<void> {
  const tasks = [...traced.splice(0), ...(await tracedTasks())];
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const of = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? 0;
  const heap = `${Math.round(of("JSHeapUsedSize") / 1e6)} MB of heap, ${of("Nodes")} nodes`;
  const spent = ["TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"].map((name) => {
    const seconds = of(name) - (before.get(name) ?? 0);
    before.set(name, of(name));
    return `${name.replace("Duration", "").toLowerCase()} ${seconds.toFixed(1)} s`;
  });
  const above = (ms: number): number => tasks.filter(({ cpuMs }) => cpuMs > ms).length;
  const longest = (of: (task: Task) => number): string =>
    tasks.reduce((most, task) => Math.max(most, of(task)), 0).toFixed(0);
  console.log(
    `${what}: ${tasks.length} tasks, longest ${longest(({ cpuMs }) => cpuMs)} ms (${longest(({ clockMs }) => clockMs)} by the clock), above 16 ms ${above(16)}, above 50 ms ${above(50)}; ${spent.join(", ")}; ${heap}`,
  );
  await beginTrace(page);
}

test("a conversation of two thousand messages, without a server", { timeout: 1_200_000 }, async (t) => {
  const { page, show } = await longChat(t);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  await beginTrace(page);
  await show(1_000);
  await measured(page, session, "drawing 2,000 messages");
  for (let times = 0; times < 300; times++) {
    await page.evaluate("document.querySelector('main').scrollTop -= 700");
    await settled(page);
  }
  await measured(page, session, "scrolling up through 210,000 pixels of them");
  await tracedTasks();
  before.clear();
});

test("much", { timeout: 1_200_000 }, async (t) => {
  const turns = Number(process.argv[2] ?? 1_000);
  const server = await PageServer.start(t);
  const context = await person(t);
  const tab = await Tab.open(context, server.link);
  await tab.isReady();
  const session = await context.newCDPSession(tab.page);
  await session.send("Performance.enable");
  await beginTrace(tab.page);
  const tell = (what: string): Promise<void> => measured(tab.page, session, what);
  await tell("an empty page");

  await tab.page.keyboard.press("Alt+KeyS");
  const beganMs = performance.now();
  await tab.say("pace 1 ms\nlong 20000");
  // Not asked for its text meanwhile: that would be work of the page too.
  await tab.is("ended");
  const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
  await tell(`an answer of 20,000 words in ${seconds} s, with the stream view`);
  const rows = tab.page.getByRole("listbox", { name: "Entries" });
  const facts = await tab.page.locator(".stream .tools .hint").innerText();
  console.log(`${facts}, of which ${await rows.getByRole("option").count()} are drawn`);
  for (let times = 0; times < 50; times++) await rows.hover().then(() => tab.page.mouse.wheel(0, -2_000));
  await tell("scrolling through them");
  await tab.page.keyboard.press("Alt+KeyS");

  if (turns === 0) return void (await tracedTasks());
  await tab.begin();
  for (let turn = 0; turn < turns; turn++) {
    // Of many turns only the last are drawn, so they cannot be counted.
    await tab.page.getByLabel("Message", { exact: true }).fill(`say Answer **${turn}** of many.`);
    await tab.page.keyboard.press("Enter");
    await tab.answers((answer) => answer === `Answer ${turn} of many.`, "it is answered");
    await tab.is("ended");
    if (turn % 100 === 99) await traceAnew(tab.page);
  }
  await tell(`saying ${turns} messages`);
  await tab.page.reload();
  before.clear();
  await tab.page.getByText(`Answer ${turns - 1} of many.`).waitFor();
  await tell(`reading ${2 * turns} messages anew`);
  for (let times = 0; times < 100; times++) {
    await tab.page.getByRole("main").hover();
    await tab.page.mouse.wheel(0, -4_000);
  }
  await tell("scrolling up through them");
  await tracedTasks();
});
