import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { outputWindow } from "../../src/tools/output-window.ts";
import { commandEnvironment } from "../../src/tools/environment.ts";
import { findProgram } from "../../src/tools/sandbox.ts";
import { inline, outcome, put, type Result, rig, Run, temporaryDirectory } from "./rig.ts";

function streams(result: Result): {
  stdout: string;
  stderr: string;
  exitCode: number;
  signal: string;
  outputTruncated: boolean;
} {
  assert(
    result.case === "shellResult" && result.value.result.case === "success",
    JSON.stringify(result.value?.result.case),
  );
  const { stdout, stderr, exitCode, signal, outputTruncated } = result.value.result.value;
  const text = (content: typeof stdout) => Buffer.from(content?.content.value ?? []).toString();
  return { stdout: text(stdout), stderr: text(stderr), exitCode, signal, outputTruncated };
}

const said = (run: Run, from: "stdout" | "stderr") =>
  run.said
    .flatMap((each) =>
      each.case === "shellStreamResult" && each.value.result.case === "output"
        ? [each.value.result.value.output]
        : [],
    )
    .filter((output) => output.case === from)
    .map((output) => Buffer.from(output.value ?? []).toString())
    .join("");

/** Gone, or a zombie that nobody has collected yet. */
function isRunning(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

async function untilGone(pid: number): Promise<void> {
  while (isRunning(pid)) await new Promise((resolve) => setTimeout(resolve, 10));
}

test("shell gives both outputs, the exit code and the signal, in the directory that was asked for", async (t) => {
  const { workspace, perform } = await rig(t);
  mkdirSync(join(workspace, "sub"));
  const command = "echo out; echo err >&2; pwd; cat; exit 3";
  const result = streams(await perform({ case: "shellArgs", value: { command, workingDirectory: "sub" } }));
  assert.deepEqual(result, {
    stdout: `out\n${workspace}/sub\n`,
    stderr: "err\n",
    exitCode: 3,
    signal: "",
    outputTruncated: false,
  });
  assert.equal(
    streams(await perform({ case: "shellArgs", value: { command: "kill -9 $$" } })).signal,
    "SIGKILL",
  );
  outcome(
    await perform({ case: "shellArgs", value: { command: "true", workingDirectory: "none" } }),
    "notFound",
  );
});

test("a command sees only the environment variables of the list", async (t) => {
  const secrets = {
    OPENAI_API_KEY: "s1",
    HOLDFAST_HOME_KEY: "s2",
    GITHUB_TOKEN: "s3",
    MY_SECRET_THING: "s4",
    RANDOM: "s5",
  };
  const env = { PATH: "/usr/bin:/bin", LC_ALL: "C", MY_VALUE: "yes", ...secrets };
  const { perform } = await rig(t, { env, config: { shell: { sandbox: "off", environment: ["MY_*"] } } });
  const { stdout } = streams(await perform({ case: "shellArgs", value: { command: "env" } }));
  const names = new Set(stdout.split("\n").map((line) => line.split("=")[0]));
  assert(names.has("LC_ALL") && names.has("MY_VALUE"));
  for (const name of Object.keys(secrets)) assert(!names.has(name), name);
  assert.equal(commandEnvironment(env, ["GITHUB_TOKEN"])["GITHUB_TOKEN"], "s3", "named in full it is passed");
  assert.equal(commandEnvironment(env, ["HOLDFAST_*"])["HOLDFAST_HOME_KEY"], undefined);
});

test("output beyond the bound keeps its beginning and its end; large output travels as a blob", async (t) => {
  const { perform } = await rig(t);
  const command = "echo BEGIN; head -c 300000 /dev/zero | tr '\\0' x; echo END";
  const cut = streams(await perform({ case: "shellArgs", value: { command, outputBytesMax: 1000 } }));
  assert(cut.outputTruncated);
  assert.match(cut.stdout, /^BEGIN\nx+\n\[\.\.\. 299010 bytes left out \.\.\.\]\nx+END\n$/);
  const run = new Run();
  const whole = await perform({ case: "shellArgs", value: { command: "head -c 100000 /dev/zero" } }, run);
  assert(whole.case === "shellResult" && whole.value.result.case === "success");
  assert.equal(whole.value.result.value.stdout?.content.case, "blobId");
  assert.equal([...run.blobs.values()][0]?.length, 100_000);
});

test("an output window holds exactly its bound", () => {
  const window = outputWindow(10);
  for (let n = 0; n < 10; n++) window.add(Buffer.from(String(n)));
  assert.equal(Buffer.from(window.bytes()).toString(), "0123456789");
  assert(!window.isTruncated());
  window.add(Buffer.from("A"));
  assert.equal(Buffer.from(window.bytes()).toString(), "01234\n[... 1 bytes left out ...]\n6789A");
});

test("a command that takes too long is stopped with everything it started", async (t) => {
  const { workspace, perform } = await rig(t);
  const command = "trap '' TERM; (trap '' TERM; sleep 1000) & echo $! > child; echo started; sleep 1000";
  const result = await perform({ case: "shellArgs", value: { command, timeoutMs: 300 } });
  const { timeoutMs } = outcome(result, "timeout");
  assert.equal(timeoutMs, 300);
  assert(result.case === "shellResult" && result.value.result.case === "timeout");
  assert.equal(Buffer.from(result.value.result.value.output?.content.value ?? []).toString(), "started\n");
  await untilGone(Number(readFileSync(join(workspace, "child"), "utf8")));
});

test("an abort stops the command, and the answer says what came out of it", async (t) => {
  const { perform } = await rig(t);
  const run = new Run();
  const running = perform(
    { case: "shellStreamArgs", value: { command: "echo first; exec sleep 1000" } },
    run,
  );
  await run.until(() => said(run, "stdout") === "first\n");
  run.controller.abort();
  assert.match(String(outcome(await running, "aborted")["detail"]), /stopped after/);
  const early = new Run();
  early.controller.abort();
  outcome(await perform({ case: "shellArgs", value: { command: "touch ran" } }, early), "aborted");
  const { stdout } = streams(await perform({ case: "shellArgs", value: { command: "ls" } }));
  assert.equal(stdout, "");
});

test("shell_stream says that it runs, then the output as it comes, then the end without it", async (t) => {
  const { workspace, perform } = await rig(t);
  const run = new Run();
  const command = "echo one; echo bad >&2; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 4";
  const running = perform({ case: "shellStreamArgs", value: { command } }, run);
  await run.until(() => said(run, "stdout") === "one\n" && said(run, "stderr") === "bad\n");
  const first = run.said[0];
  assert(first?.case === "shellStreamResult" && first.value.result.case === "started");
  assert(isRunning(first.value.result.value.pid));
  put(workspace, { go: "" });
  const { exitCode, stdout, outputTruncated } = outcome(await running, "success");
  assert.deepEqual([exitCode, stdout, outputTruncated], [4, undefined, false]);
  assert.equal(said(run, "stdout"), "one\ntwo\n");
});

test("shell_stream says much output in pieces, within its bound", async (t) => {
  const { perform } = await rig(t);
  const run = new Run();
  const command = "for i in $(seq 20000); do echo line $i; done";
  const result = await perform({ case: "shellStreamArgs", value: { command, outputBytesMax: 40_000 } }, run);
  assert.equal(outcome(result, "success")["outputTruncated"], true);
  const text = said(run, "stdout");
  assert(text.length < 21_000 && text.startsWith("line 1\n") && text.endsWith("line 20000\n"));
  assert(run.said.length < 20);
});

test("what is left in the background does not hold the answer back", async (t) => {
  const { workspace, perform } = await rig(t);
  const holding = streams(
    await perform({ case: "shellArgs", value: { command: "sleep 1000 & echo $! > pid; echo done" } }),
  );
  assert.equal(holding.stdout, "done\n");
  await untilGone(Number(readFileSync(join(workspace, "pid"), "utf8")));
  const command = "sleep 1000 > log 2>&1 & echo $! > kept; echo done";
  assert.equal(streams(await perform({ case: "shellArgs", value: { command } })).stdout, "done\n");
  const kept = Number(readFileSync(join(workspace, "kept"), "utf8"));
  assert(isRunning(kept), "one that holds no output lives on");
  process.kill(kept, "SIGKILL");
});

test("closing the tools stops what runs and leaves no record", async (t) => {
  const { tools, state, perform } = await rig(t);
  const run = new Run();
  const running = perform({ case: "shellStreamArgs", value: { command: "echo on; exec sleep 1000" } }, run);
  await run.until(() => said(run, "stdout") === "on\n");
  assert.equal(readdirSync(join(state, "running")).length, 1);
  await tools.close();
  outcome(await running, "aborted");
  assert.deepEqual(readdirSync(join(state, "running")), []);
});

test("without a sandbox it is said; required and missing, nothing starts", async (t) => {
  const none = { PATH: "/nowhere" };
  const { tools } = await rig(t, { env: none, config: { shell: {} } });
  assert.match(tools.notices.join(), /no sandbox: bubblewrap \(bwrap\) is not installed/);
  await assert.rejects(rig(t, { env: none, config: { shell: { sandbox: "require" } } }), { code: "ENOSYS" });
});

test("in the sandbox only the workspace can be written, and the home and our journals are out of sight", async (t) => {
  if (findProgram("bwrap", tmpdir(), process.env) === undefined) {
    t.diagnostic("bubblewrap is not installed: the sandbox was not tried");
    return;
  }
  const home = temporaryDirectory(t, "home");
  put(home, { "secret.txt": "secret", "work/.holdfast/journal": "sealed", "work/a.txt": "a" });
  const env = { PATH: process.env["PATH"], HOME: home };
  const workspace = join(home, "work");
  const config = { shell: { sandbox: "require", network: false } };
  const { perform } = await rig(t, { env, workspace, config });
  const shell = async (command: string) => streams(await perform({ case: "shellArgs", value: { command } }));
  await openService(t);
  assert.equal((await shell("echo new > b.txt; cat a.txt; pwd")).stdout, `a${workspace}\n`);
  assert.equal(readFileSync(join(workspace, "b.txt"), "utf8"), "new\n");
  assert.notEqual((await shell("cat ../secret.txt")).exitCode, 0);
  assert.equal((await shell("ls .holdfast")).stdout, "");
  assert.equal((await shell("find /run -type s")).stdout, "");
  assert.notEqual((await shell("touch /usr/x")).exitCode, 0);
  assert.equal((await shell("cat /proc/net/dev | grep -vc -e lo: -e '|'")).stdout, "0\n");
  assert.equal((await shell("sleep 1000 & echo $$")).exitCode, 0);
  outcome(await perform({ case: "shellArgs", value: { command: "sleep 1000", timeoutMs: 300 } }), "timeout");
  outcome(await perform({ case: "writeArgs", value: { path: "c.txt", content: inline("c") } }), "success");
});

/** As docker's: who reaches it has anything started, anywhere. Only root may put it where services have theirs. */
async function openService(t: TestContext): Promise<void> {
  if (process.getuid?.() !== 0) {
    t.diagnostic("not root: sockets of services were not tried");
    return;
  }
  const service = createServer();
  t.after(() => service.close());
  service.listen(`/run/holdfast-test-${process.pid}.sock`);
  await once(service, "listening");
}
