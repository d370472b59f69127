/**
 * The examples for React and the AI SDK in a real browser: reload, two tabs, stop, approvals, and a server that is killed in the middle of an answer.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { blocksRunBy } from "../docs/blocks.ts";
import { repository } from "../docs/entry-points.ts";
import { noBrowser } from "./chromium.ts";
import { buildExample, counted, ExampleServer, tabs } from "./examples-rig.ts";
import { HeldProvider } from "./held-provider.ts";
import { TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;

test("the pages of the manual are those of the examples", () => {
  const flat = (text: string): string => text.replaceAll(/\s+/g, " ").trim();
  const pages = globSync("examples/*/main.tsx", { cwd: repository }).map((path) =>
    flat(readFileSync(join(repository, path), "utf8")),
  );
  const shown = blocksRunBy("test/browser/examples.test.ts");
  assert.ok(shown.length > 3);
  for (const { text, document, line } of shown)
    assert.ok(
      pages.some((page) => page.includes(flat(text))),
      `${document}:${line} is in no example`,
    );
});

test("useChat over Holdfast", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await ExampleServer.start(t, "use-chat", await buildExample("use-chat"), provider);
  const open = await tabs(t, server.url);
  const tab = await open();

  await t.test("B4: a reload in the middle of an answer goes on with it, at the same character", async () => {
    provider.allow(20);
    await tab.say("count to 40");
    await tab.answers((answer) => answer === counted(20), "the answer begins");
    await tab.page.reload();
    await tab.answers((answer) => answer === counted(20), "what was said is there");
    provider.allow(40);
    await tab.answers((answer) => answer === counted(40), "all of it is there");
    await tab.is("ready");
    const texts = await tab.page.locator("article").allTextContents();
    assert.deepEqual(texts, ["count to 40", counted(40)]);
  });

  await t.test("D2, D3: another tab follows, and its stop is a real one", async () => {
    const second = await open();
    provider.allow(20);
    await tab.say("count to 1000");
    await second.answers((answer) => answer === counted(20), "the other tab follows");
    await second.is("streaming");
    await second.press("Stop");
    await tab.is("ready");
    await provider.isLetGo();
    assert.equal(await tab.answer(), counted(20));
    await tab.page.reload();
    await tab.is("ready");
    assert.equal(await tab.answer(), counted(20));
    await second.page.close();
  });

  await t.test("B3: a server that is killed comes back, and the text is whole", async () => {
    provider.allow(20);
    await tab.say("count to 60");
    await tab.answers((answer) => answer === counted(20), "the answer begins");
    await server.kill();
    assert.equal(await tab.answer(), counted(20), "what is on the screen stays");
    // The step is generated again: what it had said is taken back.
    provider.allow(5);
    await server.start();
    await tab.answers((answer) => answer === counted(5), "it is taken back");
    provider.allow(60);
    await tab.answers((answer) => answer === counted(60), "all of it is there");
    await tab.is("ready");
    // However the step was mended, nothing ever stands there twice.
    for (const text of (await tab.seen()).slice(-200))
      assert.ok(counted(1000).startsWith(text) || text === "count to 60", text);
  });

  await t.test("F1: what is said while the network is away is answered when it is back", async () => {
    await tab.page.context().setOffline(true);
    await tab.say("count to 20");
    await tab.page.locator("article", { hasText: "count to 20" }).waitFor();
    await tab.page.context().setOffline(false);
    await tab.answers((answer) => answer === counted(20), "all of it is there");
    await tab.is("ready");
  });

  await t.test("C7: an approval waits over a reload, and the tool runs once", async () => {
    await tab.say('call pay {"euros":90}');
    const call = tab.page.locator("section").last();
    await call.getByRole("button", { name: "Allow" }).waitFor();
    await tab.page.reload();
    await tab.press("Allow");
    await tab.answers((answer) => answer.includes('"done": paid 90 euros'), "the tool has run");
    await tab.is("ready");
    assert.match(await tab.page.locator("section").last().innerText(), /paid 90 euros/);
    await tab.say('call pay {"euros":91}');
    await tab.press("Deny");
    await tab.answers((answer) => answer.includes('"denied"'), "the model was told");
    await tab.is("ready");
    assert.equal(await tab.page.locator("section").last().getAttribute("data-state"), "output-denied");
  });

  await t.test("a message is answered again in the place of its first answer", async () => {
    await tab.say("say Once.");
    await tab.answers((answer) => answer.startsWith("Once."), "the answer");
    await tab.is("ready");
    const count = await tab.page.locator("article").count();
    const { length: before } = await tab.seen();
    await tab.press("Again");
    await tab.page.waitForFunction(`globalThis.seen.length > ${before}`);
    await tab.answers((answer) => answer.startsWith("Once."), "the answer again");
    await tab.is("ready");
    await tab.page.reload();
    await tab.is("ready");
    assert.equal(await tab.page.locator("article").count(), count);
    assert.equal(await tab.page.locator("[role=alert]").textContent(), "");
  });
});

test("useChat over an application's own route", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await ExampleServer.start(t, "own-route", await buildExample("own-route"), provider);
  const open = await tabs(t, server.url);
  const tab = await open();

  await t.test("B4: a reload and a second tab read the same answer", async () => {
    // An answer that is over is not read again: it must be under way until both have it.
    provider.allow(20);
    await tab.say("count to 40");
    await tab.answers((answer) => answer === counted(20), "the answer begins");
    const second = await open();
    await tab.page.reload();
    for (const one of [tab, second])
      await one.answers((answer) => answer === counted(20), "what was said is there");
    provider.allow(40);
    for (const one of [tab, second])
      await one.answers((answer) => answer === counted(40), "all of it is there");
    await second.page.close();
  });

  await t.test("D3: a stop is a real one", async () => {
    provider.allow(20);
    await tab.say("count to 1000");
    await tab.answers((answer) => answer === counted(20), "the answer begins");
    await tab.press("Stop");
    await tab.is("ready");
    await provider.isLetGo();
    await tab.page.reload();
    await tab.is("ready");
    assert.equal(await tab.page.locator("article").count(), 0);
  });

  await t.test("G1: a server that is killed comes back, and the text is whole", async () => {
    provider.allow(20);
    await tab.say("count to 60");
    await tab.answers((answer) => answer === counted(20), "the answer begins");
    await server.kill();
    provider.allow(60);
    await server.start();
    await tab.answers((answer) => answer === counted(60), "all of it is there");
    for (const text of (await tab.seen()).slice(-200))
      assert.ok(counted(1000).startsWith(text) || text === "count to 60", text);
  });
});

test("useConversation", { skip, timeout: TEST_MS }, async (t) => {
  const provider = await HeldProvider.start(t);
  const server = await ExampleServer.start(
    t,
    "use-conversation",
    await buildExample("use-conversation"),
    provider,
  );
  const open = await tabs(t, server.url);
  const tab = await open();
  const second = await open();
  provider.allow(20);
  await tab.say("count to 40");
  await second.answers((answer) => answer === counted(20), "the other tab follows");
  assert.match(await second.page.locator("output + small").innerText(), /^reader/);
  // The writing tab goes away, and the other one takes its place.
  await tab.page.close();
  await second.page.locator("output + small", { hasText: "writer" }).waitFor();
  provider.allow(40);
  await second.answers((answer) => answer === counted(40), "all of it is there");
  await second.is("ready");
  // The log below, event by event.
  await second.page.locator("dl dd", { hasText: /^[1-9]\d* completed$/ }).waitFor();
  await second.say('call pay {"euros":90}');
  await second.press("Allow");
  await second.answers((answer) => answer.includes('"done": paid 90 euros'), "the tool has run");
});
