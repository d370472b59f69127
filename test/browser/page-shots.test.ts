/**
 * The page looks as its pictures do. `HOLDFAST_SCREENSHOTS=1 npx node --test test/browser/page-shots.test.ts` takes them anew; those of the drawer are taken by
 * `demo-page.test.ts`.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { noBrowser } from "./chromium.ts";
import { HeldProvider } from "./held-provider.ts";
import { counted, PageServer, Tab, visitor } from "./page-rig.ts";
import { CELL_MAX, DESK, difference, hold, kept, looksAs, MEAN_MAX, PHONE } from "./pictures.ts";
import { TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;

const TALK = `think The user wants to know what to pack. Oslo is cold in November.
say ## Oslo in November
say It is **cold and short of light**: about 2 °C, and the sun sets before four.
say 1. A warm coat, and boots that keep water out
say 2. Something that reflects
say \`\`\`sh
say npx holdfast chat -p "What else?"
say \`\`\``;

/** All that the server says of such a turn before its client takes what it is to keep. */
const EVENTS_WITHOUT_PAGE = 11;

test("the page looks as its pictures do", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await PageServer.start(t, provider);
  const context = await visitor(t, { viewport: DESK, colorScheme: "light", reducedMotion: "reduce" });
  const tab = await Tab.open(context, server.link);
  await tab.isReady();
  const shot = (name: string, but?: string): Promise<void> => looksAs(name, tab.page, but);

  await shot("page-first-visit");
  await tab.say(TALK);
  await tab.is("ended");
  await tab.page.locator(".code .string").waitFor();
  await tab.say('call write_note {"name":"packing","text":"- warm coat\\n- boots\\n- reflector"}');
  await tab.page.getByLabel("What changes").waitFor();
  await shot("page-chat");
  await tab.page.emulateMedia({ colorScheme: "dark" });
  await shot("page-chat-dark");
  await hold(tab.page, PHONE);
  await shot("page-phone-dark");
  await tab.page.emulateMedia({ colorScheme: "light" });
  await shot("page-phone");
  await hold(tab.page, DESK);
  await tab.page.keyboard.press("d");
  await tab.is("ended");

  await tab.begin();
  const before = await server.eventsCommitted();
  // One word is one event, and the rest is in the log before the page is back: the rows are the same each time.
  provider.allow(1);
  await tab.say("count to 60");
  await tab.answers((answer) => answer === counted(1), "it begins");
  await context.setOffline(true);
  await tab.is("reconnecting");
  provider.allow(60);
  while ((await server.eventsCommitted()) < before + EVENTS_WITHOUT_PAGE);
  await context.setOffline(false);
  await tab.answers((answer) => answer === counted(60), "all of it");
  await tab.is("ended");
  await tab.page.keyboard.press("Alt+KeyS");
  await shot("page-stream", ".timeline");
  await tab.page.emulateMedia({ colorScheme: "dark" });
  await shot("page-stream-dark", ".timeline");
  await hold(tab.page, PHONE);
  await shot("page-stream-phone-dark", ".timeline");
  await tab.page.emulateMedia({ colorScheme: "light" });
  await shot("page-stream-phone", ".timeline");

  const blank = await context.newPage();
  const other = await difference(blank, kept("page-stream"), kept("page-stream-dark"));
  assert.ok(other.mean > MEAN_MAX, "dark is told from light");
  const shifted = await difference(blank, kept("page-chat"), kept("page-first-visit"));
  assert.ok(shifted.cell > CELL_MAX || shifted.mean > MEAN_MAX, "another page is told from this one");
});
