/** Sentences of the page's design that are small by themselves, each in the real page. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { noBrowser } from "./chromium.ts";
import { HeldProvider } from "./held-provider.ts";
import { counted, PageServer, Tab, visitor } from "./page-rig.ts";
import { shownText, TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;

/** The text that a person sees stands as it stood, and can be pointed at; nothing is before it. */
const STANDS = `(() => {
  const text = [...document.querySelectorAll("article .markdown")].at(-1);
  const { left, top } = text.getBoundingClientRect();
  const dialogs = document.querySelectorAll("dialog, [role=dialog], [role=alertdialog], [aria-modal]").length;
  let opacity = 1;
  for (let one = text; one !== null; one = one.parentElement) opacity *= Number(getComputedStyle(one).opacity);
  const field = document.querySelector(".composer").getBoundingClientRect().top;
  return { top, field, opacity, dialogs, isReached: text.contains(document.elementFromPoint(left + 4, top + 8)) };
})()`;

/** The list slides away when the window becomes narrow. */
const MOVES = "document.getAnimations().some((one) => one instanceof CSSTransition)";

test("the page in its details", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await PageServer.start(t, provider);
  const context = await visitor(t, { viewport: { width: 1280, height: 800 } });
  const tab = await Tab.open(context, server.link);
  const { page } = tab;
  const loaded: string[] = [];
  page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
  await tab.isReady();
  const status = page.getByRole("status");
  const footer = page.getByRole("contentinfo");

  await t.test(
    "a lost network and a killed server cover, dim and move nothing; seconds run beside what is read aloud",
    async () => {
      await page.setViewportSize({ width: 390, height: 780 });
      provider.allow(20);
      await tab.say("count to 60");
      await tab.answers((answer) => answer === counted(20), "it begins");
      await shownText(
        () => page.evaluate<string>(`String(${STANDS}.isReached && !${MOVES})`),
        (isStill) => isStill === "true",
        "the list has slid away",
      );
      const before = await page.evaluate<object>(STANDS);
      assert.deepEqual(
        { ...before, top: 0, field: 0 },
        { top: 0, field: 0, opacity: 1, dialogs: 0, isReached: true },
      );
      await context.setOffline(true);
      await tab.is("reconnecting");
      await footer.filter({ hasText: /reconnecting.*[^\d]\d+ s/ }).waitFor();
      assert.doesNotMatch(await status.innerText(), /\d s$/);
      assert.deepEqual(await page.evaluate(STANDS), before);
      await context.setOffline(false);
      await tab.is(/^●live$/);
      await server.kill();
      await tab.is("reconnecting");
      assert.deepEqual(await page.evaluate(STANDS), before);
      await server.startAgain();
      provider.allow(60);
      await tab.answers((answer) => answer === counted(60), "all of it");
      await tab.is("ended");
      assert.match(await footer.innerText(), /nothing lost over \d+ reconnects?/);
      await page.setViewportSize({ width: 1280, height: 800 });
    },
  );

  await t.test(
    "what is asked does not scroll out of sight of its buttons, and always is for one tool",
    async () => {
      await tab.begin();
      const long = Array.from({ length: 300 }, (_, at) => `line ${at}`).join("\\n");
      await tab.say(`call write_note {"name":"long","text":"${long}"}`);
      const changes = page.getByLabel("What changes");
      await changes.waitFor();
      const [height, shown] = await page.evaluate<readonly [number, number]>(
        "(({ scrollHeight, clientHeight }) => [scrollHeight, clientHeight])(document.querySelector('.asked'))",
      );
      assert.ok(height > 2 * shown, "the change scrolls in its box");
      const always = page.getByRole("button", { name: "Always for write_note" });
      for (const button of [page.getByRole("button", { name: /^Allow/ }), always]) {
        const box = await button.boundingBox();
        const asked = await changes.boundingBox();
        assert.ok(box !== null && asked !== null);
        assert.ok(asked.y >= 0 && box.y + box.height <= 800, `${asked.y} to ${box.y + box.height}`);
      }
      await always.click();
      await tab.answers((answer) => answer.includes('"done"'), "it has run");
      await tab.is("ended");
      await tab.say('call write_note {"name":"long","text":"short"}');
      await tab.answers((answer) => answer.includes('"done"'), "it has run without being asked");
      await tab.is("ended");
      const cards = page.getByRole("region", { name: "Tool write_note, done" });
      assert.equal(await cards.count(), 2);
      const heights = await page.evaluate<readonly number[]>(
        "[...document.querySelectorAll('.tool summary')].map((one) => one.offsetHeight)",
      );
      assert.equal(heights[0], heights[1], "arguments are one line, however long they are");
    },
  );

  await t.test(
    "the model is chosen, what an answer used is counted, and an error's button does what it says",
    async () => {
      await tab.begin();
      const model = page.getByLabel("Model");
      await model.selectOption("rehearsal/rehearsal");
      await tab.say("say One.");
      await tab.is("ended");
      await model
        .locator("option", { hasText: "as before: rehearsal/rehearsal" })
        .waitFor({ state: "attached" });
      await footer.filter({ hasText: /[1-9]\d* in · [1-9]\d* out/ }).waitFor();
      await tab.say("say Some words.\nerror rate_limited");
      await page.getByText("What it said so far is kept.").waitFor();
      const name = await page.locator("article").last().getAttribute("data-turn");
      await tab.press("Try again");
      const anew = page.locator(`article[aria-posinset="2"]:not([data-turn="${name}"])`);
      await anew.filter({ hasText: "What it said so far is kept." }).waitFor();
      assert.equal(await page.locator("article").count(), 2, "in the place of the first answer");
      assert.equal(await tab.answer(), "Some words.");
    },
  );

  await t.test(
    "how a tool ended is said in a word; the table of colours comes with the first code",
    async () => {
      await tab.begin();
      await tab.say('call read_note {"name":"none"}');
      await page.getByRole("region", { name: "Tool read_note, failed" }).waitFor();
      await tab.is("ended");
      await tab.say('call time {"city":"Oslo"}');
      await page.getByRole("region", { name: "Tool time, done" }).waitFor();
      await tab.is("ended");
      const tables = (): number => loaded.filter((path) => path.endsWith("/languages.json")).length;
      assert.equal(tables(), 0);
      for (const name of ["a", "b"]) {
        await tab.say(`say \`\`\`js\nsay const ${name} = 1;\nsay \`\`\``);
        await page.locator("article").last().locator(".code .keyword").waitFor();
        await tab.is("ended");
      }
      assert.equal(tables(), 1);
    },
  );

  await t.test("what is taken back is struck through for a moment, and gone", async () => {
    await tab.begin();
    await page.getByLabel("Model").selectOption("rehearsal-held/rehearsal");
    provider.allow(10);
    await tab.say("count to 40");
    await tab.answers((answer) => answer === counted(10), "it begins");
    await page.evaluate(`new MutationObserver(() => {
      const gone = document.querySelector(".answer > .gone");
      if (gone !== null) globalThis.line ??= getComputedStyle(gone).textDecorationLine;
    }).observe(document, { subtree: true, childList: true })`);
    await server.kill();
    provider.allow(0);
    await server.startAgain();
    await tab.hasStruck(counted(10));
    assert.equal(await page.evaluate("globalThis.line"), "line-through");
    provider.allow(40);
    await tab.answers((answer) => answer === counted(40), "all of it");
    await page.locator(".answer > .gone").waitFor({ state: "detached" });
    await tab.is("ended");
  });
});
