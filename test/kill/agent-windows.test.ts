/**
 * The table of C2 from real processes: the client is killed in each window, started again, and does what the table says.
 *
 * Each window is met by something that can be seen from outside: an event in the log, a question to the user, a line in
 * a file, a result on its way to a server that does not listen.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { watch } from "node:fs";
import { after, before, test } from "node:test";
import type { ChatMessage, ToolResultPart } from "../../src/protocol/chat-message.ts";
import { allProcesses } from "../../src/tools/processes.ts";
import { type AgentProcess, AgentServer, type Desk, PATIENCE_MS } from "./agent-rig.ts";

interface Row {
  readonly crash: string;
  readonly found: string;
  readonly did: string;
}

const table: Row[] = [];

/** For all windows in which the server lives on. */
const shared = new AgentServer();
before(() => shared.start());
after(() => shared.close());

/** Resolves when the file has a line. */
async function firstLine(desk: Desk, name: string): Promise<string> {
  const watching = watch(desk.workspace);
  try {
    for (;;) {
      // Watched before it is looked at: a change in between wakes the wait.
      const [line] = desk.lines(name);
      if (line !== undefined) return line;
      await once(watching, "change", { signal: AbortSignal.timeout(PATIENCE_MS) });
    }
  } finally {
    watching.close();
  }
}

/** How the only tool call of the conversation ended. */
async function resultOf(client: AgentProcess): Promise<ToolResultPart> {
  const { messages } = await client.hears("over");
  const results = messages.flatMap((message: ChatMessage) =>
    message.role === "tool" ? message.content : [],
  );
  const [result] = results;
  assert.ok(result !== undefined && results.length === 1, "there is one tool call");
  assert.equal((await client.hears("ended")).reason, "completed");
  return result;
}

/** In the whole log of the turn. */
async function execsAsked(idempotencyKey: string): Promise<number> {
  const messages = await shared.read(
    idempotencyKey,
    (message) => message.case === "interactionUpdate" && message.value.message.case === "turnEnded",
  );
  return messages.filter((message) => message.case === "execServerMessage").length;
}

test("C2: killed before `received` is durable, the server sends the request again", async () => {
  const desk = shared.desk();
  const turn = {
    prompt: "pace 50 ms\nsay one two three four\nshell echo effect >> file\nsay the end",
    turns: 1,
  };
  const first = desk.start(turn);
  const { idempotencyKey } = await first.hears("turn");
  await first.hears("text", ({ text }) => text.startsWith("one"));
  // It hears nothing from here on, and the server asks.
  first.signal("SIGSTOP");
  await shared.read(idempotencyKey, (message) => message.case === "execServerMessage");
  await first.kill();
  const found = await desk.phaseOf(idempotencyKey);
  assert.equal(found, "nothing");
  assert.deepEqual(desk.lines("file"), []);

  const second = desk.start(turn);
  assert.ok((await second.hears("turn")).isResumed);
  const { outcome } = await resultOf(second);
  assert.deepEqual([outcome, desk.lines("file")], ["done", ["effect"]]);
  assert.equal(await execsAsked(idempotencyKey), 1);
  table.push({
    crash: "before received is durable",
    found,
    did: `delivered again, ran once: ${outcome}`,
  });
});

test("C2, C7: killed while the user is asked, it asks again, and runs the tool once", async () => {
  const desk = shared.desk();
  const turn = { prompt: "say one\nshell echo effect >> file\nsay the end", turns: 1, asks: true };
  const first = desk.start(turn);
  const { idempotencyKey } = await first.hears("turn");
  const { execId } = await first.hears("asked");
  await first.kill();
  const found = await desk.phaseOf(idempotencyKey);
  assert.equal(found, "received");
  assert.deepEqual(desk.lines("file"), []);

  const second = desk.start(turn);
  assert.equal((await second.hears("asked")).execId, execId);
  second.say("approve");
  const { outcome } = await resultOf(second);
  assert.deepEqual([outcome, desk.lines("file")], ["done", ["effect"]]);
  table.push({
    crash: "received, not started",
    found,
    did: `asked again, ran once: ${outcome}`,
  });
});

test("C2: killed while a command runs, it stops what is left of it and reports unknown", async () => {
  const desk = shared.desk();
  const command = "echo $$ >> pid; echo effect >> file; sleep 600 & wait; echo effect >> file";
  const turn = { prompt: `say one\nshell ${command}\nsay the result`, turns: 1 };
  const first = desk.start(turn);
  const { idempotencyKey } = await first.hears("turn");
  await firstLine(desk, "file");
  const group = Number(await firstLine(desk, "pid"));
  const left = (): number => allProcesses().filter((process) => process.group === group).length;
  await first.kill();
  const found = await desk.phaseOf(idempotencyKey);
  assert.equal(found, "started");
  assert.equal(left(), 2, "the command and what it started outlive the client");

  const second = desk.start(turn);
  const { outcome } = await resultOf(second);
  assert.deepEqual([outcome, desk.lines("file")], ["unknown", ["effect"]]);
  assert.equal(left(), 0, "the left-over group is stopped");
  const { messages } = await second.hears("over");
  assert.match(JSON.stringify(messages.at(-1)), /unknown/, "and the model is told");
  table.push({
    crash: "started, not done",
    found,
    did: `not run again, the group killed: ${outcome}`,
  });
});

test("C2: killed while a function runs that is not a process, it reports unknown", async () => {
  const desk = shared.desk();
  const turn = {
    prompt: 'say one\ncall append {"file":"file","line":"effect","wait":true}\nsay end',
    turns: 1,
  };
  const first = desk.start(turn);
  const { idempotencyKey } = await first.hears("turn");
  await firstLine(desk, "file");
  await first.kill();
  const found = await desk.phaseOf(idempotencyKey);
  assert.equal(found, "started");
  const { outcome } = await resultOf(desk.start(turn));
  assert.deepEqual([outcome, desk.lines("file")], ["unknown", ["effect"]]);
  table.push({ crash: "started, not done (a function)", found, did: `not run again: ${outcome}` });
});

test("C2: killed while a repeatable tool runs, it runs the tool again", async () => {
  const desk = shared.desk();
  const turn = {
    prompt: 'say one\ncall mark {"file":"file","line":"effect","wait":true}\nsay end',
    turns: 1,
  };
  const first = desk.start(turn);
  const { idempotencyKey } = await first.hears("turn");
  await firstLine(desk, "file");
  await first.kill();
  const found = await desk.phaseOf(idempotencyKey);
  assert.equal(found, "started");
  const { outcome } = await resultOf(desk.start(turn));
  assert.deepEqual([outcome, desk.lines("file")], ["done", ["effect", "effect"]]);
  table.push({ crash: "started, not done (repeatable)", found, did: `ran again: ${outcome}` });
});

test("C2: killed when the result is said and not acknowledged, it says the same under the same seqno", async (t) => {
  const server = new AgentServer();
  t.after(() => server.close());
  await server.start();
  const desk = server.desk();
  // The command ends when the server does not listen any more.
  const command = "echo effect >> file; until [ -e go ]; do sleep 0.02; done";
  const turn = { prompt: `say one\nshell ${command}\nsay end`, turns: 1 };
  const first = desk.start(turn);
  const { idempotencyKey } = await first.hears("turn");
  await firstLine(desk, "file");
  server.pause();
  desk.touch("go");
  const said = await first.hears("result");
  await first.kill();
  const found = await desk.phaseOf(idempotencyKey);
  assert.equal(found, "done");
  // What lay in its sockets goes with it.
  await server.kill();
  await server.start();

  const second = desk.start(turn);
  const again = await second.hears("result");
  const { outcome } = await resultOf(second);
  assert.deepEqual(again, said, "the same result under the same seqno");
  assert.deepEqual([outcome, desk.lines("file")], ["done", ["effect"]]);
  table.push({
    crash: "done, not acked",
    found,
    did: `not run again, the same result under seqno ${said.seqno}: ${outcome}`,
  });
});

test("C2: the table, as these processes have shown it", (t) => {
  assert.equal(table.length, 6);
  const width = (column: keyof Row): number => Math.max(...table.map((row) => row[column].length));
  for (const { crash, found, did } of table) {
    t.diagnostic(`${crash.padEnd(width("crash"))} | ${found.padEnd(width("found"))} | ${did}`);
  }
});
