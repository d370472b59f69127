/**
 * `holdfast chat` on a terminal: a real process on a real pseudo-terminal, the rehearsal model.
 */
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { stopServer } from "./background-server.ts";
import { ChatRig, hasScript } from "./chat-process.ts";

const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const canTest = hasScript();

test("a person talks, allows a command, queues a message, stops a turn, and leaves", async (t) => {
  if (!canTest) {
    t.diagnostic("there is no `script` of util-linux here: the terminal is not tested");
    return;
  }
  const rig = new ChatRig(t);
  const chat = rig.onTerminal();
  await chat.shows(/› $/);

  // Several lines, an approval with hidden characters made visible, output as it comes.
  chat.type("say I run it.\\\rshell printf 'a\\\\033[31mb\\\\n'\u200b\\\rthen\\\rsay the result\r");
  let seen = await chat.shows(/command: printf .*\\u\{200b\}[^]*Allow\?/);
  assert.match(chat.screen, /I run it\.\n\n● shell/);
  chat.type("perhaps\r");
  seen = await chat.shows(/Allow\?/, seen);
  chat.type("y\r");
  seen = await chat.shows(/│ a\\u\{1b\}\[31mb\n[^]*✓ done[^]*rehearsal\/rehearsal · [^]*› $/, seen);

  // Typed while the turn runs: it goes to the next step.
  chat.type("count to 40 every 50 ms\r");
  seen = await chat.shows(/1 2 3/, seen);
  chat.type("say queued\r");
  seen = await chat.shows(/For the agent's next step: say queued[^]*› say queued\n\nqueued\n[^]*› $/, seen);

  // The status line is rewritten, in place.
  chat.type("count to 1000 every 50 ms\r");
  seen = await chat.shows(/1 2 3/, seen);
  assert.ok(chat.raw.includes("\u001b[1A") && chat.raw.includes("Ctrl-C stops"));
  chat.type(CTRL_C);
  seen = await chat.shows(/Stopped\.\n[^]*› $/, seen);

  // At the prompt Ctrl-C takes the line away, and Ctrl-D leaves.
  chat.type(`half a mess${CTRL_C}`);
  seen = await chat.shows(/\^C\n[^]*› $/, seen);
  chat.type("/list\r");
  seen = await chat.shows(/say I run it\.[^]*› $/, seen);
  chat.type(CTRL_D);
  assert.equal((await chat.end).code, 0);

  const history = join(rig.workspace, ".holdfast", "chat-history");
  assert.equal(statSync(history).mode & 0o777, 0o600);
  const kept = readFileSync(history, "utf8");
  assert.match(kept, /^say queued$/m);
  assert.doesNotMatch(kept, /^(y|perhaps)$/m);
});

test("Ctrl-C twice leaves at once, and nothing is lost: the next start offers to go on, also when the server dies meanwhile", async (t) => {
  if (!canTest) {
    t.diagnostic("there is no `script` of util-linux here: the terminal is not tested");
    return;
  }
  const rig = new ChatRig(t);
  const first = rig.onTerminal();
  await first.shows(/› $/);
  first.type("shell sleep 60\r");
  await first.shows(/Allow\?/);
  first.child.kill("SIGKILL");
  await first.end;

  const second = rig.onTerminal();
  let seen = await second.shows(/was cut off\.\n[^]*Go on with it\? \[Y\/n\] $/);
  second.type("\r");
  // It had not started: it is asked again.
  seen = await second.shows(/● shell {2}sleep 60[^]*Allow\?/, seen);
  second.type("n use a shorter one\r");
  seen = await second.shows(/⊘ denied[^]*› $/, seen);
  second.type("count to 60 every 50 ms\r");
  seen = await second.shows(/1 2 3/, seen);
  await stopServer(rig.dataDir);
  // The chat starts it again, and the turn goes on.
  seen = await second.shows(/reconnecting …/, seen);
  seen = await second.shows(/58 59 60[^]*› $/, seen);
  second.type("count to 1000 every 50 ms\r");
  seen = await second.shows(/1 2 3/, seen);
  second.type(CTRL_C + CTRL_C);
  assert.equal((await second.end).code, 130);
});
