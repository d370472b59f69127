/**
 * The rules of the architecture and of style, checked on every file of the repository.
 *
 * Each rule is also run on a sample that breaks it: a rule that cannot fail is no rule.
 */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { BUNDLED } from "../scripts/bundled.ts";
import { checkCodeSize, tokensByFolder } from "./tidy/code-size.ts";
import {
  checkBrowserImports,
  checkImportTable,
  checkPackages,
  checkSimulatedTurn,
  importsOf,
  importTable,
} from "./tidy/imports.ts";
import { checkDependencies, checkLockFile, checkMachineTraces, parseManifest } from "./tidy/repository.ts";
import {
  checkConsole,
  checkCuts,
  checkLength,
  checkNames,
  checkNodeGlobals,
  checkOpening,
  checkPurity,
  checkSwitchedOff,
  checkUnfinished,
  styleRules,
} from "./tidy/rules.ts";
import { blank, describeViolation, readSource, repositoryFiles, source } from "./tidy/source.ts";
import type { Source, Violation } from "./tidy/source.ts";

const root = `${import.meta.dirname}/..`;
const paths = repositoryFiles(root);
const sources = paths
  .filter((path) => /^(?:src|web|test|scripts|bench|examples)\/.*\.[mc]?[jt]sx?$/.test(path))
  .map((path) => readSource(root, path));

function assertNone(violations: readonly Violation[]): void {
  assert.deepEqual(violations.map(describeViolation), []);
}

/** The lines at which a rule objects to a sample. */
function linesOf(rule: (file: Source) => Violation[], path: string, text: string): number[] {
  return rule(source(path, text)).map(({ line }) => line);
}

test("imports follow the table of the architecture", () => {
  assertNone(sources.flatMap(checkImportTable));
});

test("the import table names only folders that it knows", () => {
  const known = Object.keys(importTable);
  for (const [folder, reach] of Object.entries(importTable)) {
    if (reach === "anything") continue;
    for (const target of [...reach.may, ...(reach.types ?? [])]) {
      assert.ok(known.includes(target), `${folder} may import ${target}, which is not in the table`);
    }
  }
});

test("the simulator decides nothing for a turn: it runs what ships", () => {
  assertNone(sources.flatMap(checkSimulatedTurn));
  const bad: [string, string][] = [
    ["test/simulation/device.ts", '\nimport { next } from "../../src/turn/next.ts";'],
    ["test/simulation/log-checks.ts", '\nimport { logged } from "../../src/turn/facts.ts";'],
    ["test/simulation/scenario.ts", '\nimport { Turn } from "../../src/agent/turn.ts";'],
    [
      "test/simulation/agent.ts",
      '\nimport type { ExecServerMessage } from "../../src/protocol/messages.ts";',
    ],
    ["test/simulation/chaos.ts", '\nimport { createAgent } from "../../src/agent/index.ts";'],
  ];
  for (const [path, text] of bad) assert.deepEqual(linesOf(checkSimulatedTurn, path, text), [2], text);
});

test("browser code imports nothing of Node", () => {
  assertNone(sources.flatMap(checkBrowserImports));
});

test("the published source imports only what package.json installs with it", () => {
  const manifest = parseManifest(readFileSync(`${root}/package.json`, "utf8"));
  const installed = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
  const peers = Object.keys(manifest.peerDependencies);
  assertNone(sources.flatMap((file) => checkPackages(file, [...installed, ...BUNDLED], peers)));
});

for (const rule of styleRules) {
  test(`every file passes ${rule.name}`, () => {
    assertNone(sources.flatMap((file) => rule(file)));
  });
}

test("the source is not larger than its bound", () => {
  assertNone(checkCodeSize(sources));
});

test("no file tells which machine it was written on", () => {
  assertNone(paths.flatMap((path) => checkMachineTraces(readSource(root, path))));
});

test("the lock file has no download addresses", () => {
  assertNone(checkLockFile(readSource(root, "package-lock.json")));
});

test("each dependency is pinned and has its reason in docs/decisions", () => {
  const decisions = globSync("docs/decisions/*.md", { cwd: root })
    .map((path) => readFileSync(`${root}/${path}`, "utf8"))
    .join("\n");
  assertNone(checkDependencies(readSource(root, "package.json"), decisions));
});

test("the rules saw the repository", () => {
  assert.ok(sources.length > 20, `only ${String(sources.length)} source files found`);
  for (const path of ["package-lock.json", "src/protocol/frames.ts", "test/tidy.test.ts"]) {
    assert.ok(paths.includes(path) && existsSync(`${root}/${path}`), `${path} was not read`);
  }
});

test("blanking hides comments, strings, templates and regular expressions, and nothing else", () => {
  const hidden: [string, string][] = [
    ["a // b\nc", "a     \nc"],
    ["a /* b\n c */ d", "a     \n      d"],
    ['"a\\"b" + c', '"    " + c'],
    ["`a${b}c${{ d: `e` }}f`", "` ${b} ${{ d: ` ` }} `"],
    ['x = /[/"]/g; y', "x = /    /g; y"],
    ["a / b / c // d", "a / b / c     "],
  ];
  for (const [text, code] of hidden) assert.equal(blank(text), code);
});

test("every form of import is seen, and none that is only text", () => {
  const text = [
    'import a, { b } from "./1.ts";',
    'import type { c } from "./2.ts";',
    'export * from "./3.ts";',
    'export type { d } from "./4.ts";',
    'import "./5.ts";',
    'const e = await import("./6.ts");',
    "import {\n  f, // from 'x'\n  type g,\n} from './7.ts';",
    "await import(`./${a}.ts`);",
    '// import h from "./8.ts";',
    "const text = 'import i from \"./9.ts\"';",
    'const from = "./10.ts"; export { from };',
  ].join("\n");
  assert.deepEqual(
    importsOf(source("src/core/sample.ts", text)).map(({ specifier, typeOnly }) => [specifier, typeOnly]),
    [
      ["./1.ts", false],
      ["./2.ts", true],
      ["./3.ts", false],
      ["./4.ts", true],
      ["./5.ts", false],
      ["./6.ts", false],
      ["./7.ts", false],
      [undefined, false],
    ],
  );
});

test("an import against the table is named with its line", () => {
  const bad: [string, string][] = [
    ["src/gateway/a.ts", '\nimport { serve } from "../server/index.ts";'],
    ["src/gateway/a.ts", '\nimport { openStore } from "../store/index.ts";'],
    ["src/core/a.ts", '\nimport type { Store } from "../store/index.ts";'],
    ["src/core/deep/a.ts", '\nexport { x } from "../../client/index.ts";'],
    ["src/server/a.ts", '\nawait import("../client/index.ts");'],
    ["src/protocol/a.ts", '\nimport "holdfast/core";'],
    ["src/tools/a.ts", '\nimport { type Client } from "../client/index.ts";'],
    ["src/client/a.ts", '\nimport { world } from "../../test/simulation/world.ts";'],
    ["src/client/a.ts", "\nawait import(path);"],
  ];
  for (const [path, text] of bad) assert.deepEqual(linesOf(checkImportTable, path, text), [2], text);
  assert.deepEqual(linesOf(checkImportTable, "src/other/a.ts", ""), [1]);
  assert.deepEqual(linesOf(checkImportTable, "src/a.ts", ""), [1]);
  const good: [string, string][] = [
    ["src/gateway/a.ts", 'import type { TableStore } from "../store/index.ts";'],
    ["src/tools/a.ts", 'import type { Client } from "../client/index.ts";'],
    ["src/cli/a.ts", 'import { serve } from "../server/index.ts";'],
    ["src/core/a.ts", 'import { assert } from "./assert.ts";'],
    ["test/core/a.test.ts", 'import { step } from "../../src/core/outbox.ts";'],
  ];
  for (const [path, text] of good) assert.deepEqual(linesOf(checkImportTable, path, text), [], text);
});

test("Node in browser code is named with its line", () => {
  const nodeImport = '\nimport { hkdfSync } from "node:crypto";';
  assert.deepEqual(linesOf(checkBrowserImports, "src/client/a.ts", nodeImport), [2]);
  assert.deepEqual(linesOf(checkBrowserImports, "src/sealing/a.ts", '\nimport "fs";'), [2]);
  assert.deepEqual(linesOf(checkBrowserImports, "src/sealing/a.ts", '\nimport "./node-crypto.ts";'), [2]);
  assert.deepEqual(linesOf(checkBrowserImports, "src/sealing/node.ts", nodeImport), []);
  assert.deepEqual(linesOf(checkBrowserImports, "src/server/a.ts", nodeImport), []);
  const globals = "\nconst a = Buffer.from(b);\nlet c: NodeJS.Timeout;\nif (process.env) d();";
  assert.deepEqual(linesOf(checkNodeGlobals, "src/transport/a.ts", globals), [2, 3, 4]);
  assert.deepEqual(linesOf(checkNodeGlobals, "src/transport/a.ts", "stream.process(); // Buffer"), []);
  assert.deepEqual(linesOf(checkNodeGlobals, "src/store/a.ts", globals), []);
});

test("a package that is not installed with ours is named with its line", () => {
  const text = 'import "node:fs";\nimport "@bufbuild/protobuf/wire";\nimport "fast-check";';
  const rule = (file: Source): Violation[] => checkPackages(file, ["@bufbuild/protobuf"], ["react", "ai"]);
  assert.deepEqual(linesOf(rule, "src/server/a.ts", text), [3]);
  const peers =
    'import type { UIMessage } from "ai";\nimport { useMemo } from "react";\nimport { streamText } from "ai";';
  assert.deepEqual(linesOf(rule, "src/react/a.ts", peers), [3]);
  assert.deepEqual(linesOf(rule, "src/ai-sdk/a.ts", peers), [2, 3]);
});

test("a clock, randomness or waiting in core or turn is named with its line", () => {
  const impure = [
    "Date.now();",
    "new Date();",
    "Math.random();",
    "setTimeout(go, 1);",
    "performance.now();",
    "crypto.getRandomValues(a);",
    "fetch(url);",
    "process.exit();",
    "async function go() {}",
    "await go();",
    "let p: Promise<void>;",
    "globalThis.Date;",
    "`${Date.now()}`;",
  ];
  const text = `/** Date, await, Promise */\n${impure.join("\n")}`;
  for (const path of ["src/core/a.ts", "src/turn/a.ts"]) {
    assert.deepEqual(
      linesOf(checkPurity, path, text),
      impure.map((_, index) => index + 2),
    );
  }
  assert.deepEqual(linesOf(checkPurity, "src/client/a.ts", text), []);
  assert.deepEqual(linesOf(checkPurity, "src/core/a.ts", "state.fetch; Math.max(1); const dated = 1;"), []);
});

test("a file that is too long, unnamed or unexplained is found", () => {
  assert.deepEqual(linesOf(checkLength, "src/core/a.ts", "x\n".repeat(401)), [401]);
  assert.deepEqual(linesOf(checkLength, "src/core/a.ts", "x\n".repeat(400)), []);
  assert.deepEqual(linesOf(checkLength, "src/protocol/gen/a.ts", "x\n".repeat(401)), []);
  assert.deepEqual(linesOf(checkOpening, "src/core/a.ts", "// a\n"), [1]);
  assert.deepEqual(linesOf(checkOpening, "src/cli/a.ts", "#!/usr/bin/env node\n/** a */"), []);
  assert.deepEqual(linesOf(checkOpening, "src/core/index.ts", "export {};"), []);
  for (const path of [
    "src/core/utils.ts",
    "src/core/helpers/a.ts",
    "test/common.ts",
    "src/core/types.ts",
    "src/core/StreamManager.ts",
    "src/core/stream-manager.ts",
    "src/core/StoreImpl.ts",
    "src/core/store-impl.ts",
  ]) {
    assert.deepEqual(linesOf(checkNames, path, ""), [1], path);
  }
  assert.deepEqual(linesOf(checkNames, "src/core/a.ts", "\nexport class StreamManager {}"), [2]);
  assert.deepEqual(linesOf(checkNames, "src/core/simplify.ts", "class Implied {}"), []);
});

test("a source that is too large is found; comments, tests and generated code do not count", () => {
  const files = [
    source("src/core/a.ts", "/** a */\na(1);\n"),
    source("src/core/deep/b.ts", "b();"),
    source("src/turn/c.ts", "`${c}`;"),
    source("src/protocol/gen/d.ts", "d();"),
    source("test/core/e.ts", "e();"),
  ];
  assert.deepEqual(
    [...tokensByFolder(files)],
    [
      ["src/core", 9],
      ["src/turn", 4],
    ],
  );
  assert.equal(checkCodeSize(files, 12).length, 1);
  assert.deepEqual(checkCodeSize(files, 13), []);
});

test("what is unfinished, switched off or chatty is found", () => {
  assert.deepEqual(linesOf(checkUnfinished, "src/core/a.ts", "\n// TODO: later"), [2]);
  assert.deepEqual(linesOf(checkUnfinished, "test/core/a.ts", "\n/* FIXME */"), [2]);
  // A kind of blob of the protocol is called so; nothing else may be.
  assert.deepEqual(linesOf(checkUnfinished, "src/core/a.ts", "BlobKind.TODO\nother.TODO\nTODO"), [2, 3]);
  const off = [
    "test.only('a');",
    "it.skip('a');",
    "t.skip();",
    "test('a', { skip: true }, f);",
    "test.todo();",
  ];
  assert.deepEqual(linesOf(checkSwitchedOff, "test/a.test.ts", off.join("\n")), [1, 2, 3, 4, 5]);
  assert.deepEqual(linesOf(checkSwitchedOff, "test/a.test.ts", "reader.skip(4); '.only'"), []);
  assert.deepEqual(linesOf(checkConsole, "src/core/a.ts", "\nconsole.error(x); // console.log"), [2]);
});

test("a cut that may leave half of a character is found", () => {
  const cuts = [
    "text.slice(0, LINE_CHARS_MAX - 1);",
    "a.slice(-LIMITS.messageCharsMax);",
    "b.slice(0, charsMax);",
  ];
  assert.deepEqual(linesOf(checkCuts, "src/core/a.ts", cuts.join("\n")), [1, 2, 3]);
  const whole =
    "text.slice(0, cutAt(text, LINE_CHARS_MAX)); lines.slice(-LINES_MAX); firstChars(a, charsMax);";
  assert.deepEqual(linesOf(checkCuts, "src/core/a.ts", whole), []);
});

test("traces of a machine, download addresses and unexplained dependencies are found", () => {
  // Put together here, so that this file is clean by its own rule and by others'.
  const traces = [
    ["cd ", "work", "main"],
    ['"', "root", ".npmrc"],
    ["", "home", "ada", "x"],
  ].map((parts) => parts.join("/"));
  traces.push(["https:", "", ["registry", "npmjs", "org"].join("."), "x"].join("/"));
  assert.deepEqual(linesOf(checkMachineTraces, "docs/a.md", traces.join("\n")), [1, 2, 3, 4]);
  assert.deepEqual(linesOf(checkMachineTraces, "docs/a.md", "src/work/a ./root/b /workspace /homes/a"), []);
  assert.deepEqual(linesOf(checkLockFile, "package-lock.json", '{\n "resolved": "https:"\n}'), [2]);
  const manifest = '{"dependencies": {\n"a": "1.0.0",\n"b": "^1.0.0"},\n"devDependencies": {"c": "1.0.0"}}';
  const rule = (file: Source): Violation[] => checkDependencies(file, "`a` and `b` are needed");
  assert.deepEqual(linesOf(rule, "package.json", manifest), [3, 4]);
});
