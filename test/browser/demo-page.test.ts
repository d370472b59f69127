/** `holdfast demo --page`: a page that cuts its own connection, kills its own server and breaks its own provider, in a real browser. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { COMMAND } from "../command.ts";
import { repository } from "../docs/entry-points.ts";
import { inherited } from "../inherited.ts";
import { faultsOf } from "./axe.ts";
import { noBrowser } from "./chromium.ts";
import { counted, Tab, visitor } from "./page-rig.ts";
import { DESK, looksAs, PHONE } from "./pictures.ts";
import { TEST_MS } from "./waiting.ts";

const skip = noBrowser ?? false;
const LOOK = { viewport: DESK, colorScheme: "light", reducedMotion: "reduce" } as const;

test("G1: the drawer strikes for real, and says what came of it", { skip, timeout: TEST_MS }, async (t) => {
  // Compiled code is kept at home when nothing else is said.
  const NODE_COMPILE_CACHE = join(repository, "node_modules/.cache/holdfast-compiled");
  const env = { PATH: process.env["PATH"], HOME: "/nowhere", NODE_COMPILE_CACHE, ...inherited() };
  const demo = spawn(process.execPath, [COMMAND, "demo", "--page"], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(demo, "exit");
  t.after(async () => {
    // Killed, it would leave its server behind.
    demo.kill("SIGINT");
    await ended;
  });
  const lines = createInterface({ input: demo.stdout });
  let link = "";
  for await (const line of lines) if ((link = /http:\S+/.exec(line)?.[0] ?? "") !== "") break;
  const tab = await Tab.open(await visitor(t, LOOK), link);
  await tab.isReady();
  const { origin } = new URL(link);
  for (const headers of [{}, { origin: "https://evil.example" }, { origin: "http://localhost:1" }])
    assert.equal((await fetch(`${origin}/demo/cut`, { method: "POST", headers })).status, 404);
  assert.equal((await fetch(`${origin}/demo/else`, { method: "POST", headers: { origin } })).status, 404);

  // It does not end before all blows have fallen, however slow the machine is.
  await tab.say("count to 100000 every 30 ms");
  const goesOn = async (): Promise<void> => {
    const { length } = await tab.answer();
    await tab.answers((answer) => answer.length > length, "it goes on");
  };
  await goesOn();
  await tab.page.keyboard.press("Alt+KeyS");
  await tab.page.getByText("Try to break it").click();
  const back = (count: string): RegExp =>
    new RegExp(
      `^Nothing came for .*s\\. Then it was back: ${count} events? replayed, 0 missing, 0 twice\\.$`,
    );
  for (const [blow, mended] of [
    ["Cut the connection", back("\\d+")],
    ["Break the provider's stream", /^The answer broke off; it was continued: 0 missing, 0 twice\.$/],
    ["Kill the server", back("\\d+")],
    // What was said meanwhile was lost on its way, and comes again.
    ["Lose everything for 10 s", back("(?:[2-9]|\\d\\d+)")],
  ] as const) {
    await tab.press(blow);
    const mend = tab.page.locator(".drawer li", { has: tab.page.getByRole("button", { name: blow }) });
    await mend.getByRole("status").filter({ hasText: mended }).waitFor();
    await tab.is("live");
    await goesOn();
  }
  const fits = "document.documentElement.scrollHeight <= document.documentElement.clientHeight";
  assert.equal(await tab.page.evaluate(fits), true, "the drawer scrolls, and not the page");
  for (const [name, colorScheme, size] of [
    ["page-drawer", "light", DESK],
    ["page-drawer-dark", "dark", DESK],
    ["page-drawer-phone-dark", "dark", PHONE],
    ["page-drawer-phone", "light", PHONE],
  ] as const) {
    await tab.page.emulateMedia({ colorScheme });
    await tab.page.setViewportSize(size);
    await looksAs(name, tab.page, ".timeline");
    assert.deepEqual(await faultsOf(tab.page), [], `everybody can read it: ${name}`);
  }
  await tab.page.setViewportSize(DESK);
  await tab.press("Stop");
  await tab.is("stopped");
  const answer = await tab.answer();
  assert.ok(counted(100_000).startsWith(answer));
  await tab.sawOnly("count to 100000 every 30 ms", answer);

  demo.kill("SIGINT");
  await ended;
  assert.equal(demo.exitCode, 0);
  assert.ok(!existsSync("/nowhere"));
});
