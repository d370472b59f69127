/**
 * `holdfast setup`: what it shows is what it writes, nothing else of the client's file is touched, and the undo gives it back.
 */
import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { CLAUDE } from "../../src/cli/setup/claude.ts";
import { undone } from "../../src/cli/setup/clients.ts";
import { keptPort } from "../kept-port.ts";
import { Cli } from "./cli-process.ts";

const SETTINGS = { url: "http://127.0.0.1:4600", apiKey: "key", model: "a/b" };

async function begin(t: TestContext) {
  const cli = new Cli(t);
  const { url, apiKey } = await cli.serve();
  const directory = join(cli.home, ".claude");
  const path = join(directory, "settings.json");
  const run = async (...args: readonly string[]) => {
    const done = await cli.run(["setup", "claude", ...args, ...cli.inDataDir]);
    assert.equal(done.code, 0, done.stderr);
    return done;
  };
  const env = { ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: apiKey };
  const models = {
    ANTHROPIC_MODEL: "rehearsal/rehearsal",
    ANTHROPIC_DEFAULT_HAIKU_MODEL: "rehearsal/rehearsal",
  };
  return { cli, run, directory, path, env: { ...env, ...models } };
}

test("it shows the settings and touches nothing; --write makes the file, for its user alone; --undo removes it", async (t) => {
  const { run, path, env } = await begin(t);
  const shown = await run();
  assert.deepEqual(JSON.parse(shown.stdout), { env });
  assert.match(shown.stderr, /setup claude --write/);
  assert.ok(!existsSync(path));
  await run("--write");
  assert.deepEqual(JSON.parse(readFileSync(path, "utf8")), { env });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  await run("--write", "--model", "rehearsal");
  await run("--undo");
  assert.deepEqual([existsSync(path), existsSync(`${path}.before-holdfast`)], [false, false]);
  assert.match((await run("--undo")).stderr, /Nothing to undo/);
});

test("a file that is there keeps its other settings, and comes back byte for byte and with its mode", async (t) => {
  const { run, path, directory, env } = await begin(t);
  mkdirSync(directory);
  const original =
    '{\n\t"theme": "dark",\n\t"env": { "ANTHROPIC_MODEL": "mine", "OTHER": "1" }, "hooks": {}\n}';
  writeFileSync(join(directory, "real.json"), original);
  chmodSync(join(directory, "real.json"), 0o644);
  symlinkSync("real.json", path);
  await run("--write");
  assert.equal(statSync(path).mode & 0o777, 0o600, "the API key is its user's alone");
  assert.deepEqual(JSON.parse(readFileSync(path, "utf8")), {
    theme: "dark",
    env: { ...env, OTHER: "1" },
    hooks: {},
  });
  await run("--undo");
  assert.equal(readFileSync(path, "utf8"), original);
  assert.equal(statSync(path).mode & 0o777, 0o644);
  assert.equal(readFileSync(join(directory, "real.json"), "utf8"), original, "a link stays one");
});

test("from a file that was changed since, only the settings are taken out, and those before them come back", () => {
  const before = '{"env":{"ANTHROPIC_MODEL":"mine"}}';
  const changed = JSON.stringify({ ...JSON.parse(CLAUDE.put(before, SETTINGS)), theme: "light" });
  const how = undone(CLAUDE, changed, before);
  assert.ok(how.kind === "edited");
  assert.deepEqual(JSON.parse(how.text), { theme: "light", env: { ANTHROPIC_MODEL: "mine" } });
  assert.deepEqual(undone(CLAUDE, undefined, before), { kind: "gone" });
  assert.deepEqual(undone(CLAUDE, CLAUDE.put(undefined, SETTINGS), undefined), {
    kind: "restored",
    text: undefined,
  });
});

test("settings of the user's own are never taken for ours, and a file that is no JSON is left alone", async (t) => {
  const { run, cli, path, directory } = await begin(t);
  mkdirSync(directory);
  const own = CLAUDE.put(undefined, SETTINGS);
  writeFileSync(path, own);
  assert.match((await run("--undo")).stderr, /Nothing to undo/);
  await run("--write");
  await run("--undo");
  assert.equal(readFileSync(path, "utf8"), own);
  writeFileSync(path, "{ // mine\n}");
  const shown = await run();
  assert.match(shown.stdout, /ANTHROPIC_BASE_URL/);
  assert.match(shown.stderr, /but --write would refuse: .*not a plain JSON object/);
  assert.doesNotMatch(shown.stderr, /Write it with/);
  const refused = await cli.run(["setup", "claude", "--write", ...cli.inDataDir]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /not a plain JSON object/);
  assert.deepEqual(
    [readFileSync(path, "utf8"), existsSync(`${path}.before-holdfast`)],
    ["{ // mine\n}", false],
  );
});

test("an API key that the server refuses is named, with what to do, and nothing is written", async (t) => {
  const { cli, path } = await begin(t);
  const wrong = { HOLDFAST_API_KEY: "a-well-formed-key-of-another-server" };
  for (const args of [[], ["--write"]]) {
    const { code, stdout, stderr } = await cli.run(["setup", "claude", ...args, ...cli.inDataDir], wrong);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /^holdfast: \S+ refuses the API key in HOLDFAST_API_KEY; set it to .*unset it.*\n$/);
  }
  assert.ok(!existsSync(path));
});

test("a model that the server does not have is named with those that it has, and nothing is written", async (t) => {
  const { cli, path, run } = await begin(t);
  for (const args of [[], ["--write"]]) {
    const asked = ["setup", "claude", "--model", "other/model", ...args, ...cli.inDataDir];
    const { code, stdout, stderr } = await cli.run(asked);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /has no model "other\/model" for this API key\. It has rehearsal\/rehearsal\.\n$/);
  }
  assert.ok(!existsSync(path));
  // By its short name it is the listed one.
  assert.doesNotMatch((await run("--write", "--model", "rehearsal")).stderr, /does not list/);
});

test("a model that its provider may have is written, and the doubt is said", async (t) => {
  const cli = new Cli(t);
  await cli.serve([], { ANTHROPIC_API_KEY: "of-the-provider" });
  const asked = ["setup", "claude", "--write", "--model", "anthropic/claude-of-tomorrow", ...cli.inDataDir];
  const { code, stderr } = await cli.run(asked);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /The server does not list anthropic\/claude-of-tomorrow, and passes it on/);
  assert.match(readFileSync(join(cli.home, ".claude", "settings.json"), "utf8"), /claude-of-tomorrow/);
});

test("a server that does not answer is written all the same, if the model is named, and it is said; one that is no Holdfast is not", async (t) => {
  const cli = new Cli(t);
  const env = { HOLDFAST_API_KEY: "a-well-formed-key-of-another-server" };
  const away = ["setup", "claude", "--write", "--url", `http://127.0.0.1:${await keptPort()}`];
  const path = join(cli.home, ".claude", "settings.json");
  const unnamed = await cli.run(away, env);
  assert.equal(unnamed.code, 1);
  assert.match(unnamed.stderr, /does not answer \(ECONNREFUSED\): start it, or name a model with --model/);
  assert.ok(!existsSync(path));
  const { code, stderr } = await cli.run([...away, "--model", "a/b"], env);
  assert.equal(code, 0, stderr);
  assert.match(
    stderr,
    /\(ECONNREFUSED\), so neither the API key nor the model was checked\. Start the server/,
  );
  assert.match(readFileSync(path, "utf8"), /"a\/b"/);

  const other = createServer((_, response) => response.end("hello"));
  t.after(() => other.close());
  const port = await keptPort();
  other.listen(port, "127.0.0.1");
  const named = ["setup", "codex", "--write", "--url", `http://127.0.0.1:${port}`, "--model", "a/b"];
  const foreign = await cli.run(named, env);
  assert.equal(foreign.code, 1);
  assert.match(foreign.stderr, /answers 200 without a list of models: is it a server of Holdfast\?/);
});

test("a server that a chat has started is shown with a warning, and never written into a client's file", async (t) => {
  const cli = new Cli(t);
  await cli.serve(["--exit-when-idle", "600"]);
  const shown = await cli.run(["setup", "claude", ...cli.inDataDir]);
  assert.deepEqual([shown.code, /ANTHROPIC_BASE_URL/.test(shown.stdout)], [0, true], shown.stderr);
  assert.match(shown.stderr, /--write would refuse: a chat has started the server .* serve --data-dir /);
  const refused = await cli.run(["setup", "claude", "--write", ...cli.inDataDir]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /a chat has started the server .* Start one that stays, with: .* serve /);
  assert.ok(!existsSync(join(cli.home, ".claude")));
});

test("without a server, and for a client that it does not know, it says what to do", async (t) => {
  const cli = new Cli(t);
  const absent = await cli.run(["setup", "claude", ...cli.inDataDir]);
  assert.deepEqual([absent.code, /no server runs on .*serve/.test(absent.stderr)], [1, true], absent.stderr);
  const unknown = await cli.run(["setup", "nobody", ...cli.inDataDir]);
  assert.deepEqual([unknown.code, /choose one of claude/.test(unknown.stderr)], [2, true], unknown.stderr);
});
