/**
 * Pictures of the page, kept in `docs/images`: they are what it looks like, or this fails.
 *
 * Machines draw letters differently, so a picture is compared as somebody sees it from afar: made small, its colours may differ a little everywhere and much
 * nowhere. `HOLDFAST_SCREENSHOTS=1 npx node --test test/browser/page-shots.test.ts` takes them anew.
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { repository } from "../docs/entry-points.ts";
import { noBrowser } from "./chromium.ts";
import { PageServer, Tab, visitor } from "./page-rig.ts";

const skip = noBrowser ?? false;
const DESK = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 780 };

/** Of 255: the mean of all places, and of the place that differs most. */
const MEAN_MAX = 6;
const CELL_MAX = 90;

const TALK = `think The user wants to know what to pack. Oslo is cold in November.
say ## Oslo in November
say It is **cold and short of light**: about 2 °C, and the sun sets before four.
say 1. A warm coat, and boots that keep water out
say 2. Something that reflects
say \`\`\`sh
say npx holdfast chat -p "What else?"
say \`\`\``;

test("the page looks as its pictures do", { skip }, async (t) => {
  const server = await PageServer.start(t);
  const context = await visitor(t, { viewport: DESK, colorScheme: "light", reducedMotion: "reduce" });
  const tab = await Tab.open(context, server.link);
  await tab.isReady();
  const blank = await context.newPage();
  const shot = async (name: string): Promise<void> => {
    const taken = await tab.page.screenshot({ caret: "hide" });
    const path = join(repository, "docs/images", `${name}.png`);
    if (process.env["HOLDFAST_SCREENSHOTS"] === "1") writeFileSync(path, taken);
    const { mean, cell } = await difference(blank, taken, readFileSync(path));
    assert.ok(
      mean < MEAN_MAX && cell < CELL_MAX,
      `${name} differs: ${mean} of ${MEAN_MAX}, ${cell} of ${CELL_MAX}`,
    );
  };

  await shot("page-first-visit");
  await tab.say(TALK);
  await tab.is("ended");
  await tab.say('call write_note {"name":"packing","text":"- warm coat\\n- boots\\n- reflector"}');
  await tab.page.getByLabel("What changes").waitFor();
  await shot("page-chat");
  await tab.page.setViewportSize(PHONE);
  await tab.page.emulateMedia({ colorScheme: "dark" });
  await shot("page-phone-dark");
  await tab.page.emulateMedia({ colorScheme: "light" });
  await shot("page-phone");
  await tab.page.setViewportSize(DESK);
  await tab.page.keyboard.press("d");
  await tab.is("ended");

  await tab.begin();
  await tab.say("count to 12 every 60 ms\ncount to 60 every 60 ms");
  await tab.answers((answer) => answer.includes("10 11 12"), "it begins");
  await context.setOffline(true);
  await tab.is("reconnecting");
  await context.setOffline(false);
  await tab.answers((answer) => answer.endsWith("60 "), "all of it");
  await tab.is("ended");
  await tab.page.keyboard.press("Alt+KeyS");
  await shot("page-stream");
  await tab.page.emulateMedia({ colorScheme: "dark" });
  await shot("page-stream-dark");

  const kept = (name: string): Buffer => readFileSync(join(repository, "docs/images", `${name}.png`));
  const other = await difference(blank, kept("page-stream"), kept("page-stream-dark"));
  assert.ok(other.mean > MEAN_MAX, "dark is told from light");
  const shifted = await difference(blank, kept("page-chat"), kept("page-first-visit"));
  assert.ok(shifted.cell > CELL_MAX || shifted.mean > MEAN_MAX, "another page is told from this one");
});

/** Compared in the browser, which can read pictures: made small, place by place. */
async function difference(
  page: Page,
  one: Uint8Array,
  other: Uint8Array,
): Promise<{ readonly mean: number; readonly cell: number }> {
  const address = (png: Uint8Array): string => `data:image/png;base64,${Buffer.from(png).toString("base64")}`;
  return page.evaluate(`(async () => {
    const small = async (address) => {
      const image = new Image();
      image.src = address;
      await image.decode();
      const [width, height] = [40, Math.round(40 * image.naturalHeight / image.naturalWidth)];
      const canvas = new OffscreenCanvas(width, height);
      const context = canvas.getContext("2d");
      context.imageSmoothingQuality = "high";
      context.drawImage(image, 0, 0, width, height);
      return context.getImageData(0, 0, width, height).data;
    };
    const [one, other] = [await small(${JSON.stringify(address(one))}), await small(${JSON.stringify(address(other))})];
    if (one.length !== other.length) return { mean: 255, cell: 255 };
    const apart = [...one].map((value, at) => Math.abs(value - other[at]));
    return { mean: apart.reduce((sum, value) => sum + value, 0) / apart.length, cell: Math.max(...apart) };
  })()`);
}
