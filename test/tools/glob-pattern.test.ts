import assert from "node:assert/strict";
import { test } from "node:test";
import { compileGlob } from "../../src/tools/glob-pattern.ts";
import { IgnoreRules, parseIgnoreFile } from "../../src/tools/ignore-rules.ts";

test("globs match whole paths", () => {
  const table: readonly (readonly [glob: string, yes: readonly string[], no: readonly string[]])[] = [
    ["*.ts", ["a.ts"], ["a.tsx", "d/a.ts", ".a.ts"]],
    ["**/*.ts", ["a.ts", "d/e/a.ts"], ["d/.e/a.ts"]],
    ["src/**", ["src/a", "src/b/c"], ["src", "srcs/a"]],
    ["src/**/x", ["src/x", "src/a/b/x"], ["src/a/xx"]],
    ["a?c", ["abc", "a\u{1f600}c"], ["ac", "abbc"]],
    ["[a-c][!0-9]", ["ax", "c-"], ["dx", "a1"]],
    ["{a,b{c,d}}.js", ["a.js", "bc.js", "bd.js"], ["b.js"]],
    ["{a}", ["{a}"], ["a"]],
    ["a\\*", ["a*"], ["ab"]],
    [".*", [".env"], ["env"]],
    ["[]]", ["]"], ["["]],
    ["[", ["["], []],
  ];
  for (const [glob, yes, no] of table) {
    const matches = compileGlob(glob, { hidden: false, braces: true });
    for (const path of yes) assert(matches(path), `${glob} matches ${path}`);
    for (const path of no) assert(!matches(path), `${glob} does not match ${path}`);
  }
});

test("a glob of many stars takes no time", () => {
  const matches = compileGlob(`${"*a".repeat(40)}b`, { hidden: false, braces: true });
  assert(!matches("a".repeat(2000)));
  const deep = compileGlob(`${"**/a/".repeat(20)}b`, { hidden: false, braces: true });
  assert(!deep("a/".repeat(500)));
});

test("ignore files are read as git reads them", () => {
  const lines = [
    "# comment",
    "*.o",
    "!keep.o",
    "/top",
    "dir/",
    "a/b",
    "**/deep/x",
    "foo/**",
    "\\#hash",
    "\\!bang",
    "trail\\ ",
    "  ",
  ];
  const rules = new IgnoreRules([{ directory: "w", rules: parseIgnoreFile(lines.join("\r\n")) }]);
  const ignored = (path: string, isDirectory = false) => rules.ignores(`w/${path}`, isDirectory);
  for (const path of [
    "x.o",
    "d/x.o",
    "top",
    "a/b",
    "q/deep/x",
    "deep/x",
    "foo/y",
    "#hash",
    "d/!bang",
    "trail ",
  ]) {
    assert(ignored(path), path);
  }
  for (const path of ["keep.o", "d/keep.o", "d/top", "dir", "d/a/b", "foo", "comment"])
    assert(!ignored(path), path);
  assert(ignored("dir", true));
  assert(ignored("d/dir", true));
});
