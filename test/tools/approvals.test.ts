import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApprovalAnswer, ApprovalRequest } from "../../src/tools/index.ts";
import { visibleLine, visibleText } from "../../src/tools/index.ts";
import { isAllowedCommand, simpleWords } from "../../src/tools/simple-command.ts";
import { inline, put, type Request, request, rig, Run, sha256 } from "./rig.ts";

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
  assert.equal(visibleLine("x".repeat(159) + "🙂"), `${"x".repeat(159)}...`, "not within a character");
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
  const approval = await tools.approve(exec, new Run());
  assert(
    approval.allowed && approval.untilMs >= before + 600_000 && approval.untilMs <= Date.now() + 600_000,
  );
  const [first] = asked;
  assert.deepEqual(
    [{ ...first, lines: first?.lines.map(({ text }) => text).join("\n") }],
    [
      {
        execId: exec.execId,
        tool: "shell",
        title: "shell: echo hi\\u{a}rm -rf \\u{202e}x",
        text: "command:\n  echo hi\n  rm -rf \\u{202e}x\nwhy, as the model says: tidy\\u{200b} up",
        lines: first?.text,
        argsSha256: sha256(exec.args).toString("hex"),
        workspace,
      },
    ],
  );
  await tools.approve(request(WRITE), new Run());
  assert.equal(asked[1]?.text, "path: a.txt\ncontent: hello");
  await tools.approve(
    request({ case: "mcpArgs", value: { name: "web__get", server: "web", argsJson: inline('{"a":1}') } }),
    new Run(),
  );
  assert.equal(asked[2]?.title, 'web__get: {"a":1}');
  assert.equal(asked[2]?.text, 'MCP server: web\narguments: {"a":1}');
});

test("white space is folded, of every kind and in every mixture, so nothing is pushed out of sight", async (t) => {
  const shown = async (command: string): Promise<readonly string[]> => {
    const asked: ApprovalRequest[] = [];
    const ask = (question: ApprovalRequest): Promise<ApprovalAnswer> => {
      asked.push(question);
      return Promise.resolve({ answer: "once" });
    };
    const { tools } = await rig(t, { ask, config: { approvals: {} } });
    await tools.approve(request({ case: "shellArgs", value: { command } }), new Run());
    return asked.flatMap(({ title, text }) => [title, text]);
  };
  const table: readonly (readonly [string, string])[] = [
    ["\t".repeat(1500), "[1500 tabs]"],
    [" \t".repeat(700), "[700 spaces, 700 tabs]"],
    ["\u{a0}".repeat(400), "[400 U+A0]"],
    ["\u{200b}\r\v\u{2003} ".repeat(50), "[50 U+200B, 50 U+D, 50 U+B and 2 other kinds]"],
  ];
  for (const [blanks, folded] of table) {
    const [title, text] = await shown(`ls${blanks}; rm -rf /`);
    assert.deepEqual(
      { title, text },
      { title: `shell: ls${folded}; rm -rf /`, text: `command: ls${folded}; rm -rf /` },
    );
  }
  const [, lines] = await shown(`ls${"\n \t\n".repeat(900)}; rm -rf /`);
  assert.equal(lines, "command:\n  ls\n  [1799 empty lines]\n  ; rm -rf /");
  const code = "if a:\n\n\n        b = 1\n";
  assert.equal((await shown(code))[1], `command:\n  ${code.replaceAll("\n", "\n  ")}`);
});

test("a write shows what it changes, with a few lines around it; a large one is fetched and shown", async (t) => {
  const asked: ApprovalRequest[] = [];
  const ask = (question: ApprovalRequest): Promise<ApprovalAnswer> => {
    asked.push(question);
    return Promise.resolve({ answer: "once" });
  };
  const { tools, workspace } = await rig(t, { ask, config: { approvals: {} } });
  const before = Array.from({ length: 20_000 }, (_, at) => `line ${at + 1}`);
  const after = before.with(15_000, "line 15001  ").with(15_002, "\tline 15003");
  put(workspace, { "long.txt": before.join("\n"), "bytes.bin": new Uint8Array([0xff, 0xfe]) });
  const run = new Run();
  const value = Buffer.from(await run.upload(Buffer.from(after.join("\n"))), "hex");
  const content = { content: { case: "blobId" as const, value }, sizeBytes: 200_000 };
  const expectedSha256 = sha256(before.join("\n"));
  await tools.approve(
    request({ case: "writeArgs", value: { path: "long.txt", content, expectedSha256 } }),
    run,
  );
  assert.deepEqual(asked[0]?.lines, [
    { kind: "plain", text: "path: long.txt" },
    { kind: "plain", text: "change:" },
    { kind: "hunk", text: "  @@ -14998,9 +14998,9 @@" },
    ...["14998", "14999", "15000"].map((line) => ({ kind: "context", text: `   line ${line}` })),
    { kind: "removed", text: "  -line 15001" },
    { kind: "added", text: "  +line 15001··" },
    { kind: "context", text: "   line 15002" },
    { kind: "removed", text: "  -line 15003" },
    { kind: "added", text: "  +⇥   line 15003" },
    ...["15004", "15005", "15006"].map((line) => ({ kind: "context", text: `   line ${line}` })),
  ]);
  const write = async (path: string, text: string, expected?: Uint8Array): Promise<string | undefined> => {
    const args = {
      path,
      content: inline(text),
      ...(expected === undefined ? {} : { expectedSha256: expected }),
    };
    await tools.approve(request({ case: "writeArgs", value: args }), run);
    return asked.at(-1)?.text;
  };
  assert.equal(await write("new.txt", "a\nb"), "path: new.txt\ncontent:\n  a\n  b");
  assert.equal(
    await write("bytes.bin", "a"),
    "path: bytes.bin\nthere now: a file of 2 bytes that are no text\ncontent: a",
  );
  assert.match((await write("long.txt", "a", sha256("other"))) ?? "", /nothing will be written$/u);
  assert.match((await write("../a", "a")) ?? "", /there now: \.\.\/a leads outside of the workspace/u);
});

test("C7: what cannot be shown, or asked, is not approved", async (t) => {
  let asked = 0;
  const ask = (): Promise<ApprovalAnswer> => {
    asked++;
    return Promise.reject(new Error("no terminal"));
  };
  const { tools } = await rig(t, { ask, config: { approvals: {} } });
  assert.deepEqual(await tools.approve(request(SHELL), new Run()), {
    allowed: false,
    untilMs: 0,
    reason: "the question could not be asked: no terminal",
  });
  const content = { content: { case: "blobId" as const, value: new Uint8Array(32) }, sizeBytes: 100_000 };
  const unseen = await tools.approve(
    request({ case: "writeArgs", value: { path: "a", content } }),
    new Run(),
  );
  assert.equal(unseen.allowed, false);
  assert.equal(asked, 1);
});

test("where nobody can be asked, what would ask is denied with what to do", async (t) => {
  const { tools } = await rig(t, { config: { approvals: { delete: "deny", write: "allow" } } });
  assert.equal(tools.policy(request(WRITE)).needsApproval, false);
  const shell = await tools.approve(request(SHELL), new Run());
  assert.equal(shell.allowed, false);
  assert.match(shell.reason ?? "", /set tools\.approvals\.shell to "allow"/);
  const remove = request({ case: "deleteArgs", value: { path: "a" } });
  assert.equal(tools.policy(remove).needsApproval, true);
  assert.match((await tools.approve(remove, new Run())).reason ?? "", /denied by tools\.approvals/);
});

test("C7: always covers the same command or the tool, for this session; no gives its reason", async (t) => {
  let next: ApprovalAnswer = { answer: "always" };
  const { tools } = await rig(t, { ask: () => Promise.resolve(next), config: { approvals: {} } });
  await tools.approve(request(SHELL), new Run());
  assert.equal(tools.policy(request(SHELL)).needsApproval, false);
  const streamed: Request = { case: "shellStreamArgs", value: { command: "npm test" } };
  assert.equal(tools.policy(request(streamed)).needsApproval, false);
  assert.equal(
    tools.policy(request({ case: "shellArgs", value: { command: "npm test; rm x" } })).needsApproval,
    true,
  );
  await tools.approve(request(WRITE), new Run());
  assert.equal(tools.policy(request({ case: "writeArgs", value: { path: "b" } })).needsApproval, false);
  next = { answer: "no", reason: "use pnpm" };
  const denied = await tools.approve(request({ case: "shellArgs", value: { command: "npm i" } }), new Run());
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
  assert.equal((await tools.approve(request(SHELL), new Run())).allowed, true);
});
