import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { processRecords } from "../../src/tools/process-records.ts";
import { processState, bootId } from "../../src/tools/processes.ts";
import { request, rig, Run, temporaryDirectory } from "./rig.ts";

const PROGRAM = join(import.meta.dirname, "programs/run-command.ts");

/** A client in a process of its own that runs one command and is killed while it runs. */
async function crashedClient(
  t: TestContext,
  workspace: string,
  state: string,
  command: string,
): Promise<void> {
  const child: ChildProcess = spawn(process.execPath, [PROGRAM, workspace, state, command], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  assert(child.stdout !== null);
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === "running") break;
  }
  child.kill("SIGKILL");
  await once(child, "exit");
}

function isRunning(pid: number): boolean {
  return processState(pid) !== undefined;
}

async function untilGone(pid: number): Promise<void> {
  while (isRunning(pid)) await pause();
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 10));
}

const COMMAND =
  "echo $$ > leader; sleep 1000 & echo $! > member; setsid sleep 1000 & echo $! > stray; touch begun; wait";

test("C2: what a killed client left running is found by its record and killed, with all it started", async (t) => {
  const workspace = temporaryDirectory(t, "leftover");
  const state = temporaryDirectory(t, "state");
  await crashedClient(t, workspace, state, COMMAND);
  const pids = ["leader", "member", "stray"].map((name) =>
    Number(readFileSync(join(workspace, name), "utf8")),
  );
  assert.deepEqual(pids.map(isRunning), [true, true, true]);
  const { tools } = await rig(t, { workspace, stateDirectory: state });
  const exec = {
    ...request({ case: "shellArgs", value: { command: COMMAND } }),
    args: readFileSync(join(state, "args")),
  };
  tools.stopLeftover(exec);
  for (const pid of pids) await untilGone(pid);
  assert.deepEqual(readdirSync(join(state, "running")), []);
});

test("C2: the members are found also when the leader is gone", async (t) => {
  const workspace = temporaryDirectory(t, "leftover");
  const state = temporaryDirectory(t, "state");
  await crashedClient(t, workspace, state, COMMAND);
  const [leader = 0, member = 0, stray = 0] = ["leader", "member", "stray"].map((name) =>
    Number(readFileSync(join(workspace, name), "utf8")),
  );
  process.kill(leader, "SIGKILL");
  await untilGone(leader);
  const { tools } = await rig(t, { workspace, stateDirectory: state });
  tools.stopLeftover({
    ...request({ case: "shellArgs", value: { command: COMMAND } }),
    args: readFileSync(join(state, "args")),
  });
  await untilGone(member);
  await untilGone(stray);
});

test("a pid that somebody else has now is left alone, and so is a run of a client that lives", async (t) => {
  const state = temporaryDirectory(t, "state");
  const records = processRecords(state);
  const bystander = spawn("sleep", ["1000"], { detached: true });
  t.after(() => bystander.kill("SIGKILL"));
  const pid = bystander.pid ?? 0;
  const file = (mark: string) => join(state, "running", `${mark}-${pid}.json`);
  const dead = { pid: 999_999_999, started: "1" };
  const reused = { boot: bootId(), owner: dead, leader: { pid, started: "12345" } };
  writeFileSync(file("a"), JSON.stringify(reused));
  records.stopLeftover("a");
  const otherBoot = { boot: "another", owner: dead, leader: processState(pid) };
  writeFileSync(file("b"), JSON.stringify(otherBoot));
  records.stopLeftover("b");
  const owner = processState(process.ppid);
  writeFileSync(file("c"), JSON.stringify({ boot: bootId(), owner, leader: processState(pid) }));
  records.stopLeftover("c");
  writeFileSync(file("d"), '{"boot":');
  records.stopLeftover("d");
  assert(isRunning(pid));
  assert.deepEqual(readdirSync(join(state, "running")), [`c-${pid}.json`]);
});

test("the same command of somebody else is no left-over, wherever it runs", async (t) => {
  const workspace = temporaryDirectory(t, "leftover");
  const state = temporaryDirectory(t, "state");
  await crashedClient(t, workspace, state, COMMAND);
  const ours = Number(readFileSync(join(workspace, "leader"), "utf8"));
  const exec = {
    ...request({ case: "shellArgs", value: { command: COMMAND } }),
    args: readFileSync(join(state, "args")),
  };
  // Another conversation of this process runs the same, and so does a client elsewhere.
  const { tools } = await rig(t, { workspace, stateDirectory: state });
  const elsewhere = await rig(t);
  const places = [
    { tools, workspace },
    { tools: elsewhere.tools, workspace: elsewhere.workspace },
  ];
  const pids: number[] = [];
  for (const place of places) {
    rmSync(join(place.workspace, "begun"), { force: true });

    void place.tools.run(exec, new Run());
    while (!existsSync(join(place.workspace, "begun"))) await pause();
    pids.push(Number(readFileSync(join(place.workspace, "leader"), "utf8")));
  }
  tools.stopLeftover(exec);
  await untilGone(ours);
  assert.deepEqual(pids.map(isRunning), [true, true]);
});

test("C2: a client that dies before the pid is on disk leaves a child that does nothing", async (t) => {
  const workspace = temporaryDirectory(t, "gate");
  // What the gate reads when its writer is gone: the end.
  const gate = spawn(
    "/bin/sh",
    ["-c", 'read -r go <&3 && [ "$go" = go ] || exit 126; exec 3<&-; exec "$@"', "x", "touch", "ran"],
    {
      cwd: workspace,
      stdio: ["ignore", "ignore", "ignore", "pipe"],
    },
  );
  gate.stdio[3]?.destroy();
  await once(gate, "exit");
  assert.equal(gate.exitCode, 126);
  assert(!existsSync(join(workspace, "ran")));
});
