/** The page without a mouse, on a phone, and for a person who wants nothing to move. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { noBrowser } from "./chromium.ts";
import { HeldProvider } from "./held-provider.ts";
import { counted, PageServer, Tab, visitor } from "./page-rig.ts";
import { TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;

/** What has the focus, by its name, and whether that can be seen. */
function focused(page: Page): Promise<{ readonly name: string; readonly isSeen: boolean }> {
  return page.evaluate(`(() => {
    const one = document.activeElement;
    const { outlineStyle, boxShadow } = getComputedStyle(one);
    const name = one.getAttribute("aria-label") ?? one.labels?.[0]?.firstChild.textContent ?? one.textContent;
    return { name: one === document.body ? "nothing" : name.trim(), isSeen: outlineStyle !== "none" || boxShadow !== "none" };
  })()`);
}

async function hasFocus(page: Page, name: string): Promise<void> {
  assert.equal((await focused(page)).name, name);
}

test("the page without a mouse", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await PageServer.start(t, provider);
  const tab = await Tab.open(await visitor(t), server.link);
  const { page } = tab;
  const { keyboard } = page;
  await tab.isReady();

  /** Nothing is looked for or clicked at: keys go to what has the focus. */
  const type = async (text: string): Promise<void> => {
    await keyboard.type(text);
    await keyboard.press("Enter");
  };
  const isAnswered = async (answer: string): Promise<void> => {
    await tab.answers((text) => text === answer, answer);
    await tab.is("ended");
  };

  await t.test("a message is written at once, in the first conversation and in a new one", async () => {
    await hasFocus(page, "Message");
    await type("say One.");
    await isAnswered("One.");
    await keyboard.press("Alt+KeyN");
    await page.getByText("Answers that stay").waitFor();
    await hasFocus(page, "Message");
    await type("say Two.");
    await isAnswered("Two.");
  });

  await t.test("what was said is changed, or left as it is", async () => {
    await keyboard.press("Shift+Tab");
    await hasFocus(page, "Edit");
    await keyboard.press("Enter");
    await hasFocus(page, "Your message, changed");
    await keyboard.type(" Half a thought");
    await keyboard.press("Escape");
    await hasFocus(page, "Edit");
    assert.equal(await page.locator("article").count(), 1);
    await keyboard.press("Enter");
    assert.equal(await page.getByLabel("Your message, changed").inputValue(), "say Two.");
    await keyboard.press("Shift+Enter");
    await type("say Three.");
    await tab.answers((text) => text.includes("Two.") && text.includes("Three."), "the new answer");
    await tab.is("ended");
    assert.equal(await page.locator("article").count(), 1);
    await hasFocus(page, "Message");
  });

  await t.test(
    "an answer is stopped, a tool is denied and allowed, and the next message written",
    async () => {
      provider.allow(5);
      await type("count to 1000");
      await tab.answers((text) => text === counted(5), "it begins");
      await keyboard.press("Escape");
      await page.getByText("You stopped it here.").waitFor();
      provider.allow(8);
      await type("count to 1000");
      await tab.answers((text) => text === counted(8), "it begins again");
      await keyboard.press("Shift+Tab");
      assert.notEqual((await focused(page)).name, "Message");
      await keyboard.press("Escape");
      await tab.is("stopped");
      while ((await focused(page)).name !== "Message") await keyboard.press("Tab");
      for (const [key, said] of [
        ["d", "denied"],
        ["a", "done"],
      ] as const) {
        await type('call write_note {"name":"n","text":"one"}');
        await page.getByRole("group", { name: "Allow write_note?" }).waitFor();
        await hasFocus(page, "Allow write_note?");
        await keyboard.press(key);
        await tab.answers((text) => text.includes(`"${said}"`), "the model was told");
        await tab.is("ended");
        await hasFocus(page, "Message");
      }
    },
  );

  await t.test("every part is reached, and seen to be", async () => {
    await keyboard.press("Alt+KeyS");
    await page.getByRole("listbox", { name: "Entries" }).waitFor();
    const met: string[] = [];
    await hasFocus(page, "Message");
    do {
      const { name, isSeen } = await focused(page);
      if (name !== "nothing") assert.ok(isSeen, `${name} is seen to have the focus`);
      met.push(name);
      await keyboard.press("Tab");
    } while ((await focused(page)).name !== "Message" && met.length < 100);
    for (const name of ["Sign out", "Conversation", "Edit", "Ask again", "Show", "Pause", "Entries", "Model"])
      assert.ok(met.includes(name), `${name} is in ${met.join(", ")}`);
    for (const name of [/^New/, /^say One/, /^write_note/, /^Stream/])
      assert.ok(
        met.some((one) => name.test(one)),
        `${name} is in ${met.join(", ")}`,
      );
    while ((await focused(page)).name !== "Entries") await keyboard.press("Tab");
    await keyboard.press("ArrowUp");
    await page.getByLabel("Entry", { exact: true }).waitFor();
  });
});

test("the page on a phone", { skip, timeout: TEST_MS }, async (t) => {
  const server = await PageServer.start(t);
  const phone = { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true } as const;
  const context = await visitor(t, { ...phone, reducedMotion: "reduce" });
  const tab = await Tab.open(context, server.link);
  const { page } = tab;
  await tab.isReady();
  await tab.say("say One.");
  await tab.is("ended");
  const list = page.getByRole("navigation", { name: "Conversations" });
  const isAbove = async (): Promise<boolean> =>
    page.evaluate(
      "document.elementFromPoint(innerWidth / 2, innerHeight / 3).closest('nav, aside, section:not(.tool)') !== null",
    );

  await t.test("it is the chat alone; list and stream view lie over it, and go again", async () => {
    assert.equal(await list.isVisible(), false);
    await tab.press("Conversations");
    await list.waitFor();
    assert.ok(await isAbove());
    await list.getByRole("button", { name: "New" }).click();
    await list.waitFor({ state: "hidden" });
    await tab.say("say Two.");
    await tab.is("ended");
    await tab.press("Conversations");
    await list.getByRole("button", { name: "say One." }).click();
    await list.waitFor({ state: "hidden" });
    await tab.answers((text) => text === "One.", "the first one");
    await page.getByRole("contentinfo").getByRole("button", { name: "Stream" }).click();
    const entries = page.getByRole("listbox", { name: "Entries" });
    await entries.waitFor();
    assert.ok(await isAbove());
    await page.locator("#stream").getByRole("button", { name: "Close" }).first().click();
    await entries.waitFor({ state: "hidden" });
  });

  await t.test("it names no keys, and a finger answers a question", async () => {
    await tab.say('call write_note {"name":"packing","text":"boots"}');
    await page.getByRole("button", { name: "Deny" }).waitFor();
    const named = page.locator("kbd");
    assert.ok((await named.count()) > 0);
    for (const key of await named.all()) assert.equal(await key.isVisible(), false, await key.innerHTML());
    await tab.press("Deny");
    await tab.is("ended");
  });

  await t.test("the field stays above a keyboard, and nothing is wider than the screen", async () => {
    await page.setViewportSize({ width: 390, height: 400 });
    const [field] = await page.getByLabel("Message", { exact: true }).all();
    const box = await field?.boundingBox();
    assert.ok(box !== undefined && box !== null && box.y > 100 && box.y + box.height <= 400);
    await tab.say(
      `say ${"x".repeat(500)}\nsay \`\`\`\nsay ${"y ".repeat(300)}\nsay \`\`\`\nsay | a | b |\nsay |---|---|\nsay | ${"z".repeat(90)} | 1 |`,
    );
    await tab.is("ended");
    const isWide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert.equal(await page.evaluate(isWide), false);
  });

  await t.test("nothing moves for a person who does not want it", async () => {
    const moving = await page.evaluate<readonly string[]>(`[...document.querySelectorAll("*")]
      .map((one) => [one, getComputedStyle(one)])
      .filter(([, { transitionProperty, transitionDuration, animationName, animationDuration }]) =>
        (transitionProperty !== "none" && parseFloat(transitionDuration) > 0) ||
        (animationName !== "none" && parseFloat(animationDuration) > 0.001))
      .map(([one]) => one.className)`);
    assert.deepEqual(moving, []);
    await page.emulateMedia({ reducedMotion: "no-preference" });
    const slides = await page.evaluate<string>(
      "getComputedStyle(document.querySelector('nav')).transitionDuration",
    );
    assert.notEqual(slides, "0s", "it does for others");
  });
});
