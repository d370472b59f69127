/**
 * The help texts, and that docs/CLI.md says the same: every command and flag of the one is in the other.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Command } from "commander";
import { program } from "../../src/cli/program.ts";
import { Cli } from "./cli-process.ts";

const root = join(import.meta.dirname, "../..");
const screen = { write: () => true };
const holdfast = program({
  stdout: screen,
  stderr: screen,
  env: {},
  cwd: "/",
  home: "/",
  platform: "linux",
  command: "holdfast",
  now: () => 0,
});

/** `keys create` and its like: the commands that do something. */
function leaves(command: Command, path: readonly string[] = []): readonly (readonly [string, Command])[] {
  if (command.commands.length === 0) return [[path.join(" "), command]];
  return command.commands.flatMap((sub) => leaves(sub, [...path, sub.name()]));
}

/** The part of the document that begins with a heading of this command. */
function sectionOf(name: string): string {
  const text = readFileSync(join(root, "docs/CLI.md"), "utf8");
  const section = text.split(/^## /m).find((part) => part.startsWith(`\`holdfast ${name}\``));
  assert.ok(section !== undefined, `docs/CLI.md has no section \`holdfast ${name}\``);
  return section;
}

const flagsIn = (text: string): readonly string[] =>
  [...new Set([...text.matchAll(/(?<![\w-])--[a-z][a-z-]+/g)].map(([flag]) => flag))].toSorted();

for (const [name, command] of leaves(holdfast)) {
  test(`docs/CLI.md has every flag of holdfast ${name}, and no other`, () => {
    const inHelp = command.options.map(({ long }) => long ?? "").toSorted();
    const rows = sectionOf(name)
      .split("\n")
      .filter((line) => line.startsWith("| `-"));
    assert.deepEqual(flagsIn(rows.map((row) => row.split("|")[1]).join("\n")), inHelp);
    assert.deepEqual(
      flagsIn(sectionOf(name)).filter((flag) => !inHelp.includes(flag) && flag !== "--help"),
      [],
    );
  });
}

test("docs/CLI.md has every environment variable that the source reads", () => {
  const text = readFileSync(join(root, "docs/CLI.md"), "utf8");
  const sources = globSync("src/cli/*.ts", { cwd: root }).map((path) =>
    readFileSync(join(root, path), "utf8"),
  );
  const names = new Set(sources.flatMap((source) => source.match(/\bHOLDFAST_[A-Z_]+\b/g) ?? []));
  assert.ok(names.size >= 6);
  for (const name of names) assert.ok(text.includes(`\`${name}\``), `${name} is not in docs/CLI.md`);
});

test("--help and --version go to standard output with exit code 0, for every command", async (t) => {
  const cli = new Cli(t);
  const helps = [[], ["serve"], ["keys"], ["keys", "revoke"], ["inspect"], ["doctor"]].map(
    async (command) => {
      const { code, stdout, stderr } = await cli.run([...command, "--help"]);
      assert.deepEqual([code, stderr], [0, ""]);
      assert.ok(stdout.startsWith(`Usage: ${["holdfast", ...command].join(" ")} `));
      assert.ok(!stdout.includes("\u001b"));
    },
  );
  await Promise.all(helps);
  const { code, stdout } = await cli.run(["--version"]);
  assert.equal(code, 0);
  assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
});

test("chat --help does not promise a config file that it does not take", () => {
  const standards = new Map(
    leaves(holdfast).map(([name, command]) => [
      name,
      command.options.find(({ long }) => long === "--config")?.description ?? "",
    ]),
  );
  assert.match(standards.get("serve") ?? "", /default: holdfast\.config\.json in the working directory/);
  assert.match(standards.get("chat") ?? "", /default: none; /);
});

test("what is not understood is exit code 2 and a suggestion, on standard error", async (t) => {
  const cli = new Cli(t);
  const cases: [string[], RegExp][] = [
    [["srve"], /^holdfast: unknown command 'srve'\n\(Did you mean serve\?\)/],
    [["keys", "creat"], /^holdfast: unknown command 'creat'\n\(Did you mean create\?\)/],
    [["serve", "--prot", "1"], /^holdfast: unknown option '--prot'\n\(Did you mean --port\?\)/],
    [["keys", "revoke"], /^holdfast: missing required argument 'id'/],
    [["serve", "--port", "x"], /^holdfast: --port must be a whole number from 0 to 65535, not "x"\n$/],
    [[], /^Usage: holdfast/],
  ];
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await cli.run(args);
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, message);
    assert.ok(!/^ +at /m.test(stderr), "no stack trace");
  }
});

test("HOLDFAST_DEBUG=1 shows where it happened", async (t) => {
  const cli = new Cli(t);
  const { stderr } = await cli.run(["serve", "--port", "x"], { HOLDFAST_DEBUG: "1" });
  assert.match(stderr, /^ +at /m);
});
