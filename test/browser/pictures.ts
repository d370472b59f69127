/**
 * Pictures of the page, kept in `docs/images`: they are what it looks like, or a test fails.
 *
 * Machines draw letters differently, so a picture is compared as somebody sees it from afar: made small, its colours may differ a little everywhere and much
 * nowhere. With `HOLDFAST_SCREENSHOTS=1` tests take them anew.
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { repository } from "../docs/entry-points.ts";

export const DESK = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 780 };

/** Of 255: the mean of all places, and of the place that differs most. */
export const MEAN_MAX = 6;
export const CELL_MAX = 90;

/** The page in a hand: small, and touched; or back on a desk with a mouse. */
export async function hold(page: Page, size: typeof DESK | typeof PHONE): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setTouchEmulationEnabled", { enabled: size === PHONE });
  await page.setViewportSize(size);
}

const pathOf = (name: string): string => join(repository, "docs/images", `${name}.png`);

export const kept = (name: string): Buffer => readFileSync(pathOf(name));

/** The page looks as its picture of this name does. `but`: a part whose marks stand elsewhere each time. */
export async function looksAs(name: string, page: Page, but?: string): Promise<void> {
  const taken = await page.screenshot({ caret: "hide" });
  if (process.env["HOLDFAST_SCREENSHOTS"] === "1") writeFileSync(pathOf(name), taken);
  // The page itself may load no picture.
  const blank = await page.context().newPage();
  const hidden = but === undefined ? null : await page.locator(but).boundingBox();
  const { mean, cell } = await difference(blank, taken, kept(name), hidden);
  await blank.close();
  if (mean < MEAN_MAX && cell < CELL_MAX) return;
  const path = join(tmpdir(), `holdfast-${name}-differs.png`);
  writeFileSync(path, taken);
  assert.fail(`${name} differs: ${mean} of ${MEAN_MAX}, ${cell} of ${CELL_MAX}; look at ${path}`);
}

/** Compared in the browser, which can read pictures: made small, place by place. */
export async function difference(
  page: Page,
  one: Uint8Array,
  other: Uint8Array,
  hidden: object | null = null,
): Promise<{ readonly mean: number; readonly cell: number }> {
  const address = (png: Uint8Array): string => `data:image/png;base64,${Buffer.from(png).toString("base64")}`;
  return page.evaluate(`(async () => {
    const hidden = ${JSON.stringify(hidden)};
    const small = async (address) => {
      const image = new Image();
      image.src = address;
      await image.decode();
      const [width, height] = [40, Math.round(40 * image.naturalHeight / image.naturalWidth)];
      const canvas = new OffscreenCanvas(width, height);
      const context = canvas.getContext("2d");
      context.imageSmoothingQuality = "high";
      context.drawImage(image, 0, 0, width, height);
      const scale = width / image.naturalWidth;
      if (hidden !== null)
        context.clearRect(...[hidden.x, hidden.y, hidden.width, hidden.height].map((px) => px * scale));
      return context.getImageData(0, 0, width, height).data;
    };
    const [one, other] = [await small(${JSON.stringify(address(one))}), await small(${JSON.stringify(address(other))})];
    if (one.length !== other.length) return { mean: 255, cell: 255 };
    const apart = [...one].map((value, at) => Math.abs(value - other[at]));
    return { mean: apart.reduce((sum, value) => sum + value, 0) / apart.length, cell: Math.max(...apart) };
  })()`);
}
