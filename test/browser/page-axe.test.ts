/** Everybody can read every view of the page: light and dark, on a desk and on a phone. The drawer's is in `demo-page.test.ts`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { faultsOf } from "./axe.ts";
import { noBrowser } from "./chromium.ts";
import { HeldProvider } from "./held-provider.ts";
import { counted, PageServer, Tab, visitor } from "./page-rig.ts";
import { DESK } from "./pictures.ts";
import { TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;
const PHONE = { width: 390, height: 844 };

test("everybody can read every view of the page", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await PageServer.start(t, provider);
  const context = await visitor(t, { viewport: DESK, reducedMotion: "reduce" });
  const tab = await Tab.open(context, server.link);
  const { page } = tab;
  await tab.isReady();

  const LOOKS = [
    { colorScheme: "light", size: DESK },
    { colorScheme: "dark", size: DESK },
    { colorScheme: "dark", size: PHONE },
    { colorScheme: "light", size: PHONE },
  ] as const;
  const isReadable = async (view: string, of = page, looks: readonly (typeof LOOKS)[number][] = LOOKS) => {
    for (const { colorScheme, size } of looks) {
      await of.emulateMedia({ colorScheme });
      await of.setViewportSize(size);
      assert.deepEqual(await faultsOf(of), [], `${view}, ${colorScheme}, ${size.width}`);
    }
    await of.setViewportSize(DESK);
  };

  await isReadable("the first visit");

  const stranger = await Tab.open(await visitor(t), server.link);
  await stranger.page.getByText("This link was used before").waitFor();
  await isReadable("signing in", stranger.page);
  await stranger.page.evaluate("document.body.append(document.createElement('button'))");
  assert.match((await faultsOf(stranger.page)).join(), /^button-name/, "a fault is found");

  provider.allow(20);
  await tab.say("count to 60");
  await tab.answers((answer) => answer === counted(20), "it begins");
  await isReadable("an answer under way");
  const second = await Tab.open(context, server.url);
  await second.is("another tab writes");
  await isReadable("a tab that follows", second.page);
  await second.page.close();
  await context.setOffline(true);
  await tab.is("reconnecting");
  await isReadable("no network");
  await context.setOffline(false);
  await tab.is("live");
  await page.keyboard.press("Escape");
  await page.getByText("You stopped it here.").waitFor();
  await tab.press("Edit");
  await isReadable("a stopped answer, and a message that is changed");
  await page.keyboard.press("Escape");

  await tab.begin();
  await page.getByLabel("Model").selectOption("rehearsal/rehearsal");
  await tab.say(
    "think Let me see.\nsay # A title\nsay - one\nsay > two\nsay ```js\nsay let x;\nsay ```\nsay | a | b |\nsay |---|---|\nsay | 1 | 2 |\nerror rate_limited",
  );
  await page.getByText("What it said so far is kept.").waitFor();
  await page.locator(".code .keyword").waitFor();
  await page.locator("details.thinking summary").click();
  await tab.say('call write_note {"name":"n","text":"one"}');
  await page.getByLabel("What changes").waitFor();
  await isReadable("all kinds of text, an error, and a tool that asks");
  await page.keyboard.press("d");
  await tab.is("ended");
  await tab.say('call timer {"seconds":1}');
  await tab.is("ended");
  await page.keyboard.press("Alt+KeyS");
  await page.getByRole("listbox", { name: "Entries" }).focus();
  await page.keyboard.press("ArrowDown");
  await page.getByLabel("Entry", { exact: true }).waitFor();
  await isReadable("tools that are over, the stream view and one entry of it");
  await page.keyboard.press("Alt+KeyS");
  await page.setViewportSize(PHONE);
  await tab.press("Conversations");
  await isReadable("the list on a phone", page, LOOKS.slice(2));
});
