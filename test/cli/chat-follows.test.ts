/**
 * A chat whose server dies, moves or is replaced, and a person who leaves: real processes on a pseudo-terminal.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { findServer } from "../../src/cli/control-client.ts";
import { terminalRig } from "./chat-process.ts";

const CTRL_D = "\u0004";
const COUNTING = /1 2 3.*\n.*· Ctrl-C stops$/;
const ENDED = /58 59 60\n\nrehearsal\/rehearsal · .*\n\n›$/;

test("a person's server is killed in mid-answer: the chat says so, starts none, and follows it to another port", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const first = await rig.serve("--port", "0");
  const chat = rig.onTerminal();
  await chat.shows(/\n›$/);
  chat.type("count to 60 every 50 ms\r");
  await chat.shows(COUNTING);
  process.kill(first.pid, "SIGKILL");
  await chat.shows(new RegExp(`\\(process\\s${first.pid}\\)\\s+has\\s+died:\\s+start`));
  assert.equal((await findServer(rig.dataDir)).kind, "died");
  assert.doesNotMatch(chat.screen, /starting one/);

  const second = await rig.serve("--port", "0");
  await chat.shows(new RegExp(`\\(process\\s+${second.pid}\\)`));
  await chat.shows(ENDED);
  assert.doesNotMatch(chat.screen, /begins this step anew|↻/, "the answer continued at the next word");
  assert.deepEqual(await pidOf(rig.dataDir), second.pid);

  // At an idle prompt, and back on the same port: the next message waits for it.
  process.kill(second.pid, "SIGKILL");
  chat.type("say still here\r");
  await chat.shows(new RegExp(`\\(process\\s+${second.pid}\\)\\s+has\\s+died`));
  const third = await rig.serve("--port", new URL(second.url).port);
  await chat.shows(/\nstill here\n[^]*\n›$/);
  await chat.shows(new RegExp(`is there again\\s+\\(process\\s+${third.pid}\\)[^]*\\n›$`));
});

test("a server that a chat has started makes room for a person's in mid-answer, and the chat follows", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const chat = rig.onTerminal();
  await chat.shows(/no server runs; starting one in the background\n[^]*\n›$/);
  chat.type("count to 60 every 200 ms\r");
  await chat.shows(COUNTING);
  const own = await rig.serve("--port", "0");
  assert.equal(await pidOf(rig.dataDir), own.pid);
  await chat.shows(ENDED);
  assert.match(chat.screen, new RegExp(`\\(process\\s+${own.pid}\\)`));
  assert.equal(await pidOf(rig.dataDir), own.pid, "no chat has started another one");
});

test("a named server is never started by the chat, which follows it all the same", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const first = await rig.serve("--port", "0");
  const shot = rig.start("--url", first.url, "-p", "count to 60 every 50 ms", "--json");
  shot.child.stdin.end();
  await shot.prints(/"text":"[^"]*\b3 /);
  process.kill(first.pid, "SIGKILL");
  await shot.prints(/"state":"reconnecting"/);
  await rig.serve("--port", "0");
  const { code, stdout, stderr } = await shot.end;
  assert.equal(code, 0, stdout + stderr);
  assert.match(stderr, /has died: start it again[^]*this chat follows it\n/);
  assert.match(stdout, /"type":"result","outcome":"completed"/);
});

test("the next chat after a kill says that the server died, and starts one on its port", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const first = await rig.serve("--port", "0");
  process.kill(first.pid, "SIGKILL");
  const { code, stderr } = await rig.run(["-p", "say hello"]);
  assert.equal(code, 0, stderr);
  const said = `the server at ${first.url} (process ${first.pid}) has died; starting one in the background`;
  assert.ok(stderr.includes(said), stderr);
  const seen = await findServer(rig.dataDir);
  assert.ok(seen.kind === "running" && seen.about.endsWhenIdle);
  assert.equal(seen.about.url, first.url);
});

test("Ctrl-D and SIGTERM leave in mid-answer: the turn continues at the server, and the next chat shows it", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const first = rig.onTerminal();
  await first.shows(/\n›$/);
  first.type("count to 60 every 50 ms\r");
  await first.shows(COUNTING);
  first.type(CTRL_D);
  assert.equal((await first.end).code, 0);
  assert.match(first.screen, /The turn continues at the server; the next [^]*shows it\.\s*$/);

  const second = rig.onTerminal();
  await second.shows(/was interrupted\.\nContinue it\? \[Y\/n\]$/);
  second.type("\r");
  await second.shows(ENDED);
  assert.doesNotMatch(second.screen, /Stopped|begins this step anew/);
  second.type(CTRL_D);
  await second.end;

  const third = rig.start("--continue");
  third.type("count to 60 every 50 ms\n");
  await third.prints(/1 2 3[^]*\n1 2 3/);
  third.child.kill("SIGTERM");
  assert.equal((await third.end).code, 130);
  const fourth = rig.onTerminal("--continue");
  await fourth.shows(ENDED);
  assert.doesNotMatch(fourth.screen, /Stopped|begins this step anew/);
});

test("C7: Ctrl-D at an approval answers nothing: the next chat asks again", async (t) => {
  const rig = terminalRig(t);
  if (rig === undefined) return;
  const first = rig.onTerminal();
  await first.shows(/\n›$/);
  first.type("shell echo approved\r");
  await first.shows(/Allow\?[^\n]*:$/);
  first.type(CTRL_D);
  assert.equal((await first.end).code, 0);
  assert.doesNotMatch(first.screen, /denied|did not run/);
  assert.match(first.screen, /The turn waits for your answer; the next [^]*asks again\.\s*$/);

  const second = rig.onTerminal("--continue");
  await second.shows(/● shell {2}echo approved\n[^]*Allow\?[^\n]*:$/);
  // The server dies while the question is open; its answer counts all the same.
  const pid = await pidOf(rig.dataDir);
  assert.ok(pid !== undefined);
  process.kill(pid, "SIGKILL");
  second.type("y\r");
  await second.shows(/│ approved\n {2}✓ done\n[^]*\n›$/);
  assert.match(second.screen, /starting\s+one/);
});

async function pidOf(dataDir: string): Promise<number | undefined> {
  const seen = await findServer(dataDir);
  return seen.kind === "running" ? seen.about.pid : undefined;
}
