/** `holdfast demo --page`: a page that cuts its own connection and kills its own server, in a real browser. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { COMMAND } from "../command.ts";
import { inherited } from "../inherited.ts";
import { noBrowser } from "./chromium.ts";
import { counted, Tab, visitor } from "./page-rig.ts";

const skip = noBrowser ?? false;

test("G1: the drawer strikes for real, and says what came of it", { skip }, async (t) => {
  const env = { PATH: process.env["PATH"], HOME: "/nowhere", ...inherited() };
  const demo = spawn(process.execPath, [COMMAND, "demo", "--page"], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => void demo.kill("SIGKILL"));
  const lines = createInterface({ input: demo.stdout });
  let link = "";
  for await (const line of lines) if ((link = /http:\S+/.exec(line)?.[0] ?? "") !== "") break;
  const tab = await Tab.open(await visitor(t), link);
  await tab.isReady();
  const { origin } = new URL(link);
  for (const headers of [{}, { origin: "https://evil.example" }, { origin: "http://localhost:1" }])
    assert.equal((await fetch(`${origin}/demo/cut`, { method: "POST", headers })).status, 404);
  assert.equal((await fetch(`${origin}/demo/else`, { method: "POST", headers: { origin } })).status, 404);

  await tab.say("count to 400 every 30 ms");
  await tab.answers((answer) => answer.startsWith("1 2 3 4 5"), "it begins");
  await tab.page.keyboard.press("Alt+KeyS");
  await tab.page.getByText("Try to break it").click();
  for (const blow of ["Cut the connection", "Kill the server"]) {
    await tab.press(blow);
    await tab.page.getByText(/It came back after .*s: \d+ events, 0 missing, 0 twice\./).waitFor();
    await tab.is("live");
  }
  await tab.answers((answer) => answer === counted(400), "all of it is there");
  await tab.is("ended");
  await tab.sawOnly("count to 400 every 30 ms", counted(400));
  assert.deepEqual(await tab.refused(), []);

  demo.kill("SIGINT");
  await once(demo, "exit");
  assert.equal(demo.exitCode, 0);
  assert.ok(!existsSync("/nowhere"));
});
