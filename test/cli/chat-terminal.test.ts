/**
 * `holdfast chat` on a terminal: a real process on a real pseudo-terminal, the rehearsal model.
 */
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { stopServer } from "./background-server.ts";
import { terminalRig } from "./chat-process.ts";

const CTRL_C = "\u0003";
const CTRL_D = "\u0004";

test("a person talks, allows a command, queues a message, stops a turn, and leaves", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const chat = rig.onTerminal();
  await chat.shows(/\n›$/);

  // Several lines, an approval with hidden characters made visible; an unclear answer is asked again.
  chat.type("say I run it.\\\rshell printf 'a\\033[31mb\\n' #\u200b\\\rthen\\\rsay the result\r");
  await chat.shows(/I run it\.\n\n● shell[^]*command: printf .*\\u\{200b\}\n[^]*Allow\?[^\n]*:$/);
  chat.type("perhaps\r");
  await chat.shows(/reason>: perhaps\n[^]*Allow\?[^\n]*:$/);
  chat.type("y\r");
  await chat.shows(
    /│ a\\u\{1b\}\[31mb\n {2}✓ done\n\nThe tool's outcome is "done"[^]*\nrehearsal\/rehearsal · .*\n\n›$/,
  );

  // Typed while the turn runs: the line below shows it, then the next step takes it up.
  chat.type("count to 40 every 50 ms\r");
  await chat.shows(/1 2 3.*\n.*· Ctrl-C stops$/);
  chat.type("say queued");
  await chat.shows(/\n› say queued {2}\(Enter: for the next step\)$/);
  chat.type("\r");
  await chat.shows(/For the agent's next step: say queued\n[^]*\n› say queued\n\nqueued\n[^]*\n›$/);

  chat.type("count to 1000 every 50 ms\r");
  await chat.shows(/every 50 ms\n\n1 2 3.*\n.*· Ctrl-C stops$/);
  chat.type(CTRL_C);
  await chat.shows(/\nStopped\.\nrehearsal\/rehearsal · .*\n\n›$/);

  // At the prompt Ctrl-C takes the line away, and Ctrl-D leaves.
  chat.type("half a mess");
  await chat.shows(/half a mess$/);
  chat.type(CTRL_C);
  await chat.shows(/\n› \^C\n\n›$/);
  chat.type("/list\r");
  await chat.shows(/# {2}id .*\n1 .*say I run it\.\n\n›$/);
  chat.type(CTRL_D);
  assert.equal((await chat.end).code, 0);

  const history = join(rig.workspace, ".holdfast", "chat-history");
  assert.equal(statSync(history).mode & 0o777, 0o600);
  const kept = readFileSync(history, "utf8");
  assert.match(kept, /^say queued$/m);
  assert.doesNotMatch(kept, /^(?:y|perhaps)$/m);
});

test("killed while it asks, started again, and the server killed: nothing is lost; Ctrl-C twice leaves at once", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const first = rig.onTerminal();
  await first.shows(/\n›$/);
  first.type("say hello\r");
  await first.shows(/\nhello\n[^]*\n›$/);
  first.type("shell sleep 60\r");
  await first.shows(/Allow\?[^\n]*:$/);
  first.child.kill("SIGKILL");
  await first.end;

  const second = rig.onTerminal();
  // By its own words, not by those that began the conversation.
  await second.shows(/\n“shell sleep 60” was interrupted\.\nContinue it\? \[Y\/n\]$/);
  second.type("\r");
  // It had not started, so it is asked again.
  await second.shows(/● shell {2}sleep 60\n▲ [^]*Allow\?[^\n]*:$/);
  second.type("n use a shorter one\r");
  await second.shows(/did not run: use a shorter one\n {2}⊘ denied\n[^]*\n›$/);
  second.type("count to 60 every 50 ms\r");
  await second.shows(/1 2 3.*\n.*· Ctrl-C stops$/);
  await stopServer(rig.dataDir);
  // The chat starts it again, and the turn goes on.
  await second.shows(/has died; starting/);
  await second.shows(/58 59 60\n[^]*\n›$/);
  second.type("count to 1000 every 50 ms\r");
  await second.shows(/every 50 ms\n\n1 2 3.*\n.*· Ctrl-C stops$/);
  second.type(CTRL_C + CTRL_C);
  assert.equal((await second.end).code, 130);
});
