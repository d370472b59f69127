import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApprovalAnswer, ApprovalRequest } from "../../src/tools/index.ts";
import { visibleLine, visibleText } from "../../src/tools/index.ts";
import { isAllowedCommand, simpleWords } from "../../src/tools/simple-command.ts";
import { inline, type Request, request, rig, sha256 } from "./rig.ts";

const SHELL: Request = { case: "shellArgs", value: { command: "npm test" } };
const WRITE: Request = { case: "writeArgs", value: { path: "a.txt", content: inline("hello") } };
const READ: Request = { case: "readArgs", value: { path: "a.txt" } };

test("hidden characters are made visible, everything else stays as it is", () => {
  const table: readonly (readonly [string, string])[] = [
    ["plain \u{e9} \u{4e2d} \u{1f600}\n\tx", "plain \u{e9} \u{4e2d} \u{1f600}\n\tx"],
    ["rm \u{202e}txt.a", "rm \\u{202e}txt.a"],
    ["a\u{200b}b\u{200d}c\u{feff}d\u{2060}e", "a\\u{200b}b\\u{200d}c\\u{feff}d\\u{2060}e"],
    ["\u{1b}[2Jgone\u{7}", "\\u{1b}[2Jgone\\u{7}"],
    ["line\rover", "line\\u{d}over"],
    ["a\u{2028}b\u{85}c", "a\\u{2028}b\\u{85}c"],
    ["a\u{a0}b\u{3000}c", "a\\u{a0}b\\u{3000}c"],
    ["\u{e0041}\u{fe0f}\u{3164}\u{2800}\u{ad}", "\\u{e0041}\\u{fe0f}\\u{3164}\\u{2800}\\u{ad}"],
    ["\u{2066}\u{61c}\u{200e}", "\\u{2066}\\u{61c}\\u{200e}"],
    ["\\u{202e}", "\\\\u{202e}"],
    ["\ud800", "\\u{d800}"],
  ];
  for (const [text, shown] of table) assert.equal(visibleText(text), shown);
  assert.equal(visibleLine("a\nb\tc"), "a\\u{a}b\\u{9}c");
  assert.equal(visibleLine("x".repeat(500)).length, 163);
});

test("looking is allowed, changing is asked about, and what was asked is shown completely", async (t) => {
  const asked: ApprovalRequest[] = [];
  const ask = (request: ApprovalRequest): Promise<ApprovalAnswer> => {
    asked.push(request);
    return Promise.resolve({ answer: "once" });
  };
  const { tools, workspace } = await rig(t, { ask, config: { approvals: {} } });
  assert.deepEqual(tools.policy(request(READ)), { repeatable: true, needsApproval: false });
  assert.deepEqual(tools.policy(request(SHELL)), { repeatable: false, needsApproval: true });
  const exec = request({
    case: "shellArgs",
    value: { command: "echo hi\nrm -rf \u{202e}x", description: "tidy\u{200b} up" },
  });
  const before = Date.now();
  const approval = await tools.approve(exec);
  assert(
    approval.allowed && approval.untilMs >= before + 600_000 && approval.untilMs <= Date.now() + 600_000,
  );
  assert.deepEqual(asked, [
    {
      execId: exec.execId,
      tool: "shell",
      title: "shell: echo hi\\u{a}rm -rf \\u{202e}x",
      text: "command:\n  echo hi\n  rm -rf \\u{202e}x\nwhy, as the model says: tidy\\u{200b} up",
      argsSha256: sha256(exec.args).toString("hex"),
      workspace,
    },
  ]);
  await tools.approve(request(WRITE));
  assert.equal(asked[1]?.text, "path: a.txt\ncontent: hello");
  await tools.approve(
    request({ case: "mcpArgs", value: { name: "web__get", server: "web", argsJson: inline('{"a":1}') } }),
  );
  assert.equal(asked[2]?.title, 'web__get: {"a":1}');
  assert.equal(asked[2]?.text, 'MCP server: web\narguments: {"a":1}');
});

test("where nobody can be asked, what would ask is denied with what to do", async (t) => {
  const { tools } = await rig(t, { config: { approvals: { delete: "deny", write: "allow" } } });
  assert.equal(tools.policy(request(WRITE)).needsApproval, false);
  const shell = await tools.approve(request(SHELL));
  assert.equal(shell.allowed, false);
  assert.match(shell.reason ?? "", /set tools\.approvals\.shell to "allow"/);
  const remove = request({ case: "deleteArgs", value: { path: "a" } });
  assert.equal(tools.policy(remove).needsApproval, true);
  assert.match((await tools.approve(remove)).reason ?? "", /denied by tools\.approvals/);
});

test("C7: always covers the same command or the tool, for this session; no gives its reason", async (t) => {
  let next: ApprovalAnswer = { answer: "always" };
  const { tools } = await rig(t, { ask: () => Promise.resolve(next), config: { approvals: {} } });
  await tools.approve(request(SHELL));
  assert.equal(tools.policy(request(SHELL)).needsApproval, false);
  const streamed: Request = { case: "shellStreamArgs", value: { command: "npm test" } };
  assert.equal(tools.policy(request(streamed)).needsApproval, false);
  assert.equal(
    tools.policy(request({ case: "shellArgs", value: { command: "npm test; rm x" } })).needsApproval,
    true,
  );
  await tools.approve(request(WRITE));
  assert.equal(tools.policy(request({ case: "writeArgs", value: { path: "b" } })).needsApproval, false);
  next = { answer: "no", reason: "use pnpm" };
  const denied = await tools.approve(request({ case: "shellArgs", value: { command: "npm i" } }));
  assert.deepEqual(denied, { allowed: false, untilMs: 0, reason: "use pnpm" });
});

test("a rule for commands applies to simple commands only", async (t) => {
  const rules = ["git status", "npm test", "ls"];
  for (const command of [
    "git status",
    "git  status -s",
    "ls",
    "ls -la src/a.ts",
    'npm test -- --grep "a b"',
    "ls 'x y'",
  ]) {
    assert(isAllowedCommand(command, rules), command);
  }
  const tricky = [
    "git",
    "git statusx",
    "lsof",
    "ls; rm x",
    "ls && rm x",
    "ls | sh",
    "ls $(rm x)",
    "ls `rm x`",
    "ls > f",
    "ls\nrm x",
    "ls & rm x",
    "X=1 ls",
    "ls $HOME",
    'ls "$(rm x)"',
    'ls "a',
    "ls \\; rm",
    "ls *",
    "ls {a,b}",
    "(ls)",
    "ls #x",
    "ls \u{a0}x",
    "ls <(rm x)",
    "",
    "ls ~",
    "ls !x",
  ];
  for (const command of tricky) assert(!isAllowedCommand(command, rules), command);
  assert.deepEqual(simpleWords(`a "b c"d 'e'`), ["a", "b cd", "e"]);
  assert.equal(isAllowedCommand("anything", ["", "; x"]), false);
  const { tools } = await rig(t, {
    config: { approvals: {}, shell: { sandbox: "off", allow: ["npm test"] } },
  });
  assert.equal(tools.policy(request(SHELL)).needsApproval, false);
  assert.equal((await tools.approve(request(SHELL))).allowed, true);
});
