/**
 * What happens to pages: reloads, second tabs, lost networks, restarts, crashes. In a real browser,
 * against the real server; each ends with the comparison of whole histories.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { crashPage, noBrowser, pausePage, profile } from "./chromium.ts";
import { BrowserRig, until } from "./rig.ts";

const TEN = Array.from({ length: 10 }, (_, at) => at);

describe("pages", { skip: noBrowser ?? false }, () => {
  test("B3: a page that is reloaded in the middle of an answer goes on by itself", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const tab = await rig.tab();
    assert.match((await tab.call("notices")).join(), /obfuscated, not apart/);
    rig.allow(7);
    const key = await tab.call("open", "tell 20");
    await tab.shows(key, 7);
    await tab.call("send", key, "before");
    await tab.reload();
    assert.deepEqual((await tab.call("resumeAll")).resumed, [key]);
    await tab.call("send", key, "after");
    await rig.hears(key, 3);
    rig.allow(20);
    await tab.seesEnd(key);
    await tab.hasAllOf(rig, key);
    assert.deepEqual(rig.heard(key), ["tell 20", "before", "after"]);
    assert.deepEqual(await tab.call("notices"), [], "said once");
  });

  test("A1, B3: a page that is reloaded again and again, wherever it stands, loses and doubles nothing", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const tab = await rig.tab();
    rig.allow(1);
    const key = await tab.call("open", "tell 30");
    await tab.shows(key, 1);
    for (const [at, upTo] of [4, 9, 11, 16, 22].entries()) {
      rig.allow(upTo);
      await tab.call("send", key, `word ${at}`);
      await tab.reload();
      await tab.call("resumeAll");
    }
    await rig.hears(key, 6);
    rig.allow(30);
    await tab.seesEnd(key);
    await tab.hasAllOf(rig, key);
    assert.deepEqual(rig.heard(key), ["tell 30", "word 0", "word 1", "word 2", "word 3", "word 4"]);
  });

  test("D2: two tabs share one connection; one writes, the other reads, and takes over when it is closed", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const first = await rig.tab();
    rig.allow(6);
    const key = await first.call("open", "tell 20");
    await first.shows(key, 6);
    const second = await rig.tab();
    assert.deepEqual((await second.call("resumeAll")).elsewhere, [key]);
    await second.call("join", key);
    await second.shows(key, 6);
    assert.equal((await second.call("view", key)).role, "reader");
    assert.deepEqual([await rig.openCalls("listen"), await rig.openCalls("attach")], [1, 0]);
    await first.page.close();
    await until(async () => (await second.call("view", key)).role === "writer", "the second tab writes");
    await second.call("send", key, "mine now");
    await rig.hears(key, 2);
    rig.allow(20);
    await second.seesEnd(key);
    await second.hasAllOf(rig, key);
    assert.deepEqual(rig.heard(key), ["tell 20", "mine now"]);
    assert.equal(await rig.openCalls("listen"), 1);
  });

  test("D2: when the tab that holds the connection crashes, the writers in the other tabs go on", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const leader = await rig.tab();
    const others = [await rig.tab(), await rig.tab()];
    rig.allow(3);
    const writing = await Promise.all(
      others.map(async (tab) => ({ tab, key: await tab.call("open", "tell 12") })),
    );
    for (const { tab, key } of writing) await tab.shows(key, 3);
    assert.equal(await rig.openCalls("listen"), 1);
    await crashPage(leader.page);
    rig.allow(8);
    for (const { tab, key } of writing) await tab.shows(key, 8);
    await until(async () => (await rig.openCalls("listen")) === 1, "they share one connection again");
    rig.allow(12);
    for (const { tab, key } of writing) {
      await tab.seesEnd(key);
      await tab.hasAllOf(rig, key);
    }
  });

  test("F4: a leading tab that stands still (in a debugger) does not hold up the others", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const leader = await rig.tab();
    const other = await rig.tab();
    rig.allow(3);
    const key = await other.call("open", "tell 12");
    await other.shows(key, 3);
    const resume = await pausePage(leader.page);
    rig.allow(12);
    await other.seesEnd(key);
    assert.equal(await rig.openCalls("listen"), 2, "the other tab has a connection of its own");
    await resume();
    await other.hasAllOf(rig, key);
  });

  test("ten streams of one page over HTTP/1.1 share one connection", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const tab = await rig.tab();
    const keys = await Promise.all(TEN.map(() => tab.call("open", "tell 15")));
    rig.allow(4);
    for (const key of keys) await tab.shows(key, 4);
    assert.deepEqual([await rig.openCalls("listen"), await rig.openCalls("attach")], [1, 0]);
    rig.allow(15);
    for (const key of keys) {
      await tab.seesEnd(key);
      await tab.hasAllOf(rig, key);
    }
  });

  test("B4: a page that was offline has everything as soon as it is online", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const tab = await rig.tab({ isPatient: true });
    rig.allow(3);
    const key = await tab.call("open", "tell 12");
    await tab.shows(key, 3);
    await rig.context.setOffline(true);
    await until(async () => (await tab.call("view", key)).state === "reconnecting", "it notices");
    await tab.call("send", key, "said offline");
    rig.allow(9);
    await rig.context.setOffline(false);
    await tab.shows(key, 10);
    rig.allow(12);
    await tab.seesEnd(key);
    await tab.hasAllOf(rig, key);
    assert.deepEqual(rig.heard(key), ["tell 12", "said offline"]);
  });

  test("A3, B2: a server that is killed and started again in the middle costs a page nothing", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const tab = await rig.tab();
    const keys = await Promise.all([tab.call("open", "tell 12"), tab.call("open", "tell 12")]);
    for (const upTo of [3, 6, 9]) {
      rig.allow(upTo);
      for (const key of keys) await tab.shows(key, upTo);
      await rig.crash();
      for (const key of keys) await tab.call("send", key, `after ${upTo}`);
    }
    for (const key of keys) await rig.hears(key, 4);
    rig.allow(12);
    for (const key of keys) {
      await tab.seesEnd(key);
      await tab.hasAllOf(rig, key);
      assert.deepEqual(rig.heard(key), ["tell 12", "after 3", "after 6", "after 9"]);
    }
  });

  test("A5: a page that crashes loses nothing that it said", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const tab = await rig.tab();
    rig.allow(2);
    const key = await tab.call("open", "tell 8");
    await tab.shows(key, 2);
    await rig.context.setOffline(true);
    for (const word of ["a", "b", "c"]) await tab.call("send", key, word);
    await crashPage(tab.page);
    await tab.page.close();
    await rig.context.setOffline(false);
    const next = await rig.tab();
    assert.deepEqual((await next.call("resumeAll")).resumed, [key]);
    await next.call("send", key, "d");
    await rig.hears(key, 5);
    rig.allow(8);
    await next.seesEnd(key);
    await next.hasAllOf(rig, key);
    assert.deepEqual(rig.heard(key), ["tell 8", "a", "b", "c", "d"]);
  });

  test("C2: a tool that ran when the page was reloaded does not run again, and its outcome is unknown", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const tab = await rig.tab({ withTools: true });
    const key = await tab.call("open", "tool");
    await until(async () => (await tab.call("effects")).length === 1, "the tool runs");
    await tab.reload({ withTools: true });
    await tab.call("resumeAll");
    await tab.seesEnd(key);
    await tab.hasAllOf(rig, key);
    assert.equal(rig.logged(key).at(-1)?.[1], "unknown");
    assert.deepEqual(await tab.call("effects"), ["exec-1"]);
  });

  test("C3: a tool that outlives the connection of its tab runs once", async (t) => {
    const rig = await BrowserRig.start(t, await profile(t));
    const leader = await rig.tab();
    const tab = await rig.tab({ withTools: true });
    const key = await tab.call("open", "tool");
    await until(async () => (await tab.call("effects")).length === 1, "the tool runs");
    await leader.page.close();
    await until(async () => (await tab.call("view", key)).state === "live", "the tab is live again");
    await tab.call("finishTool");
    await tab.seesEnd(key);
    await tab.hasAllOf(rig, key);
    assert.equal(rig.logged(key).at(-1)?.[1], "error");
    assert.deepEqual(await tab.call("effects"), ["exec-1"]);
  });
});
