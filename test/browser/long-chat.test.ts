/** A long conversation on the screen: what is drawn of it, and that what a person reads stays where it is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { noBrowser } from "./chromium.ts";
import { longChat, settled } from "./long-chat.ts";

const skip = noBrowser ?? false;
const TURNS = 1_000;

/** The questions that can be seen, with their places on the screen. */
function seen(page: Page): Promise<readonly { readonly text: string; readonly top: number }[]> {
  return page.evaluate(`(() => {
    const box = document.querySelector("main").getBoundingClientRect();
    return [...document.querySelectorAll(".said p")]
      .map((one) => ({ text: one.textContent, top: one.getBoundingClientRect().top, bottom: one.getBoundingClientRect().bottom }))
      .filter(({ top, bottom }) => bottom > box.top && top < box.bottom);
  })()`);
}

async function scrollBy(page: Page, px: number): Promise<void> {
  await page.evaluate(`document.querySelector("main").scrollTop += ${px}`);
  await settled(page);
}

const isAtEnd = (page: Page): Promise<boolean> =>
  page.evaluate(
    `(() => { const box = document.querySelector("main"); return box.scrollHeight - box.scrollTop - box.clientHeight < 2; })()`,
  );

test("a long conversation: few turns are drawn, and the scroll bar is that of all", { skip }, async (t) => {
  const { page, show } = await longChat(t);
  await show(TURNS);
  const articles = page.locator("article");
  assert.equal((await seen(page)).at(-1)?.text, `Question ${TURNS - 1}`);
  assert.ok(await isAtEnd(page));
  assert.ok((await articles.count()) < 60);
  assert.ok((await page.evaluate<number>("document.querySelector('main').scrollHeight")) > 100 * TURNS);
  assert.equal(await articles.last().getAttribute("aria-posinset"), String(TURNS));
  assert.equal(await articles.last().getAttribute("aria-setsize"), String(TURNS));

  await page.getByRole("main").focus();
  await page.keyboard.press("Home");
  await page.locator("article", { hasText: "Question 0" }).first().waitFor();
  await settled(page);
  assert.equal((await seen(page))[0]?.text, "Question 0");
  assert.ok((await articles.count()) < 60);
  await page.getByRole("button", { name: "To the end" }).click();
  await settled(page);
  await settled(page);
  assert.equal((await seen(page)).at(-1)?.text, `Question ${TURNS - 1}`);
  assert.ok(await isAtEnd(page));
});

test(
  "what is read moves by what a person scrolls, whatever is drawn or let go for it",
  { skip },
  async (t) => {
    const { page, show } = await longChat(t);
    await show(TURNS);
    const met = new Set<string>();
    for (const px of [
      ...Array<number>(60).fill(-330),
      ...Array<number>(30).fill(270),
      ...Array<number>(30).fill(-450),
    ]) {
      const before = await seen(page);
      await scrollBy(page, px);
      const after = await seen(page);
      assert.ok(after.length > 0, "there is no empty screen");
      for (const { text, top } of after) {
        met.add(text);
        const same = before.find((one) => one.text === text);
        if (same !== undefined)
          assert.ok(Math.abs(top - same.top + px) < 1.5, `${text}: ${same.top} to ${top}`);
      }
      assert.ok((await page.locator("article").count()) < 60);
    }
    // None is passed over.
    const places = [...met].map((text) => Number(text.split(" ")[1])).toSorted((a, b) => a - b);
    assert.ok(places.length > 50);
    assert.deepEqual(
      places,
      places.map((_, at) => (places[0] ?? 0) + at),
    );
  },
);

test(
  "text that comes above or below of what is read does not move it; at the end it is followed",
  { skip },
  async (t) => {
    const { page, show } = await longChat(t);
    await show(100);
    const more = "\n\nMore.".repeat(40);
    await show(100, { 99: more });
    assert.ok(await isAtEnd(page));
    await scrollBy(page, -3_000);
    const before = await seen(page);
    const [first] = before;
    assert.ok(first !== undefined);
    const above = Number(first.text.split(" ")[1]) - 2;
    for (const news of [{ [above]: more, 99: more + more }, { 99: more }]) {
      await show(100, news);
      const after = (await seen(page)).find(({ text }) => text === first.text);
      assert.ok(Math.abs((after?.top ?? 0) - first.top) < 1.5, `${first.top} to ${after?.top}`);
    }
    await page.setViewportSize({ width: 1000, height: 500 });
    await settled(page);
    assert.ok((await seen(page)).some(({ text }) => text === first.text));
  },
);

test("a smaller window, as over a phone's keyboard, still shows the end", { skip }, async (t) => {
  const { page, show } = await longChat(t);
  await show(30);
  await page.setViewportSize({ width: 1000, height: 400 });
  await settled(page);
  assert.ok(await isAtEnd(page));
});

test(
  "what a person writes in an old turn is kept when they scroll away and come back",
  { skip },
  async (t) => {
    const { page, show } = await longChat(t);
    await show(TURNS);
    await scrollBy(page, -20_000);
    const [one] = await seen(page);
    const turn = page.locator("article", { hasText: new RegExp(`${one?.text}(?!\\d)`) });
    await turn.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Your message, changed").fill("half a thought");
    await page.getByRole("button", { name: "To the end" }).click();
    await settled(page);
    assert.ok((await seen(page)).some(({ text }) => text === `Question ${TURNS - 1}`));
    assert.equal(await page.getByLabel("Your message, changed").inputValue(), "half a thought");
    assert.ok((await page.locator("article").count()) < 60);
  },
);

test("what a step has taken back fades where it stood", { skip }, async (t) => {
  const { page, show } = await longChat(t);
  // It stands still, so that its place can be read however slow the machine is.
  await page.clock.install();
  const topOf = (what: string): Promise<number> =>
    page.evaluate(
      `[...document.querySelectorAll(${JSON.stringify(what)})].at(-1).getBoundingClientRect().top`,
    );
  await show(1);
  const before = await topOf(".markdown p");
  await page.evaluate("show(1, { 0: { running: '' } })");
  await page.locator(".gone").waitFor({ state: "attached" });
  assert.ok(Math.abs((await topOf(".gone")) - before) < 1.5, `${before} to ${await topOf(".gone")}`);
  await page.clock.fastForward(1_000);
  await page.locator(".gone").waitFor({ state: "detached" });
});

test(
  "what a step takes back, and says anew, does not move what a person reads above it",
  { skip },
  async (t) => {
    const { page, show } = await longChat(t);
    const long = "A line of it.\n\n".repeat(60);
    await show(30, { 29: { running: long } });
    // The end of the turn before it is seen, and the beginning of the answer.
    const top = "document.querySelector('article:last-of-type').getBoundingClientRect().top";
    await scrollBy(page, (await page.evaluate<number>(top)) - 400);
    const before = await seen(page);
    assert.ok(before.length > 0 && !(await isAtEnd(page)));
    for (const running of ["", "Anew.", long + long]) {
      await show(30, { 29: { running } });
      assert.deepEqual(await seen(page), before, `${running.length} characters`);
      await page.locator(".gone").waitFor({ state: "detached" });
      assert.deepEqual(await seen(page), before, `${running.length} characters, faded`);
    }
  },
);
