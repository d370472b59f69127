/**
 * Every command that a message prints can be pasted as it stands: where the package lies decides how it is written, and the
 * data directory that the message speaks of is in it.
 */
import assert from "node:assert/strict";
import { execFile, type ExecFileOptions } from "node:child_process";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { commandsOn } from "../../src/cli/commands-on.ts";
import { failure } from "../../src/node/failures.ts";
import { describeFailure } from "../../src/cli/failures.ts";
import { ownCommand } from "../../src/cli/own-command.ts";
import { inherited } from "../inherited.ts";
import { Cli } from "./cli-process.ts";

const root = join(import.meta.dirname, "../..");
/** Far more than a command takes. */
const PATIENCE_MS = 240_000;
const here = { root: "/src/holdfast", cwd: "/src/holdfast", isOnPath: false, node: "/usr/bin/node" };

test("a command is written as npx finds it in a checkout and in a project, and as the shell finds it elsewhere", () => {
  const installed = "/users/u/app/node_modules/holdfast";
  const global = { ...here, root: "/usr/lib/node_modules/holdfast", cwd: "/users/u", isOnPath: true };
  const written = [
    ownCommand(here),
    ownCommand({ ...here, cwd: "/src/holdfast/docs" }),
    ownCommand({ ...here, root: installed, cwd: "/users/u/app/server" }),
    ownCommand({ ...here, root: "/users/u/.npm/_npx/1a/node_modules/holdfast", cwd: "/users/u" }),
    ownCommand(global),
    ownCommand({ ...here, cwd: "/src/holdfast-data" }),
    ownCommand({ ...here, root: "/src/hold fast", cwd: "/" }),
  ];
  assert.deepEqual(written, [
    "npx holdfast",
    "npx holdfast",
    "npx holdfast",
    "npx holdfast",
    "holdfast",
    "/usr/bin/node /src/holdfast/bin/holdfast.js",
    "/usr/bin/node '/src/hold fast/bin/holdfast.js'",
  ]);
});

test("a message names the data directory that it speaks of, unless the bare command would use it", () => {
  const screen = { write: () => true };
  const surroundings = {
    stdout: screen,
    stderr: screen,
    env: { HOLDFAST_DATA_DIR: "/data" },
    cwd: "/",
    home: "/users/u",
    platform: "linux",
    command: "npx holdfast",
    now: () => 0,
  } as const;
  assert.equal(commandsOn("/data", surroundings)("keys list"), "npx holdfast keys list");
  assert.equal(commandsOn("/my data", surroundings)("chat"), "npx holdfast chat --data-dir '/my data'");
});

test("an error from below the command line names the command as its user runs it", () => {
  const told = (text: string): string | undefined =>
    describeFailure(failure(text), { isDebug: false, command: "npx holdfast" }).text;
  assert.equal(
    told("see: holdfast doctor --data-dir /d"),
    "holdfast: see: npx holdfast doctor --data-dir /d",
  );
  assert.equal(told("see: npx holdfast keys list"), "holdfast: see: npx holdfast keys list");
});

test("what a start and a list print works when it is pasted into a shell", async (t) => {
  const cli = new Cli(t);
  const server = await cli.serve();
  const shell = (command: string): Promise<string> => inShell(t, command, cli.home);
  const said = server.stdout();
  const lineOf = (pattern: RegExp): string =>
    pattern.exec(said)?.[1] ?? assert.fail(`${String(pattern)} in ${said}`);

  const [key, ask] = [lineOf(/(export .*)$/m), lineOf(/(curl .*)$/m)];
  assert.match(await shell(`${key}\n${ask}`), /"content":"1 2 3 "/);
  assert.match((await cli.run(["chat", ...cli.inDataDir, "--no-tools", "-p", "count to 3"])).stdout, /1 2 3/);

  const listed = await cli.run(["inspect", ...cli.inDataDir]);
  const inspect = /^What was said: (.*)$/m.exec(listed.stderr)?.[1] ?? assert.fail(listed.stderr);
  assert.match(await shell(inspect), /> chunk 0 +request +"count to 3"/);

  const made = await cli.run(["keys", "create", ...cli.inDataDir]);
  const revoke = /^Revoke it with: (.*)$/m.exec(made.stderr)?.[1] ?? assert.fail(made.stderr);
  assert.match(await shell(revoke), /is revoked/);
});

test("npx runs the checkout: no build, and nothing but what npm ci has installed", async (t) => {
  const cli = new Cli(t);
  const offline = { npm_config_cache: join(cli.home, "npm"), npm_config_offline: "true" };
  const output = await inShell(t, "npx holdfast inspect --help", root, offline);
  assert.match(output, /^Usage: holdfast inspect /);
  assert.match(output, /^ {2}npx holdfast inspect$/m);
});

function inShell(
  t: TestContext,
  command: string,
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const path = `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`;
  const env = { ...inherited(), PATH: path, HOME: cwd, XDG_DATA_HOME: join(cwd, "share"), ...more };
  const options: ExecFileOptions = { cwd, env, signal: t.signal, timeout: PATIENCE_MS };
  return new Promise((resolve, reject) => {
    const child = execFile("bash", ["-c", command], options, (error, stdout, stderr) => {
      if (error === null) resolve(String(stdout));
      else reject(new Error(`${command}\n${String(stdout)}${String(stderr)}`, { cause: error }));
    });
    child.stdin?.end();
  });
}
