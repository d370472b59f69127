/**
 * The commands of the documents, run as they stand there: in a shell, with a home of its own. What would take minutes
 * is run in a smaller size, or names the test that runs it.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";
import { stopServer } from "../cli/background-server.ts";
import { inherited } from "../inherited.ts";
import { blocksRunBy, documents, notRun } from "./blocks.ts";
import { repository } from "./entry-points.ts";

/** Generous: the longest takes some seconds on an idle machine. */
const PATIENCE_MS = 240_000;

interface How {
  /** What is done to the command so that it can be run here; nothing when it is left out. */
  readonly as?: (command: string) => string;
  /** Standard input. */
  readonly input?: string;
  /** A server: it is up when it says this, and is then stopped. */
  readonly untilItSays?: RegExp;
  /** What it prints. */
  readonly prints?: RegExp;
  /** A test that runs it, and says so in the words of the document. */
  readonly elsewhere?: string;
}

const anyPort = (command: string): string => `${command} --port 0`;
const isUp = /listening on .*[^]* docs /;

const HOW: Readonly<Record<string, How>> = {
  "npm start": { as: (command) => `${command} -- --port 0`, untilItSays: isUp },
  "npx holdfast demo": { elsewhere: "test/cli/demo.test.ts" },
  "npm run sim -- --seeds 100": { as: (command) => command.replace("100", "3"), prints: /\bsteps\b/ },
  "npm run sim:mutants": { as: (command) => `${command} -- --only A6`, prints: /caught by seed/ },
  "npm run kill -- --cycles 50": {
    as: (command) => command.replace("50", "2"),
    prints: /no violation|nothing/i,
  },
  "npm run power-cut -- --cuts 10": { elsewhere: "test/power-cut/power-cut.test.ts" },
  "npm run harness -- --own": { elsewhere: "test/harness/harness.test.ts" },
  "npm run harness -- --url http://127.0.0.1:4600 --api-key $HOLDFAST_API_KEY": {
    elsewhere: "test/harness/harness.test.ts",
  },
  "npm run bench": { elsewhere: "test/bench.test.ts" },
  "npm run bench -- --only delivery,latency": { elsewhere: "test/bench.test.ts" },
  "npm run bench -- --rounds 3 --json result.json": { elsewhere: "test/bench.test.ts" },
  "npm run bench -- --quick": { elsewhere: "test/bench.test.ts" },
  "npm run build": { elsewhere: "test/package.test.ts" },
  "npx node examples/tool-over-a-cut.ts": {
    prints: /^deploy runs\nthe server has a result: execClientMessage\nthe stream ended: completed\n$/,
  },
  "npx node examples/cluster.ts": {
    as: (command) => `HOLDFAST_CLUSTER_PORT=0 exec ${command}`,
    untilItSays: /Kill a node while it counts/,
  },
  "npx holdfast chat": { input: "say Ahoy.\n", prints: /Ahoy\./ },
  'git diff | npx holdfast chat -p "What is wrong with this?" --no-tools': {
    prints: /What is wrong with this\?/,
  },
  'npx holdfast chat -p "Run the tests and fix what fails" --allow shell --allow write --json': {
    prints: /"type":"result","outcome":"completed"/,
  },
  "npx holdfast serve": { as: anyPort, untilItSays: isUp },
  "npx holdfast serve --port 8080 --data-dir ./data": { as: anyPort, untilItSays: isUp },
  "HOLDFAST_API_KEY=... npx holdfast serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --allow-host agents.example.com":
    {
      as: (command) => anyPort(command.replace("...", "0123456789abcdef0123456789abcdef")),
      untilItSays: /listening on https:.*[^]* docs /,
    },
};

/** A shell in a home of its own, and in a workspace where the package is installed. */
function start(t: TestContext, command: string): ChildProcess {
  const home = mkdtempSync(join(tmpdir(), "holdfast-commands-"));
  const workspace = join(home, "workspace");
  const bin = join(workspace, "node_modules/.bin");
  mkdirSync(bin, { recursive: true });
  symlinkSync(join(repository, "bin/holdfast.js"), join(bin, "holdfast"));
  const fixtures = join(repository, "test/transport/fixtures");
  copyFileSync(join(fixtures, "test-cert.pem"), join(workspace, "cert.pem"));
  copyFileSync(join(fixtures, "test-key.pem"), join(workspace, "key.pem"));
  execFileSync("git", ["init", "-q"], { cwd: workspace });
  t.after(async () => {
    await stopServer(join(home, ".local/share/holdfast/server"));
    rmSync(home, { recursive: true, force: true });
  });
  const path = [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter);
  return spawn("bash", ["-c", command], {
    // npm's scripts and the examples are those of the checkout.
    cwd: command.includes("holdfast") ? workspace : repository,
    env: { ...inherited(), PATH: path, HOME: home },
    stdio: ["pipe", "pipe", "inherit"],
    // A group of its own: what a shell has started is stopped with it.
    detached: true,
    timeout: PATIENCE_MS,
  });
}

async function untilItSays({ stdout, pid = 0 }: ChildProcess, isSaid: RegExp): Promise<void> {
  assert.ok(stdout !== null);
  let said = "";
  try {
    for await (const piece of stdout.setEncoding("utf8")) {
      said += String(piece);
      if (isSaid.test(said)) return;
    }
    assert.fail(`it ended and had said: ${said}`);
  } finally {
    process.kill(-pid, "SIGTERM");
  }
}

/** What is said in `sh` blocks, one command each. */
const commands = new Set(
  blocksRunBy("test/docs/commands.test.ts")
    .flatMap((block) => block.text.split("\n"))
    .flatMap((line) => line.replace(/#.*$/, "").split("&&"))
    .map((command) => command.trim())
    .filter((command) => command !== ""),
);

for (const command of commands) {
  if (notRun.some(({ what }) => what === command)) continue;
  test(`the documents say: ${command}`, async (t) => {
    const how = HOW[command];
    assert.ok(how !== undefined, "no test runs this command; add it here, or to the list of CONTRIBUTING.md");
    if (how.elsewhere !== undefined) {
      assert.ok(readFileSync(join(repository, how.elsewhere), "utf8").includes(`\`${command}\``));
      return;
    }
    const child = start(t, how.as?.(command) ?? command);
    const exit = once(child, "exit");
    child.stdin?.end(how.input ?? "");
    if (how.untilItSays !== undefined) {
      await untilItSays(child, how.untilItSays);
      await exit;
      return;
    }
    assert.ok(child.stdout !== null && how.prints !== undefined);
    const printed = await text(child.stdout);
    assert.match(printed, how.prints);
    await exit;
    assert.equal(child.exitCode, 0, printed);
  });
}

test("every command that is run here is one of the documents", () => {
  for (const command of Object.keys(HOW)) assert.ok(commands.has(command), command);
});

test("the README's test command is what has to pass before a merge", () => {
  const readme = documents.find(({ path }) => path === "README.md")?.text ?? "";
  const gate = readFileSync(join(repository, ".ci/run"), "utf8");
  for (const command of ["npm ci", "npm test"]) {
    assert.ok(readme.includes(command) && gate.split("\n").includes(command), command);
  }
});
