/**
 * The journal store and the home key in a real browser.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { BrowserContext, Page } from "playwright-core";
import { bundle, html } from "./bundle.ts";
import { crashBrowser, crashPage, diskProfile, noBrowser, profile } from "./chromium.ts";
import { call } from "./page/calls.ts";
import type { StoragePage } from "./page/storage.ts";

const PAGE = "http://localhost/";

type Open = () => Promise<Page>;

async function storagePage(context: BrowserContext): Promise<Open> {
  const script = await bundle("storage.ts");
  await context.route(PAGE, (route) => route.fulfill({ contentType: "text/html", body: html("/page.js") }));
  await context.route(`${PAGE}page.js`, (route) =>
    route.fulfill({ contentType: "text/javascript", body: script }),
  );
  return async () => {
    const page = await context.newPage();
    await page.goto(PAGE);
    await page.waitForFunction("globalThis.offered");
    return page;
  };
}

describe("a browser's storage", { skip: noBrowser ?? false }, () => {
  test("IndexedDB in Chromium is a store of journals, blobs and conversations", async (t) => {
    const page = await (await storagePage(await profile(t)))();
    const names = await call<StoragePage, "tests">(page, "tests");
    assert.ok(names.length >= 22, "the suites are there");
    for (const [at, name] of names.entries()) {
      await t.test(name, () => call<StoragePage, "runTest">(page, "runTest", at));
    }
  });

  test("a database of newer code is refused with a reason", async (t) => {
    const page = await (await storagePage(await profile(t)))();
    assert.match(
      await call<StoragePage, "newerDatabase">(page, "newerDatabase"),
      /^unsupported_version: .*newer version/,
    );
  });

  test("a database of the first format is taken over as it is", async (t) => {
    const page = await (await storagePage(await profile(t)))();
    assert.deepEqual(await call<StoragePage, "olderDatabase">(page, "olderDatabase"), [3]);
  });

  test("a tab lets go of its database when newer code wants it, and says so", async (t) => {
    const page = await (await storagePage(await profile(t)))();
    assert.match(await call<StoragePage, "overtaken">(page, "overtaken"), /^unavailable: .*reload/);
  });

  test("A5: the browser takes every change with strict durability", async (t) => {
    const page = await (await storagePage(await profile(t)))();
    const asked = await call<StoragePage, "durabilities">(page, "durabilities");
    assert.deepEqual(asked, ["strict", "strict", "strict", "strict"]);
  });

  test("a record that is not bytes makes the journal unreadable", async (t) => {
    const page = await (await storagePage(await profile(t)))();
    assert.match(await call<StoragePage, "changed">(page, "changed"), /^stream_failed: /);
  });

  test("A5: what was reported as written is there after the page, and then the browser, has crashed", async (t) => {
    const start = diskProfile(t);
    const open = await storagePage(await start());
    const page = await open();
    for (const bytes of [1, 2, 3]) await call<StoragePage, "append">(page, "append", "k", bytes);
    await crashPage(page);
    const second = await open();
    assert.deepEqual(await call<StoragePage, "lengths">(second, "lengths", "k"), [1, 2, 3]);
    for (const bytes of [4, 5]) await call<StoragePage, "append">(second, "append", "k", bytes);
    await crashBrowser(second);
    const third = await (await storagePage(await start()))();
    assert.deepEqual(await call<StoragePage, "lengths">(third, "lengths", "k"), [1, 2, 3, 4, 5]);
  });

  test("F5: without room an append is refused, and the journal is as before", async (t) => {
    const page = await (await storagePage(await diskProfile(t)()))();
    const session = await page.context().newCDPSession(page);
    await session.send("Storage.overrideQuotaForOrigin", {
      origin: new URL(PAGE).origin,
      quotaSize: 100_000,
    });
    await call<StoragePage, "append">(page, "append", "k", 10);
    assert.match(await call<StoragePage, "append">(page, "append", "k", 3_000_000), /^unavailable: .*room/);
    assert.deepEqual(await call<StoragePage, "lengths">(page, "lengths", "k"), [10]);
  });

  test("tabs that begin together have one home key, and no script can read it out", async (t) => {
    const open = await storagePage(await profile(t));
    const pages = await Promise.all([open(), open(), open()]);
    const keys = await Promise.all(pages.map((page) => call<StoragePage, "homeKey">(page, "homeKey")));
    const [first] = keys;
    assert.deepEqual(keys, [first, first, first]);
    assert.equal(first?.extractable, false);
  });
});
