/**
 * The small functions of the chat: widths, safe text, what is typed, what is asked.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { allowing } from "../../src/cli/chat/allowances.ts";
import { checkChatFlags } from "../../src/cli/chat/chat-flags.ts";
import { continued, parseTyped } from "../../src/cli/chat/commands.ts";
import { parseAnswer, parseApproval } from "../../src/cli/chat/questions.ts";
import { safeOutput, safeText } from "../../src/cli/chat/safe-text.ts";
import { plainStatusLine, troubleText } from "../../src/cli/chat/status-text.ts";
import { columnAfter, cutToWidth, textWidth } from "../../src/cli/chat/text-width.ts";
import { toolLine } from "../../src/cli/chat/tool-words.ts";
import { TOOLS_DEFAULTS } from "../../src/tools/config.ts";
import { declaredName } from "../../src/tools/declared-tools.ts";

/** All that can move a cursor or turn a line around, but the line feed. */
const STEERING = /(?!\n)[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

test("a text is as wide as its cells", () => {
  const widths: readonly (readonly [string, number])[] = [
    ["plain", 5],
    ["日本語", 6],
    ["한글", 4],
    ["e\u0301", 1],
    ["👩‍👩‍👧", 2],
    ["🇩🇪", 2],
    ["❤️", 2],
    ["…│●", 3],
    ["\u200b", 0],
  ];
  for (const [text, width] of widths) assert.equal(textWidth(text), width, JSON.stringify(text));
});

test("a text is cut to a width and never wider, and says that it was cut", () => {
  assert.equal(cutToWidth("abcdef", 6), "abcdef");
  assert.equal(cutToWidth("abcdef", 4), "abc…");
  assert.equal(cutToWidth("日本語", 4), "日…");
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 1, max: 40 }), (text, cells) => {
      assert.ok(textWidth(cutToWidth(text, cells)) <= cells);
    }),
  );
});

test("the cursor's column is known after a text that wraps", () => {
  assert.equal(columnAfter(0, "abc", 10), 3);
  assert.equal(columnAfter(8, "abc", 10), 1);
  assert.equal(columnAfter(0, "0123456789", 10), 10);
  assert.equal(columnAfter(9, "日", 10), 2);
  assert.equal(columnAfter(5, "ab\ncd", 10), 2);
});

test("text of models and tools cannot steer the terminal, whatever it holds", () => {
  assert.equal(safeText("a\u001b[31mred\u0007"), "a\\u{1b}[31mred\\u{7}");
  assert.equal(safeText("a\r\nb\tc"), "a\nb    c");
  assert.equal(safeText("\u202egnp.exe"), "\\u{202e}gnp.exe");
  assert.equal(safeText("\u009b2J"), "\\u{9b}2J");
  assert.equal(safeOutput("10%\r20%\r30%\n"), "10%\n20%\n30%\n");
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      assert.doesNotMatch(safeText(text), STEERING);
    }),
  );
});

test("a tool call in one line tells what matters of its arguments", () => {
  assert.deepEqual(toolLine("shell", '{"command":"npm test","description":"tests"}'), {
    name: "shell",
    about: "npm test",
  });
  assert.equal(toolLine("grep", '{"pattern":"x+","path":"src"}').about, "x+ in src");
  assert.equal(toolLine("todos", '{"todos":[{},{}]}').about, "2 items");
  assert.equal(toolLine("mcp__x", '{"n":1}').about, '{"n":1}');
  assert.equal(toolLine("mcp__x", "{}").about, "");
  assert.equal(toolLine("shell", '{"command":"a\\nb\\u001b"}').about, "a⏎b\\u{1b}");
  assert.equal(toolLine("broken", '{"command":').about, '{"command":');
});

test("what is typed is a message, a command, or a mistake that is not sent anywhere", () => {
  assert.deepEqual(parseTyped("  hello\nthere "), { kind: "message", text: "hello\nthere" });
  assert.deepEqual(parseTyped(""), { kind: "nothing" });
  assert.deepEqual(parseTyped("/quit"), { kind: "quit" });
  assert.deepEqual(parseTyped("/exit"), { kind: "quit" });
  assert.deepEqual(parseTyped("/model openai/gpt"), { kind: "model", name: "openai/gpt" });
  assert.deepEqual(parseTyped("/model"), { kind: "model", name: "" });
  assert.deepEqual(parseTyped("/resume 3"), { kind: "resume", which: "3" });
  assert.deepEqual(parseTyped("!ls -l"), { kind: "shell", command: "ls -l" });
  assert.deepEqual(parseTyped("/shell ls\npwd"), { kind: "shell", command: "ls\npwd" });
  assert.equal(parseTyped("/shell").kind, "wrong");
  assert.equal(parseTyped("/quti").kind, "wrong");
  assert.equal(parseTyped("/new please").kind, "wrong");
  assert.equal(parseTyped("/etc/hosts is empty").kind, "message");
});

test("a trailing backslash goes on in the next line, an escaped one does not", () => {
  assert.equal(continued("a\\"), "a\n");
  assert.equal(continued("a\\\\"), undefined);
  assert.equal(continued("a\\\\\\"), "a\\\\\n");
  assert.equal(continued("\\"), "\n");
  assert.equal(continued("a"), undefined);
});

test("only a clear yes allows", () => {
  assert.deepEqual(parseApproval("y"), { answer: "once" });
  assert.deepEqual(parseApproval(" Yes "), { answer: "once" });
  assert.deepEqual(parseApproval("a"), { answer: "always" });
  assert.deepEqual(parseApproval("n"), { answer: "no" });
  assert.deepEqual(parseApproval("no, use the test database"), {
    answer: "no",
    reason: "use the test database",
  });
  assert.equal(parseApproval("s"), "show");
  for (const unclear of ["", "yn", "y but carefully", "always except rm", "ok", "1"]) {
    assert.equal(parseApproval(unclear), undefined, unclear);
  }
});

test("a question is answered by numbers, by a text where one is welcome, or skipped", () => {
  const options = [
    { $typeName: "holdfast.v1.QuestionOption", id: "r", label: "red" },
    { $typeName: "holdfast.v1.QuestionOption", id: "g", label: "green" },
  ] as const;
  const one = { text: "?", options: [...options], allowMultiple: false, allowText: false };
  assert.deepEqual(parseAnswer("2", one), { optionIds: ["g"], text: "" });
  assert.deepEqual(parseAnswer("", one), { optionIds: [], text: "" });
  assert.equal(parseAnswer("1,2", one), undefined);
  assert.equal(parseAnswer("3", one), undefined);
  assert.equal(parseAnswer("blue", one), undefined);
  assert.deepEqual(parseAnswer("1, 2", { ...one, allowMultiple: true }), { optionIds: ["r", "g"], text: "" });
  assert.deepEqual(parseAnswer("blue", { ...one, allowText: true }), { optionIds: [], text: "blue" });
  assert.deepEqual(parseAnswer("anything", { ...one, options: [] }), { optionIds: [], text: "anything" });
});

test("every state of a stream has words, and a log hears only of changes", () => {
  const calm = { stuck: undefined, failure: undefined, trouble: undefined };
  const lost = { code: "connection_lost", message: "reset" } as const;
  assert.equal(troubleText({ state: "live", ...calm }), undefined);
  assert.equal(troubleText({ state: "connecting", ...calm }), "connecting …");
  assert.match(
    troubleText({ state: "reconnecting", ...calm, trouble: lost }) ?? "",
    /\(reset\); nothing is lost/,
  );
  assert.match(troubleText({ state: "stalled", ...calm, stuck: "exec e-1" }) ?? "", /^stalled: exec e-1/);
  assert.match(troubleText({ state: "degraded", ...calm }) ?? "", /kept nowhere/);
  assert.match(troubleText({ state: "fenced", ...calm }) ?? "", /another client/);
  assert.equal(plainStatusLine("connecting", { state: "live", ...calm }), undefined);
  assert.equal(plainStatusLine("reconnecting", { state: "live", ...calm }), "[connected again]");
  assert.match(
    plainStatusLine("live", { state: "reconnecting", ...calm, trouble: lost }) ?? "",
    /^\[reconnecting/,
  );
});

test("flags are checked, and say what is wrong with them", () => {
  const screen = { write: () => undefined };
  const surroundings = {
    stdout: screen,
    stderr: screen,
    env: { HOLDFAST_URL: "http://127.0.0.1:1" },
    cwd: import.meta.dirname,
    home: "/nowhere",
    platform: "linux",
    command: "holdfast",
    now: () => 0,
  } as const;
  assert.throws(() => checkChatFlags({ continue: true, resume: "x" }, surroundings), /give one of them/);
  assert.throws(
    () => checkChatFlags({ system: "@missing" }, surroundings),
    /missing cannot be read \(ENOENT\)/,
  );
  const settings = checkChatFlags({ system: "@@x", tools: false, resume: "3" }, surroundings);
  assert.deepEqual(
    [settings.systemPrompt, settings.hasTools, settings.begin, settings.url, settings.showsThinking],
    ["@x", false, { conversation: "3" }, "http://127.0.0.1:1", true],
  );
});

test("--allow and --yes open what would ask, never what the file denies", () => {
  const config = { ...TOOLS_DEFAULTS, approvals: { delete: "deny", mcp: "ask" } } as const;
  assert.deepEqual(allowing(config, { allow: ["edit", "shell"], allowsAll: false }).approvals, {
    delete: "deny",
    mcp: "ask",
    write: "allow",
    shell: "allow",
  });
  const { approvals } = allowing(config, { allow: [], allowsAll: true });
  assert.deepEqual([approvals["mcp"], approvals["write"], approvals["delete"]], ["allow", "allow", "deny"]);
  const closed = { ...TOOLS_DEFAULTS, approvals: { mcp: "deny", web: "deny", web__search: "ask" } } as const;
  const allow = ["web__search", "files", "files__read"];
  assert.deepEqual(allowing(closed, { allow, allowsAll: true }).approvals["web__search"], "ask");
  assert.equal(allowing(closed, { allow, allowsAll: true }).approvals["files__read"], undefined);
  // The names of their tools as the model knows them.
  for (const server of ["my.files", "a__b", "s".repeat(70)]) {
    const shut = { ...TOOLS_DEFAULTS, approvals: { [server]: "deny" } } as const;
    const tool = declaredName(server, "remove", new Set());
    assert.equal(
      allowing(shut, { allow: [tool, "other__tool"], allowsAll: false }).approvals[tool],
      undefined,
    );
    assert.equal(
      allowing(shut, { allow: ["other__tool"], allowsAll: false }).approvals["other__tool"],
      "allow",
    );
  }
});
