/**
 * `holdfast setup codex` and `opencode`: what each file is after it, that a second time changes nothing, and that the undo gives it back.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as fc from "fast-check";
import { type ClientSetup, undone } from "../../src/cli/setup/clients.ts";
import { CODEX } from "../../src/cli/setup/codex.ts";
import { OPENCODE } from "../../src/cli/setup/opencode.ts";
import { Cli } from "./cli-process.ts";

const SETTINGS = { url: "http://127.0.0.1:4600", apiKey: "hf_key", model: "acme/one" };
const OTHER = { url: "http://10.0.0.1:80", apiKey: "hf_other", model: 'a "b" \\c' };

const TOML = `# mine
model = "gpt-5"
approval_policy = "never"
"model_provider" = "openai"

[profiles.fast]
model = "small"
`;
const JSONS = '{\n    "theme": "dark",\n    "model": "a/b",\n    "provider": { "a": { "npm": "x" } }\n}';

const FILES: readonly (readonly [string, ClientSetup, readonly (string | undefined)[]])[] = [
  ["codex", CODEX, [undefined, "", "a = 1", TOML, '[t]\nmodel = "x"\n']],
  ["opencode", OPENCODE, [undefined, "{}", JSONS]],
];

for (const [name, client, texts] of FILES) {
  test(`${name}: the settings are found as they were put, twice is once, and the undo gives every file back`, () => {
    for (const before of texts) {
      const once = client.put(before, SETTINGS);
      assert.deepEqual(client.found(once), SETTINGS);
      assert.equal(client.put(once, SETTINGS), once);
      assert.deepEqual(client.found(client.put(once, OTHER)), OTHER);
      assert.deepEqual(undone(client, client.put(once, OTHER), before), { kind: "restored", text: before });
      assert.equal(client.found(before ?? "{}"), undefined);
    }
  });
}

test("codex: choices of another model stand aside, tables stay, and a file that was changed since keeps the change", () => {
  const put = CODEX.put(TOML, SETTINGS);
  assert.match(put, /^model = "acme\/one"$/m);
  assert.equal(put.match(/^"?model(?:_provider)?"? =/gm)?.length, 3, "ours, and the one of the profile");
  const how = undone(CODEX, `${put}\n[new]\nx = 1\n`, TOML);
  assert.ok(how.kind === "edited");
  assert.equal(how.text, `${TOML}\n[new]\nx = 1\n`);
  assert.throws(() => CODEX.put('[model_providers.holdfast]\nname = "x"\n', SETTINGS), /of its own/);
});

test("opencode: other providers stay, and the model before it is chosen again", () => {
  const changed = JSON.stringify({ ...JSON.parse(OPENCODE.put(JSONS, SETTINGS)), share: "disabled" });
  const how = undone(OPENCODE, changed, JSONS);
  assert.ok(how.kind === "edited");
  assert.deepEqual(JSON.parse(how.text), { ...JSON.parse(JSONS), share: "disabled" });
  assert.throws(() => OPENCODE.put("{ // mine\n}", SETTINGS), /not a plain JSON object/);
});

test("codex: whatever lines a file has, they are there again", () => {
  const line = fc.constantFrom(
    'model = "x"',
    "[a.b]",
    "# model = 1",
    "",
    'model_provider="y"',
    "x = [1]",
    ' model = "z"',
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
      const before = lines.map((text) => `${text}\n`).join("");
      const put = CODEX.put(before, SETTINGS);
      assert.equal(CODEX.taken(put, before), before);
      const root = put.split(/^\[/m)[0] ?? "";
      assert.equal(root.match(/^[ \t]*"?model"?[ \t]*=/gm)?.length, 1, "one model");
    }),
  );
});

test("holdfast setup: codex and opencode are written where these clients look, and undone", async (t) => {
  const cli = new Cli(t);
  const { url, apiKey } = await cli.serve();
  const places = {
    codex: [".codex", "config.toml"],
    opencode: [".config", "opencode", "opencode.json"],
  } as const;
  for (const [name, client] of [
    ["codex", CODEX],
    ["opencode", OPENCODE],
  ] as const) {
    const done = await cli.run(["setup", name, "--write", ...cli.inDataDir]);
    assert.equal(done.code, 0, done.stderr);
    const path = join(cli.home, ...places[name]);
    assert.deepEqual(client.found(readFileSync(path, "utf8")), { url, apiKey, model: "rehearsal/rehearsal" });
    const gone = await cli.run(["setup", name, "--undo", ...cli.inDataDir]);
    assert.match(gone.stderr, /^Removed .*\.$/m);
  }
});
