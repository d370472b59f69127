/**
 * The page at `/` in a real browser: who gets in, that it holds, and that hostile text stays text.
 *
 * One server, one provider and one Chromium for all of it. The provider counts as far as a test lets it, so that what happens to an answer happens in its middle,
 * however slow the machine is; and what an answer is, is known, so every text that ever stood on the screen is compared with it character by character.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { browser, noBrowser } from "./chromium.ts";
import { INTRUSIONS } from "./intrusions.ts";
import { HeldProvider } from "./held-provider.ts";
import { counted, PageServer, Tab, visitor } from "./page-rig.ts";
import { TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;

/** Of the issue: what a first visit loads. */
const FIRST_LOAD_BYTES_MAX = 150_000;

test("the page", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await PageServer.start(t, provider);
  const { link } = server;
  const context = await visitor(t);
  const tab = await Tab.open(context, link);

  await t.test("E7: the link signs in one browser, once, and leaves no token behind", async (t) => {
    await tab.isReady();
    const token = new URL(link).hash.slice("#sign-in=".length);
    assert.match(token, /^[\w-]{43}$/);
    assert.ok(!(await tab.page.evaluate<string>("location.href")).includes(token));
    assert.ok(!(await tab.page.evaluate<string>("JSON.stringify({ ...localStorage })")).includes(token));
    const stranger = await Tab.open(await visitor(t), link);
    await stranger.page.getByText("This link was used before").waitFor();
    assert.equal(server.said.split(token).length, 2, "only the announcement has it");
    await stranger.page.getByLabel("API key").fill("hf_0123456789_wrong");
    await stranger.press("Sign in");
    await stranger.page.getByText("does not know this API key").waitFor();
    await stranger.page.getByLabel("API key").fill(server.apiKey);
    await stranger.press("Sign in");
    await stranger.isReady();
  });

  await t.test("a first load is small, and runs nothing but itself", async () => {
    const response = await fetch(server.url, { headers: { "accept-encoding": "br" } });
    const bytes = Number(response.headers.get("content-length"));
    assert.equal(response.headers.get("content-encoding"), "br");
    assert.ok(bytes > 10_000 && bytes < FIRST_LOAD_BYTES_MAX, `${bytes} bytes`);
    const html = await response.text();
    assert.equal(await (await fetch(server.url, { headers: { "accept-encoding": "gzip" } })).text(), html);
    const markup = html.replaceAll(/<(?<tag>script|style)\b[^>]*>[^]*?<\/\k<tag>>/g, "<$<tag>>");
    assert.deepEqual(markup.match(/<(?:script|style)\b/g), ["<style", "<script"]);
    assert.doesNotMatch(markup, /\s(?:on\w+|style|srcdoc)\s*=|["']\s*javascript:|https?:/i);
    const policy = response.headers.get("content-security-policy") ?? "";
    for (const rule of [
      /default-src 'none'; script-src 'sha256-[\w+/=]+'; style-src 'sha256-[\w+/=]+'; connect-src 'self'/,
      /base-uri 'none'; form-action 'none'; frame-ancestors 'none'/,
      /require-trusted-types-for 'script'; trusted-types 'none'$/,
    ])
      assert.match(policy, rule);
    assert.equal(response.headers.get("x-frame-options"), "DENY");
    assert.equal(response.headers.get("referrer-policy"), "no-referrer");
  });

  await t.test("E7: nothing but the page itself runs in it, loads or is sent anywhere", async (t) => {
    // Not watched: everything that must not work is tried.
    const strange = await (await browser()).newContext();
    t.after(() => strange.close());
    const page = await strange.newPage();
    await page.goto(server.url);
    const came = await page.evaluate<Record<string, string>>(INTRUSIONS);
    assert.deepEqual(came, {
      "a string as markup": "TypeError, require-trusted-types-for",
      "a string as a document": "TypeError, require-trusted-types-for",
      "a string as code": "EvalError, require-trusted-types-for",
      "a script's address": "TypeError, require-trusted-types-for",
      "a worker": "TypeError, require-trusted-types-for",
      "a handler": "TypeError, require-trusted-types-for",
      "a policy that makes strings good": "TypeError, trusted-types",
      "a script": "require-trusted-types-for",
      "a style": "style-src-elem",
      "a style attribute": "style-src-attr",
      "a picture": "img-src",
      "a font": "font-src",
      "a request": "connect-src",
      "a frame": "frame-src",
      "a form": "form-action",
      "another base": "base-uri",
    });
    assert.equal(await page.evaluate("globalThis.ran"), undefined);
    assert.equal(await page.evaluate("getComputedStyle(document.body).opacity"), "1");
  });

  await t.test("B4: a reload in the middle of an answer goes on with it, at the same character", async () => {
    provider.allow(20);
    await tab.say("count to 60");
    await tab.answers((answer) => answer === counted(20), "the answer begins");
    await tab.page.reload();
    await tab.answers((answer) => answer === counted(20), "what was said is there");
    provider.allow(60);
    await tab.answers((answer) => answer === counted(60), "all of it is there");
    await tab.is("ended");
    await tab.sawOnly("count to 60", counted(60));
  });

  await t.test("B4: a tab that is closed and opened again shows the same answer", async () => {
    provider.allow(20);
    await tab.say("count to 61");
    await tab.answers((answer) => answer === counted(20), "the answer begins");
    await tab.page.close();
    provider.allow(40);
    const second = await Tab.open(context, server.url);
    await second.answers((answer) => answer === counted(40), "what was said meanwhile is there");
    provider.allow(61);
    await second.answers((answer) => answer === counted(61), "all of it is there");
    await second.is("ended");
    await second.sawOnly("count to 61", counted(61));
    await second.page.close();
  });

  const writer = await Tab.open(context, server.url);
  await writer.isReady();

  await t.test("D2: a second tab follows, writes by a click, and the first one follows then", async () => {
    const follower = await Tab.open(context, server.url);
    await follower.isReady();
    provider.allow(50);
    await writer.say("count to 200");
    await follower.answers((answer) => answer === counted(50), "the other tab follows");
    await follower.is("another tab writes");
    await follower.press("Write here");
    await writer.is("another tab writes");
    await follower.is(/^●live$/);
    provider.allow(200);
    for (const one of [writer, follower]) {
      await one.answers((answer) => answer === counted(200), "all of it is there");
      await one.is("ended");
      await one.sawOnly("count to 200", counted(200));
    }
    await follower.page.close();
  });

  await t.test("F1: what comes while the network is away is there when it is back", async () => {
    provider.allow(30);
    await writer.say("count to 100");
    await writer.answers((answer) => answer === counted(30), "the answer begins");
    await context.setOffline(true);
    await writer.is("reconnecting");
    provider.allow(60);
    await context.setOffline(false);
    await writer.answers((answer) => answer === counted(60), "what came meanwhile is there");
    provider.allow(100);
    await writer.answers((answer) => answer === counted(100), "all of it is there");
    await writer.is("ended");
    await writer.sawOnly("count to 100", counted(100));
    await context.setOffline(true);
    await writer.say("count to 20");
    await writer.is(/connecting/);
    await context.setOffline(false);
    await writer.answers((answer) => answer === counted(20), "all of it is there");
    await writer.is("ended");
  });

  await t.test(
    "B3: a server that is killed comes back, the text is whole, and the stream view shows how",
    async () => {
      await writer.page.keyboard.press("Alt+KeyS");
      provider.allow(30);
      await writer.say("count to 80");
      await writer.answers((answer) => answer === counted(30), "the answer begins");
      await server.kill();
      await writer.is("reconnecting");
      assert.equal(await writer.answer(), counted(30), "what is on the screen stays");
      // Without a line the step is generated again. What it had said is taken back, and seen to be, before anything new comes.
      provider.allow(0);
      await server.startAgain();
      await writer.hasStruck(counted(30));
      provider.allow(80);
      await writer.answers((answer) => answer === counted(80), "all of it is there");
      await writer.is("ended");
      await writer.page.getByText(/nothing lost over \d+ reconnects?/).waitFor();
      await writer.sawOnly("count to 80", counted(80));
      assert.equal(await writer.logged(await writer.stream()), counted(80), "the server's log has it");
      await writer.page.locator(".answer > .gone").waitFor({ state: "detached" });
      const entries = writer.page.getByRole("listbox", { name: "Entries" });
      const blow = await fetch(`${server.url}demo/kill`, { method: "POST" });
      assert.equal(blow.status, 404, "an ordinary server cannot be asked to die");
      assert.equal(await writer.page.getByText("Try to break it").count(), 0);
      await writer.page.getByLabel("Show").selectOption("breaks");
      const breaks = await entries.innerText();
      assert.match(
        breaks,
        /^connected, epoch 1, fsync, \d+ in the log\ncut: connection lost\nback after .*s, epoch 1/,
      );
      assert.match(breaks, /the step begins anew/);
      await writer.page.getByLabel("Show").selectOption("chunks");
      assert.match(await entries.innerText(), /^0 ✓ run\n1 [✓…] blob\n/);
      const entry = writer.page.getByLabel("Entry", { exact: true });
      await writer.page.getByRole("option", { name: "0 ✓ run" }).click();
      await entry
        .filter({ hasText: /chunk 0, run, .*acknowledged after .*sent once.*"count to 80"/s })
        .waitFor();
      await entry.getByRole("button", { name: "Close" }).click();
      await writer.page.getByLabel("Show").selectOption("events");
      await entries.focus();
      await writer.page.keyboard.press("ArrowDown");
      await entry.filter({ hasText: "completed" }).waitFor();
      await writer.page.keyboard.press("Alt+KeyS");
    },
  );

  await t.test("C7: an approval shows what changes, waits over a reload, and is given by a key", async () => {
    await writer.begin();
    await writer.say('call write_note {"name":"n","text":"one\\ntwo"}');
    await writer.page.getByRole("group", { name: "Allow write_note?" }).waitFor();
    await writer.page.reload();
    await writer.page.getByRole("group", { name: "Allow write_note?" }).waitFor();
    assert.equal(await writer.page.getByLabel("What changes").textContent(), "+ one\n+ two\n");
    await writer.page.keyboard.press("a");
    await writer.answers((answer) => answer.includes('"done": the note "n" is written'), "it has run");
    await writer.is("ended");
    await writer.say('call write_note {"name":"n","text":"one\\nthree"}');
    await writer.page.getByLabel("What changes").waitFor();
    assert.equal(await writer.page.getByLabel("What changes").textContent(), "  one\n- two\n+ three\n");
    await writer.page.keyboard.press("d");
    await writer.answers((answer) => answer.includes('"denied"'), "the model was told");
    await writer.is("ended");
    // A key in the very moment in which the question stands there.
    await writer.page.evaluate(`new MutationObserver((_, watcher) => {
      if (document.querySelector(".approval") === null) return;
      watcher.disconnect();
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "d", bubbles: true }));
    }).observe(document.body, { subtree: true, childList: true })`);
    await writer.say('call write_note {"name":"n","text":"one\\nfour"}');
    await writer.answers((answer) => answer.includes('"denied"'), "the model was told again");
    await writer.is("ended");
    await writer.say('call timer {"seconds":2}');
    await writer.page.getByLabel("Output so far").filter({ hasText: "1 of 2 s" }).waitFor();
    await writer.answers((answer) => answer.includes("2 seconds have passed"), "it has run");
    await writer.is("ended");
  });

  await t.test("D3: a stop is a real one, and a message can be changed and sent again", async () => {
    await writer.begin();
    provider.allow(30);
    await writer.say("count to 1000");
    await writer.answers((answer) => answer === counted(30), "the answer begins");
    await writer.page.keyboard.press("Escape");
    await writer.page.getByText("You stopped it here.").waitFor();
    await provider.isLetGo();
    assert.equal(await writer.answer(), counted(30));
    await writer.press("Edit");
    await writer.page.getByLabel("Your message, changed").fill("think Well.\nsay Said **anew**.");
    await writer.press("Send instead");
    await writer.answers((answer) => answer === "Said anew.", "the new answer");
    await writer.is("ended");
    assert.equal(await writer.page.locator("article").count(), 1);
    assert.equal(await writer.page.locator("details.thinking p").isVisible(), false, "thinking is folded");
    await writer.page.locator("details.thinking summary").click();
    assert.equal(await writer.page.locator("details.thinking p").innerText(), "Well.");
  });

  await t.test("what a model says stays text, whatever it is", async () => {
    await writer.begin();
    const hostile = [
      "say <img src=x onerror=globalThis.ran=1><script>globalThis.ran=1</script>",
      "say [a](javascript:globalThis.ran=1) [b](data:text/html,x) [c](https://example.com/?q=1) ![d](https://example.com/p.png)",
      "say `\u202egnp.exe` and \u202eevil",
      "say **bold** _em_ <b>not</b>",
    ];
    await writer.say(hostile.join("\n"));
    await writer.is("ended");
    const answer = writer.page.locator("article").last().locator(".answer");
    const text = await answer.innerText();
    assert.ok(text.includes("<img src=x onerror=globalThis.ran=1><script>globalThis.ran=1</script>"));
    assert.ok(text.includes("[a](javascript:globalThis.ran=1) [b](data:text/html,x) c d"));
    assert.ok(text.includes("\\u202egnp.exe") && text.includes("\\u202eevil") && !text.includes("\u202e"));
    assert.equal(await answer.locator("img, script, b").count(), 0);
    assert.equal(await writer.page.evaluate("globalThis.ran"), undefined);
    const links = await writer.page.evaluate<readonly string[]>(
      `[...document.querySelectorAll("article .markdown a")].map((one) => one.outerHTML)`,
    );
    assert.deepEqual(
      links.map((html) => /href="([^"]*)"/.exec(html)?.[1]),
      ["https://example.com/?q=1", "https://example.com/p.png"],
    );
    for (const html of links) assert.match(html, /rel="noopener noreferrer"/);
    const code = 'const a = "<b>\u202e"; // not <i>bold</i>';
    await writer.say(`say \`\`\`js\nsay ${code}\nsay \`\`\``);
    const shown = writer.page.locator("article").last().locator(".code code");
    await shown.locator(".keyword", { hasText: /^const$/ }).waitFor();
    assert.deepEqual(await shown.locator(".string, .comment").allTextContents(), [
      '"<b>\\u202e"',
      "// not <i>bold</i>",
    ]);
    assert.equal(await shown.textContent(), code.replace("\u202e", "\\u202e"));
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await writer.press("Copy");
    await writer.press("Copied");
    assert.equal(await writer.page.evaluate("navigator.clipboard.readText()"), code);
    await writer.say(`say ${"x".repeat(60_000)}`);
    await writer.answers((answer) => answer.length === 60_000, "a line without end");
    const isWide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert.equal(await writer.page.evaluate(isWide), false);
  });
});
