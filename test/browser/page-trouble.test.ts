/** What the real page says in trouble: of a server that stands still or cannot store, of a tool that was cut off, of a browser that cannot store, and of an API key that was revoked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fillDisk, makeRoom, obstacle } from "../kill/full-disk.ts";
import { noBrowser } from "./chromium.ts";
import { HeldProvider } from "./held-provider.ts";
import { counted, PageServer, Tab, visitor } from "./page-rig.ts";
import { shownText, TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;

test(
  "F4: a server that stands still is said to be stalled, and its answer goes on where it was",
  { skip, timeout: TEST_MS },
  async (t) => {
    const provider = await HeldProvider.start(t);
    const server = await PageServer.start(t, provider);
    const tab = await Tab.open(await visitor(t), server.link);
    await tab.isReady();
    provider.allow(20);
    await tab.say("count to 60");
    await tab.answers((answer) => answer === counted(20), "it begins");
    server.signal("SIGSTOP");
    try {
      await tab.is(/stalled.*the connection/);
      assert.equal(await tab.answer(), counted(20));
    } finally {
      server.signal("SIGCONT");
    }
    provider.allow(60);
    await tab.answers((answer) => answer === counted(60), "all of it");
    await tab.is("ended");
    await tab.sawOnly("count to 60", counted(60));
  },
);

test(
  "D5: an answer that the server cannot store is said to be degraded, is shown whole, and the next one is stored again",
  { skip: noBrowser ?? obstacle() ?? false, timeout: TEST_MS },
  async (t) => {
    const provider = await HeldProvider.start(t);
    const server = await PageServer.start(t, provider, { storePauseMs: 600_000 });
    const tab = await Tab.open(await visitor(t), server.link);
    await tab.isReady();
    provider.allow(20);
    fillDisk(server.pid);
    const asked = await fetch(`${server.url}v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${server.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "rehearsal-held/rehearsal",
        messages: [{ role: "user", content: "count to 3" }],
      }),
    });
    assert.equal(asked.status, 503);
    await tab.say("count to 60");
    await tab.is(/degraded.*cannot store this answer/);
    await tab.answers((answer) => answer === counted(20), "it begins");
    provider.allow(60);
    await tab.answers((answer) => answer === counted(60), "all of it");
    await tab.is("ended");
    makeRoom(server.pid);
    await server.kill();
    await server.startAgain();
    await tab.say("count to 7");
    await shownText(
      () => tab.answer(),
      (answer) => answer === counted(7),
      "the next answer",
    );
    await tab.is("ended");
  },
);

test(
  "C2: a tool that ran when its tab died does not run again, and its card says that it may have run",
  { skip, timeout: TEST_MS },
  async (t) => {
    const server = await PageServer.start(t);
    const context = await visitor(t);
    const tab = await Tab.open(context, server.link);
    await tab.isReady();
    // The tool stands still in its middle, for as long as the dialog is open.
    // What else the page stores is stored: a dialog in the moment in which a message is sent would swallow the key.
    await tab.page.evaluate(`{
      const { setItem } = Storage.prototype;
      Storage.prototype.setItem = function store(key, value) {
        if (key !== "holdfast note n") return setItem.call(this, key, value);
        alert("the tool runs");
        // A tab that is closed closes its dialog first, and the tool would come to its end.
        for (;;);
      };
    }`);
    await tab.say('call write_note {"name":"n","text":"one"}');
    await tab.page.getByRole("group", { name: "Allow write_note?" }).waitFor();
    const runs = tab.page.waitForEvent("dialog");
    await Promise.all([runs, tab.page.keyboard.press("a")]);
    await tab.page.close();
    const next = await Tab.open(context, server.url);
    await next.page
      .getByRole("region", { name: "Tool write_note, outcome unknown: it may have run" })
      .waitFor();
    await next.answers((answer) => answer.includes('"unknown"'), "the model is told");
    await next.is("ended");
    assert.equal(await next.page.evaluate("localStorage.getItem('holdfast note n')"), null);
  },
);

test(
  "a message that this browser cannot store is said not to be sent, stands there again, and is sent by the button",
  { skip, timeout: TEST_MS },
  async (t) => {
    const server = await PageServer.start(t);
    const tab = await Tab.open(await visitor(t), server.link);
    const { page } = tab;
    await tab.isReady();
    await page.evaluate(`{
      const { put, add } = IDBObjectStore.prototype;
      const full = () => { throw new DOMException("the disk is full", "QuotaExceededError"); };
      Object.assign(IDBObjectStore.prototype, { put: full, add: full });
      globalThis.makeRoom = () => Object.assign(IDBObjectStore.prototype, { put, add });
    }`);
    const field = page.getByLabel("Message", { exact: true });
    await field.fill("say One.");
    await page.keyboard.press("Enter");
    const alert = page.getByRole("alert");
    await alert.filter({ hasText: /^Not sent: .+\. Your message stands below\./ }).waitFor();
    await shownText(
      () => field.inputValue(),
      (text) => text === "say One.",
      "it stands there again",
    );
    await page.evaluate("makeRoom()");
    await tab.press("Send again");
    await tab.answers((answer) => answer === "One.", "it is answered");
    await tab.is("ended");
    assert.equal(await alert.count(), 0);
    assert.equal(await page.locator("article").count(), 1, "once");
  },
);

test(
  "a conversation that this browser cannot read is said to be kept, and is there again by the button",
  { skip, timeout: TEST_MS },
  async (t) => {
    const server = await PageServer.start(t);
    const context = await visitor(t);
    await context.addInitScript(`if (location.protocol === "http:" && sessionStorage.getItem("unreadable") !== null)
      IDBObjectStore.prototype.get = () => { throw new DOMException("the disk is broken", "UnknownError"); };`);
    const tab = await Tab.open(context, server.link);
    const { page } = tab;
    await tab.isReady();
    await tab.say("say One.");
    await tab.is("ended");
    await page.evaluate("sessionStorage.setItem('unreadable', '')");
    await page.reload();
    const said = /^This conversation could not be read: .+ What was said in it is kept\./;
    await page.getByRole("alert").filter({ hasText: said }).waitFor();
    await tab.is("trouble");
    await page.evaluate("sessionStorage.removeItem('unreadable')");
    await tab.press("Load it again");
    await tab.answers((answer) => answer === "One.", "it is there");
    await tab.is("ended");
  },
);

test(
  "E7: a page whose API key is revoked asks for another, and goes on with what it keeps",
  { skip, timeout: TEST_MS },
  async (t) => {
    const server = await PageServer.start(t);
    const tab = await Tab.open(await visitor(t), server.link);
    const { page } = tab;
    await tab.isReady();
    await tab.say("say One.");
    await tab.is("ended");
    const key = "Object.keys(localStorage).find((name) => name.startsWith('holdfast api key'))";
    await server.run("keys", "revoke", await page.evaluate<string>(`localStorage.getItem(${key})`));
    await page.getByLabel("Message", { exact: true }).fill("say Two.");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "does not know this browser any more" }).waitFor();
    assert.equal(await page.evaluate(key), undefined, "the key is forgotten");
    await page.getByLabel("API key").fill(server.apiKey);
    await tab.press("Sign in");
    await tab.isReady();
    await tab.answers((answer) => answer === "Two.", "what was said meanwhile is answered");
    await tab.is("ended");
    assert.equal(await page.locator("article").count(), 2);
    await tab.press("Sign out");
    await page.getByLabel("API key").waitFor();
    assert.equal(await page.evaluate(key), undefined, "and so is this one");
  },
);
