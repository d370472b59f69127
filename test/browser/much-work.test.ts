/**
 * An answer of ten thousand words, a stream of ten thousand events and a conversation of two thousand messages are work for what is seen and for what changes, not for all of it.
 *
 * Work is counted, not timed: how much of the document a step changes, how much of it there is, and the heap that is left. These are the same on a busy machine.
 * `large-page.ts` measures times.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { noBrowser } from "./chromium.ts";
import { longChat, pageWith, settled } from "./long-chat.ts";

const skip = noBrowser ?? false;

/** What changed since it was asked last: elements that came or went or have other text, the characters of these texts, and the articles that they are in. */
const WATCH = `
globalThis.work = { elements: 0, characters: 0, places: [] };
new MutationObserver((records) => {
  for (const { target, addedNodes, removedNodes, type } of records) {
    const place = target.parentElement?.closest("article")?.getAttribute("aria-posinset");
    if (place != null && !work.places.includes(place)) work.places.push(place);
    work.elements += addedNodes.length + removedNodes.length + (type === "characterData" ? 1 : 0);
    for (const one of [...addedNodes, ...(type === "characterData" ? [target] : [])]) work.characters += one.textContent.length;
  }
}).observe(document.getElementById("root"), { subtree: true, childList: true, characterData: true });
`;

interface Work {
  readonly elements: number;
  readonly characters: number;
  readonly places: readonly string[];
}

async function workOf(page: Page): Promise<Work> {
  await settled(page);
  return page.evaluate(
    "(() => { const done = work; work = { elements: 0, characters: 0, places: [] }; return done; })()",
  );
}

const elements = (page: Page): Promise<number> => page.evaluate("document.querySelectorAll('*').length");

async function heapBytes(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? Number.POSITIVE_INFINITY;
}

/** Ten of the words that the rehearsal model makes long answers of. */
const WORDS = "**some** words of a long answer, `with` marks in it ";
const said = (times: number): string => WORDS.repeat(times);

test("each word of a long answer changes its end alone", { skip }, async (t) => {
  const { page, show } = await longChat(t);
  await page.evaluate(WATCH);
  await show(1_000, { 999: `\n\n${said(900)}` });
  await workOf(page);
  for (let times = 901; times <= 1_000; times++) {
    await show(1_000, { 999: `\n\n${said(times)}` });
    const { elements, characters, places } = await workOf(page);
    assert.ok(elements > 0 && elements < 400, `${elements} elements at ${times}`);
    assert.ok(characters < 5_000, `${characters} of ${WORDS.length * times} characters at ${times}`);
    assert.deepEqual(places, ["1000"]);
  }
  const text = await page.locator("article").last().locator(".markdown").innerText();
  assert.ok(text.length > 45_000, `${text.length} characters are drawn`);
});

test("a conversation of two thousand messages is as large as what is seen of it", { skip }, async (t) => {
  const { page, show } = await longChat(t);
  await show(10);
  const [few, small] = [await elements(page), await heapBytes(page)];
  await show(1_000);
  const [all, large] = [await elements(page), await heapBytes(page)];
  assert.ok(all < 4 * few, `${all} elements, ${few} of ten turns`);
  assert.ok(large - small < 5_000_000, `${large} bytes of heap, ${small} of ten turns`);
});

test("a megabyte in one line is all there as text, and no wider than the screen", { skip }, async (t) => {
  const { page, show } = await longChat(t);
  for (const line of ["x", "<b>\u202e", "**a [b](javascript:x) "]) {
    const text = line.repeat(Math.ceil(1_000_000 / line.length));
    await show(2, { 1: `\n\n${text}` });
    const { width, length, drawn, run } = await page.evaluate<Record<string, number>>(`(() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      const said = [...document.querySelectorAll("article")].at(-1);
      return {
        width: scrollWidth - clientWidth,
        length: said.textContent.length,
        drawn: said.querySelectorAll("*").length,
        run: said.querySelectorAll("b, script, img, [href^=javascript]").length,
      };
    })()`);
    assert.deepEqual({ width, run }, { width: 0, run: 0 }, line);
    assert.ok((length ?? 0) > 900_000, `${length} characters of ${line}`);
    assert.ok((drawn ?? 0) < 20_000, `${drawn} elements of ${line}`);
  }
});

const STREAM = `
import { createElement, render } from "preact/compat";
import { create, toBinary } from "../protocol/message.ts";
import { AgentServerMessageSchema } from "../protocol/messages.ts";
import { StreamLogs } from "./stream-logs.ts";
import { StreamView } from "./stream-view.tsx";

const logs = new StreamLogs();
const put = (news) => logs.put({ idempotencyKey: "s", connection: 1, news });
put({ kind: "opened" });
const message = { case: "interactionUpdate", value: { message: { case: "textDelta", value: { text: "a word " } } } };
const body = toBinary(AgentServerMessageSchema, create(AgentServerMessageSchema, { message }));
let eventId = 0;
globalThis.come = (count) => {
  for (let times = 0; times < count; times++)
    put({ kind: "received", frame: { kind: "event", eventId: ++eventId, body, end: undefined } });
};
globalThis.beat = () => put({ kind: "received", frame: { kind: "heartbeat", nextSeqno: 0, eventHead: eventId, aborted: false } });
const view = createElement(StreamView, { logs, name: "s", close: () => undefined });
render(createElement("div", { className: "page stream-open" }, view), document.getElementById("root"));
`;

test("ten thousand events in the stream view: rows are drawn where they are seen", { skip }, async (t) => {
  const page = await pageWith(t, STREAM);
  await page.evaluate(WATCH);
  const rows = page.getByRole("option");
  const last = async (name: string): Promise<void> => rows.last().filter({ hasText: name }).waitFor();
  for (let come = 100; come <= 10_000; come += 100) {
    await page.evaluate("come(100)");
    await last(`${come}`);
    const work = await workOf(page);
    assert.ok(work.elements < 500, `${work.elements} elements at ${come}`);
  }
  assert.ok((await rows.count()) < 80, `${await rows.count()} rows`);
  assert.ok((await elements(page)) < 300, `${await elements(page)} elements`);
  assert.equal(await rows.last().getAttribute("aria-setsize"), String(10_000));
  await page.evaluate("document.querySelector('[role=listbox]').scrollTop = 5_000 * 22");
  await page.locator('[role=option][aria-posinset="5000"]').waitFor();
  assert.ok((await rows.count()) < 80);

  // Paused, the list stays as it is, and one entry can be looked at by pointing at it.
  await page.getByRole("button", { name: "Pause" }).click();
  await page.evaluate("come(100)");
  await page.getByText("10,100").waitFor();
  assert.equal(await rows.last().getAttribute("aria-setsize"), "10000");
  const row = page.locator('[role=option][aria-posinset="5000"]');
  await row.hover();
  const decoded = /^event 5000, text delta.*a word /s;
  assert.match((await row.getAttribute("title")) ?? "", decoded);
  await row.click();
  assert.match(await page.getByLabel("Entry", { exact: true }).locator("pre").innerText(), decoded);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.locator('[role=option][aria-setsize="10100"]').first().waitFor();

  // Heartbeats are hidden until they are asked for.
  await page.evaluate("beat(); come(1)");
  await page.locator('[role=option][aria-setsize="10101"]').first().waitFor();
  await page.getByLabel("Show").selectOption("all and heartbeats");
  await page.locator('[role=option][aria-setsize="10102"]').first().waitFor();
  await page.evaluate("document.querySelector('[role=listbox]').scrollTop = 1e9");
  await page.locator("[role=option]", { hasText: /^heartbeat$/ }).waitFor();
});
