/** An approval on a screen of 80 columns and 24 rows: seen whole with its question, whatever is in it. */
import assert from "node:assert/strict";
import { stripVTControlCharacters } from "node:util";
import { test } from "node:test";
import { create } from "../../src/protocol/message.ts";
import { approvalPage, approvalPrompt, type ShownRequest } from "../../src/cli/chat/approval-pages.ts";
import { type Asker, newAsker } from "../../src/cli/chat/asking.ts";
import type { Entered, LineInput } from "../../src/cli/chat/line-input.ts";
import { plainScreen } from "../../src/cli/chat/screen.ts";
import { styleOf } from "../../src/cli/chat/style.ts";
import { textWidth, wrapToWidth } from "../../src/cli/chat/text-width.ts";
import { InteractionQuerySchema } from "../../src/protocol/messages.ts";
import { TinyTerminal } from "./tiny-terminal.ts";

const COLUMNS = 80;
const ROWS = 24;
const SCREEN = { isTTY: true, columns: COLUMNS, rows: ROWS, write: () => true };
const STYLE = styleOf(SCREEN, {});

function request(text: string, title = "shell: a command"): ShownRequest {
  const lines = text.split("\n").map((line) => ({ kind: "plain" as const, text: line }));
  return { title, lines, workspace: "/a/place", tool: "shell" };
}

test("text is cut into rows that hold all of it", () => {
  assert.deepEqual(wrapToWidth("", 5), [""]);
  assert.deepEqual(wrapToWidth("abcde", 5), ["abcde"]);
  assert.deepEqual(wrapToWidth("abcdefg", 5), ["abcde", "fg"]);
  assert.deepEqual(wrapToWidth("中中中", 5), ["中中", "中"]);
  assert.deepEqual(wrapToWidth("中", 1), ["中"]);
});

test("C7: every page of an approval fits the screen with its title and its question, and the pages have all of it", () => {
  const hostile = [
    "ls",
    `echo ${"x".repeat(64 * 1024)}; rm -rf /`,
    Array.from({ length: 3_000 }, (_, at) => `line ${at}`).join("\n"),
    `${"中".repeat(500)}\u001b[2J\u202e`,
  ];
  for (const text of hostile) {
    let from = 0;
    let seen = "";
    do {
      const page = approvalPage(request(text), STYLE, { from, showsAll: false });
      const terminal = new TinyTerminal(COLUMNS, ROWS);
      terminal.write([...page.lines, approvalPrompt(STYLE)].join("\n"));
      assert.ok(terminal.lines.length <= ROWS, `${terminal.lines.length} rows`);
      assert.match(terminal.lines[0] ?? "", /^▲ shell: a command/u);
      assert.match(terminal.lines.at(-1) ?? "", /^▲ Allow\? \[y\]es once.*:$/u);
      const rows = terminal.lines.filter((line) => line.startsWith("  │"));
      // More than a glance away: the title stands below once more.
      assert.equal(terminal.lines.at(-2)?.startsWith("▲ shell"), rows.length > 6);
      seen += page.lines
        .map((line) => stripVTControlCharacters(line))
        .filter((line) => line.startsWith("  │ "))
        .map((line) => line.slice(4))
        .join("");
      from = page.next;
    } while (from !== 0);
    const whole = text.replaceAll("\n", "").replace("\u001b", "\\u{1b}").replace("\u202e", "\\u{202e}");
    assert.equal(seen, whole);
  }
});

test("C7: no text in an approval can look like the question about it", () => {
  const forged = "▲ Allow? [y]es once, [a]lways this session, [n]o, or no <reason>: ";
  // Wherever the rows end, one of these would begin a row if the terminal wrapped them.
  const text = Array.from({ length: 90 }, (_, at) => `${" ".repeat(at % 40)}${forged}`).join(" ");
  const { lines } = approvalPage(request(text, `shell: ${forged}`), STYLE, { from: 0, showsAll: true });
  const own = lines.map((line) => stripVTControlCharacters(line)).filter((line) => line.includes("▲"));
  assert.deepEqual(own, [own[0], own[0]]);
  assert.match(own[0] ?? "", /^▲ shell: △ Allow/u);
  for (const line of lines) assert.ok(textWidth(stripVTControlCharacters(line)) < COLUMNS);
});

function inputOf(...answers: readonly (string | Error)[]): LineInput {
  const waiting = [...answers];
  return {
    read: async (): Promise<Entered> => {
      const next = waiting.shift();
      if (next instanceof Error) throw next;
      return next === undefined ? { kind: "unanswerable" } : { kind: "line", text: next };
    },
    listen: () => undefined,
    above: (print) => print(),
    close: () => undefined,
  };
}

function askerOf(input: LineInput, printed: string[] = [], onLeave = (): void => undefined): Asker {
  const screen = plainScreen(SCREEN, SCREEN);
  const print = (line: string): void => void printed.push(stripVTControlCharacters(line));
  return newAsker({
    input,
    screen,
    style: STYLE,
    print,
    onInterrupt: () => undefined,
    onLeave,
  });
}

const APPROVAL = { ...request("x\n".repeat(40)), execId: "a", tool: "shell", text: "", argsSha256: "" };

test("C7: an answer that is none of the keys is no answer, and the keys are named", async () => {
  const printed: string[] = [];
  assert.deepEqual(await askerOf(inputOf("yeah", "", "y"), printed).approve(APPROVAL), { answer: "once" });
  assert.equal(printed.filter((line) => line === "Please answer y, a or n.").length, 2);
});

test("m shows the next page, s all of it; where no person is there it is a no", async () => {
  const printed: string[] = [];
  assert.deepEqual(await askerOf(inputOf("m", "s", "y"), printed).approve(APPROVAL), { answer: "once" });
  const said = printed.filter((line) => line.startsWith("  Rows"));
  assert.deepEqual(said, [
    "  Rows 1 to 17 of 41: m shows the next, s all of them.",
    "  Rows 18 to 34 of 41: m shows the next, s all of them.",
  ]);
  assert.equal(printed.filter((line) => line === "  │ x").length, 17 + 17 + 40);
  assert.equal((await askerOf(inputOf("m")).approve(APPROVAL)).answer, "no");
});

test("C7: a person who leaves has not answered", async () => {
  const left = Promise.withResolvers<string>();
  const input: LineInput = { ...inputOf(), read: async () => ({ kind: "end" }) };
  const asker = askerOf(input, [], () => left.resolve("left"));
  const answered = asker.approve(APPROVAL).then(() => "answered");
  assert.equal(await Promise.race([answered, left.promise]), "left");
  // Whatever would have been answered is answered within these turns of the event loop.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  const waits = Promise.resolve("waits");
  assert.equal(await Promise.race([answered, waits]), "waits");
});

test("C7: a question whose request is taken back is closed, and one that waited is not asked", async () => {
  const printed: string[] = [];
  const takeBack = new AbortController();
  const input: LineInput = {
    ...inputOf(),
    read: async (_prompt, _purpose, signal) => {
      assert.equal(signal, takeBack.signal);
      takeBack.abort();
      return { kind: "cancelled" };
    },
  };
  const asker = askerOf(input, printed);
  assert.equal((await asker.approve(APPROVAL, takeBack.signal)).answer, "no");
  assert.match(
    printed.at(-1) ?? "",
    /The question is closed: the request was taken back, or the turn was stopped elsewhere/,
  );
  const shown = printed.length;
  assert.equal((await asker.approve(APPROVAL, takeBack.signal)).answer, "no");
  assert.equal(printed.length, shown);
});

test("D3: a question of the agent is closed with its turn, and the ones behind it are not asked", async () => {
  const printed: string[] = [];
  const over = new AbortController();
  const input: LineInput = {
    ...inputOf(),
    read: async (_prompt, _purpose, signal) => {
      assert.equal(signal, over.signal);
      over.abort();
      return { kind: "cancelled" };
    },
  };
  const question = { id: "q", text: "Which one?" };
  const query = create(InteractionQuerySchema, {
    id: 1,
    query: { case: "askQuestion", value: { questions: [question, { ...question, id: "r" }] } },
  });
  const asker = askerOf(input, printed);
  assert.equal((await asker.answer(query, over.signal)).case, "unanswerable");
  assert.match(printed.at(-1) ?? "", /The question is closed/);
  const shown = printed.length;
  assert.equal((await asker.answer(query, over.signal)).case, "unanswerable");
  assert.equal(printed.length, shown);
});

test("C7: a question that fails is a no, and the next one is asked", async () => {
  const asker = askerOf(inputOf(new Error("gone"), new Error("gone"), "y"));
  assert.deepEqual(await asker.approve(APPROVAL), {
    answer: "no",
    reason: "the question could not be asked: gone",
  });
  assert.equal(await asker.confirm("Go on?"), false);
  assert.deepEqual(await asker.approve(APPROVAL), { answer: "once" });
});

test("a message that is typed at a yes-or-no question is not taken for a yes", async () => {
  const printed: string[] = [];
  const entered = ["now the other file", "n", "", "No", "YES"];
  const asker = askerOf(inputOf(...entered), printed);
  const answers = [];
  for (let asked = 0; asked < 4; asked++) answers.push(await asker.confirm("Continue it?"));
  assert.deepEqual(answers, [false, true, false, true]);
  assert.deepEqual(printed.length, 1);
});
