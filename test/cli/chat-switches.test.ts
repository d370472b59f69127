/**
 * The switches of `holdfast chat`: set by file, environment and flag, and changed in the file while it runs. Real processes, with a
 * TCP proxy between them that cuts the connection.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Network, openNetwork } from "../../src/cli/demo/network.ts";
import { ensureServer } from "../../src/cli/local-server.ts";
import { type SwitchFlags, switchesOf } from "../../src/cli/switches.ts";
import type { Switches } from "../../src/client/stream-options.ts";
import { openSharedTables } from "../../src/store/sqlite/shared-tables.ts";
import { HEADS } from "../../src/client-node/journal-rows.ts";
import { ChatRig, hasScript } from "./chat-process.ts";

class SwitchRig extends ChatRig {
  readonly config = join(this.dataDir, "..", "chat.json");

  set(settings: object | string): void {
    writeFileSync(this.config, typeof settings === "string" ? settings : JSON.stringify(settings));
  }

  /** A server of the data directory, behind a network. */
  async network(t: TestContext): Promise<Network> {
    const env = { PATH: process.env["PATH"], HOME: join(this.dataDir, "..") };
    const quiet = { onStart: () => undefined, onNotice: () => undefined };
    const { dataDir } = this;
    const { url } = await ensureServer({ dataDir, config: undefined, env, cwd: this.workspace, ...quiet });
    const network = await openNetwork();
    t.after(() => network.close());
    network.targetPorts = [Number(new URL(url).port)];
    return network;
  }
}

async function journalsIn(workspace: string): Promise<number> {
  const tables = await openSharedTables(join(workspace, ".holdfast", "client.db"), { now: Date.now });
  const heads = await tables.list(HEADS, "", { after: undefined, countMax: 10 });
  await tables.close();
  return heads.length;
}

function unexpected(notice: string): void {
  assert.fail(notice);
}

function cut(network: Network): void {
  network.cut();
  network.mend();
}

test("a change of the config file counts from the next turn on, and a bad file changes nothing", async (t) => {
  const rig = new SwitchRig(t);
  const network = await rig.network(t);
  const url = `http://127.0.0.1:${network.port}`;
  rig.set({ reliable: true });
  const chat = rig.start("--url", url, "--config", rig.config);
  chat.type("count to 20 every 100 ms\n");
  await chat.shows(/\b2\b/);
  // The turn under way keeps what it began with.
  rig.set({ reliable: false });
  cut(network);
  await chat.shows(/\b20\b/);

  chat.type("count to 340 every 100 ms\n");
  await chat.shows(/\b22\b/);
  cut(network);
  await chat.shows(/cannot be resumed/);
  assert.doesNotMatch(chat.screen, /\b340\b/);

  rig.set("{");
  chat.type("count to 340 every 100 ms\n");
  await chat.shows(/cannot be resumed[^]*\b22\b/);
  cut(network);
  await chat.shows(/cannot be resumed[^]*cannot be resumed/);
  chat.type("say still-here\n");
  await chat.shows(/still-here/);
  rig.set({ reliable: true });
  chat.type("count to 20 every 100 ms\n");
  await chat.shows(/still-here[^]*\b2\b/);
  cut(network);
  await chat.shows(/still-here[^]*\b20\b/);
  chat.child.stdin.end();
  const { stderr } = await chat.end;
  assert.match(stderr, /chat\.json: from the next turn on reliable is off\n/);
  assert.match(stderr, /chat\.json is not JSON: .*; the switches stay as they were\n/);
  assert.match(stderr, /chat\.json: from the next turn on reliable is on\n/);
});

test("C2: without persistence a tool that was running when the chat was killed is not run again", async (t) => {
  const rig = new SwitchRig(t);
  rig.set({ persistence: false });
  const script = "shell echo ran >> ran.txt; exec sleep 600\nthen\nsay the result";
  const options = ["--config", rig.config, "--allow", "shell"];
  const killed = rig.start("-p", script, ...options);
  killed.child.stdin.end();
  const ran = join(rig.workspace, "ran.txt");
  while (!existsSync(ran)) await sleep(20);
  killed.child.kill("SIGKILL");
  await killed.end;
  assert.equal(await journalsIn(rig.workspace), 0);
  const next = await rig.run(["-p", "say over", "--continue", ...options]);
  assert.deepEqual([next.code, next.stdout], [0, "over\n"]);
  assert.equal(readFileSync(ran, "utf8"), "ran\n");
});

test("a flag wins over the environment, the environment over the file; what is wrong is refused by its name", async (t) => {
  const rig = new SwitchRig(t);
  rig.set({ reliable: false, persistence: false, retryLookbackWindowMs: 1 });
  const said = (flags: SwitchFlags, env: Record<string, string> = {}): Switches => {
    const surroundings = { env, cwd: rig.workspace };
    return switchesOf({ flags, configFile: rig.config, surroundings, onNotice: unexpected })();
  };
  assert.deepEqual(said({}), { reliable: false, persistence: false, retryLookbackWindowMs: 1 });
  const env = { HOLDFAST_RELIABLE: "1", HOLDFAST_RETRY_LOOKBACK_WINDOW_MS: "2" };
  assert.deepEqual(said({}, env), { reliable: true, persistence: false, retryLookbackWindowMs: 2 });
  assert.deepEqual(said({ reliable: false, persistence: true, retryLookbackWindowMs: "3" }, env), {
    reliable: false,
    persistence: true,
    retryLookbackWindowMs: 3,
  });
  const flag = await rig.run(["-p", "hello", "--retry-lookback-window-ms", "2h"]);
  assert.equal(flag.code, 2);
  assert.match(flag.stderr, /--retry-lookback-window-ms must be a whole number, at least 0, not "2h"/);
  rig.set({ reliable: "no" });
  const file = await rig.run(["-p", "hello", "--config", rig.config]);
  assert.equal(file.code, 2);
  assert.match(file.stderr, /chat\.json: "reliable" must be true or false/);
});

test("a file that is not good is named once, and the switches stay until it is good again", (t) => {
  const rig = new SwitchRig(t);
  const notices: string[] = [];
  rig.set({ reliable: false });
  const surroundings = { env: {}, cwd: rig.workspace };
  const onNotice = (notice: string): void => void notices.push(notice);
  const switches = switchesOf({ flags: {}, configFile: rig.config, surroundings, onNotice });
  rig.set({ reliabel: true });
  assert.deepEqual([switches(), switches()], [{ reliable: false }, { reliable: false }]);
  rig.set({ persistence: false });
  assert.deepEqual(switches(), { persistence: false });
  assert.equal(notices.length, 2);
  assert.match(notices[0] ?? "", /"reliabel" is not known; did you mean "reliable"\?; the switches stay/);
  assert.match(notices[1] ?? "", /from the next turn on reliable is on, persistence is off$/);
});

test("a turn that was quiet for longer than the window is named at a start, and not offered", async (t) => {
  if (!hasScript()) {
    t.diagnostic("script of util-linux makes the terminal, and is not there");
    return;
  }
  const rig = new SwitchRig(t);
  const first = rig.onTerminal();
  await first.shows(/\n›$/);
  first.type("shell sleep 60\r");
  await first.shows(/Allow\?[^\n]*:$/);
  first.child.kill("SIGKILL");
  await first.end;
  const late = rig.onTerminal("--retry-lookback-window-ms", "0");
  await late.shows(/was interrupted\.\n--continue or \/resume \w{8} continues it\.\n\n›$/);
});
