import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { parseConfig } from "../../src/cli/config-file.ts";
import { resolveSettings } from "../../src/cli/settings.ts";
import { isLoopback } from "../../src/node/loopback.ts";
import { duration, fileSize, type Surroundings, table, terminal, visible } from "../../src/cli/terminal.ts";
import { Cli } from "./cli-process.ts";

const screen = { write: () => true };

function surroundings(cwd: string, env: Record<string, string> = {}): Surroundings {
  return {
    stdout: screen,
    stderr: screen,
    env,
    cwd,
    home: "/users/u",
    platform: "linux",
    command: "holdfast",
    now: () => 0,
  };
}

test("every wrong field is refused by its name, with what it should be", () => {
  const cases: [string, RegExp][] = [
    ["{", /is not JSON/],
    ["[]", /the whole file must be an object/],
    ['{"port": "80"}', /"port" must be a whole number from 0 to 65535/],
    ['{"port": 70000}', /"port" must be .*, not 70000$/],
    ['{"prot": 80}', /"prot" is not known; did you mean "port"\?/],
    ['{"alowOrigins": []}', /"alowOrigins" is not known; did you mean "allowOrigins"\?/],
    ['{"zzzzzzzz": 1}', /"zzzzzzzz" is not known; known are host, port/],
    ['{"host": ""}', /"host" must be a text/],
    ['{"tls": {"cert": "a"}}', /"tls\.key" is missing/],
    ['{"tls": {"cert": "a", "key": "b", "ca": "c"}}', /"tls\.ca" is not known/],
    ['{"tls": "a"}', /"tls" must be an object/],
    ['{"allowHosts": "a"}', /"allowHosts" must be a list/],
    ['{"allowHosts": ["a", 1]}', /"allowHosts\[1\]" must be a text/],
    ['{"allowOrigins": ["https://a.example/x"]}', /"allowOrigins\[0\]" must be an origin/],
    ['{"logLevel": "loud"}', /"logLevel" must be one of trace/],
    ['{"retentionMs": 5}', /"retentionMs" must be a whole number, at least 60000/],
    ['{"responseTtlMs": 5}', /"responseTtlMs" must be a whole number, at least 60000/],
    ['{"sessionTtlMs": 7200001}', /"sessionTtlMs" must be a whole number from 1000 to 7200000/],
    ['{"apiKey": "x"}', /"apiKey" does not belong in a file; set HOLDFAST_API_KEY/],
  ];
  for (const [text, message] of cases) {
    assert.throws(() => parseConfig(text, "/etc/h.json"), { code: "invalid_argument", message }, text);
    assert.throws(() => parseConfig(text, "/etc/h.json"), { message: /^\/etc\/h\.json[ :]/ }, text);
  }
});

test("a whole config file, its paths relative to it", () => {
  const text = JSON.stringify({
    host: "0.0.0.0",
    port: 1,
    dataDir: "data",
    tls: { cert: "c.pem", key: "/k.pem" },
    allowHosts: ["h"],
    allowOrigins: ["https://a.example"],
    logLevel: "info",
    retentionMs: 60_000,
  });
  assert.deepEqual(parseConfig(text, "/etc/holdfast/h.json"), {
    host: "0.0.0.0",
    port: 1,
    dataDir: "/etc/holdfast/data",
    tls: { cert: "/etc/holdfast/c.pem", key: "/k.pem" },
    allowHosts: ["h"],
    allowOrigins: ["https://a.example"],
    logLevel: "info",
    retentionMs: 60_000,
  });
});

test("flags win over the environment, the environment over the file, the file over the defaults", (t) => {
  const cwd = mkdtempSync(join(tmpdir(), "holdfast-settings-"));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  const bare = resolveSettings({}, surroundings(cwd));
  assert.deepEqual([bare.host, bare.port, bare.retentionMs], ["127.0.0.1", 4600, 7_200_000]);
  assert.equal(bare.responseTtlMs, 30 * 24 * 60 * 60_000);
  assert.equal(bare.dataDir, "/users/u/.local/share/holdfast/server");
  writeFileSync(join(cwd, "holdfast.config.json"), '{"port": 1, "host": "file", "dataDir": "f"}');
  const env = { HOLDFAST_PORT: "2", HOLDFAST_HOST: "environment", HOLDFAST_DATA_DIR: "" };
  const file = resolveSettings({}, surroundings(cwd));
  assert.deepEqual([file.port, file.host, file.dataDir], [1, "file", join(cwd, "f")]);
  const both = resolveSettings({}, surroundings(cwd, env));
  assert.deepEqual([both.port, both.host, both.dataDir], [2, "environment", join(cwd, "f")]);
  const all = resolveSettings({ port: "3", dataDir: "d" }, surroundings(cwd, env));
  assert.deepEqual([all.port, all.host, all.dataDir], [3, "environment", join(cwd, "d")]);
});

test("wrong flags and variables are refused by their names", () => {
  const cwd = "/nowhere";
  const cases: [Parameters<typeof resolveSettings>[0], Record<string, string>, RegExp][] = [
    [{ port: "70000" }, {}, /^--port must be a whole number/],
    [{ port: "1e3" }, {}, /^--port/],
    [{}, { HOLDFAST_PORT: "x" }, /^HOLDFAST_PORT must be a whole number/],
    [{ tlsCert: "c" }, {}, /^--tls-cert and --tls-key/],
    [{ logLevel: "loud" }, {}, /^--log-level must be one of/],
    [{ allowOrigin: ["*"] }, {}, /^--allow-origin must be an origin/],
    [{ config: "c.json" }, {}, /^there is no config file \/nowhere\/c\.json/],
    [{}, { HOLDFAST_API_KEY: "short" }, /^HOLDFAST_API_KEY must have at least 20[^"]*$/],
  ];
  for (const [flags, env, message] of cases) {
    assert.throws(() => resolveSettings(flags, surroundings(cwd, env)), {
      code: "invalid_argument",
      message,
    });
  }
});

test("the user's data directory on each system", () => {
  const at = (platform: NodeJS.Platform, env: Record<string, string> = {}): string =>
    resolveSettings({}, { ...surroundings("/nowhere", env), platform }).dataDir;
  assert.equal(at("darwin"), "/users/u/Library/Application Support/holdfast/server");
  assert.equal(at("linux", { XDG_DATA_HOME: "/x" }), "/x/holdfast/server");
  assert.equal(at("linux", { XDG_DATA_HOME: "relative" }), "/users/u/.local/share/holdfast/server");
  assert.equal(at("win32", { LOCALAPPDATA: "/local" }), "/local/holdfast/server");
});

test("what only this machine can reach", () => {
  const loopback = ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "::1", "[::1]", "::ffff:127.0.0.1"];
  const open = ["0.0.0.0", "::", "10.0.0.1", "127.example.com", "localhost.example.com", "::ffff:10.0.0.1"];
  assert.deepEqual(
    loopback.filter((host) => !isLoopback(host)),
    [],
  );
  assert.deepEqual(open.filter(isLoopback), []);
});

test("a config file that is wrong stops the command with exit code 2 and names the field", async (t) => {
  const cli = new Cli(t);
  writeFileSync(join(cli.home, "holdfast.config.json"), '{"prot": 1}');
  for (const command of [["serve"], ["keys", "list"], ["inspect"]]) {
    const { code, stdout, stderr } = await cli.run(command);
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(
      stderr,
      /^holdfast: .*holdfast\.config\.json: "prot" is not known; did you mean "port"\?\n$/,
    );
  }
});

test("text from data cannot steer the terminal; colours need a terminal and no NO_COLOR", () => {
  assert.equal(visible("a\nb\u001b[2J\u202e\tc"), "a⏎b\\u{1b}[2J\\u{202e} c");
  assert.equal(visible("👩‍🚀 ok"), "👩‍🚀 ok");
  const painted = (isTTY: boolean, env: Record<string, string>): string =>
    terminal({ ...surroundings("/", env), stdout: { ...screen, isTTY } }).bold("x");
  assert.equal(painted(true, {}), "\u001b[1mx\u001b[22m");
  assert.equal(painted(true, { NO_COLOR: "1" }), "x");
  assert.equal(painted(false, {}), "x");
});

test("tables, durations and sizes as people read them", () => {
  assert.deepEqual(
    table(
      ["A", "BB"],
      [
        ["xxx", "1"],
        ["👩‍🚀", ""],
      ],
      { bold: (text) => text },
    ),
    ["A    BB", "xxx  1", "👩‍🚀"],
  );
  const durations = [0, 999, 1_000, 119_999, 7_200_000, 7_199_999, 90_000_000].map(duration);
  assert.deepEqual(durations, ["0 s", "0 s", "1 s", "1 min 59 s", "2 h", "1 h 59 min", "1 d 1 h"]);
  assert.deepEqual([0, 1_023, 1_024, 3 * 1_048_576].map(fileSize), ["0 B", "1023 B", "1.0 KiB", "3.0 MiB"]);
});
