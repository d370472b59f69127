/** Models, tools and web pages that mean harm: nothing but text reaches the screen, and no text passes for a question of ours. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { questionLines } from "../../src/cli/chat/questions.ts";
import { newActivity, troubleText } from "../../src/cli/chat/status-text.ts";
import { styleOf } from "../../src/cli/chat/style.ts";
import { newTranscript } from "../../src/cli/chat/transcript.ts";
import type { ToolView, TurnPart } from "../../src/client/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { FailureKind, TodoStatus } from "../../src/protocol/messages.ts";
import { EMPTY_TOOL } from "../../src/turn/tool-view.ts";
import { ChatRig, hasScript } from "./chat-process.ts";

const ESC = "\u001b";
const EVIL = [
  // The clipboard, the title, a link, colours by number, a question that the terminal answers as if it were typed.
  `${ESC}]52;c;ZXZpbA==\u0007${ESC}]0;title${ESC}\\${ESC}]8;;http://evil${ESC}\\${ESC}]4;1;?\u0007`,
  // Clearing, moving, hiding, another screen, reset, a device's answer, a mouse, pasted text.
  `${ESC}[2J${ESC}[H${ESC}[8m${ESC}[?1049h${ESC}c${ESC}[6n${ESC}[c${ESC}[?1000h${ESC}[200~y\r${ESC}[201~`,
  // The same in eight bits, and strings for devices.
  "\u009b2J\u009d0;t\u009c\u0090q\u009c\u008d",
  `${ESC}P+q544e${ESC}\\${ESC}_app${ESC}\\${ESC}^pm${ESC}\\${ESC}(0${ESC}7${ESC}8\u000e\u000f`,
  "back\b\b\bspace\u0007\u0000\u000b\u000c\u007f over\rwritten",
  "\u202etxt.exe\u2066\u2067\u061c\u200f\u2028\u2029\ufeff",
  "▲ Allow? [y]es once, [a]lways this session, [n]o, or no <reason>: ",
  "A".repeat(5_000),
].join("\n");

/** What our own lines may have: colours, and nothing that moves. */
// oxlint-disable-next-line no-control-regex -- they are what this is about
const COLOURS = /\u001b\[\d+m/g;

/** What no line of ours has, nor anything that is shown. */
const STEERING =
  // oxlint-disable-next-line no-control-regex -- they are what this is about
  /\u001b[^[]|[\u0080-\u009f\u0007\b\u202e]|\u001b\[(?:2J|H|8m|\?1049|6n|c|\?1000|200~)/u;

function assertHarmless(shown: string, what: string): void {
  const text = shown.replace(COLOURS, "");
  assert.doesNotMatch(text, /[^\P{C}\n\u200d]|[\p{Zl}\p{Zp}]/u, what);
  assert.doesNotMatch(text, /▲/u, what);
}

test("whatever a model or a tool says, in whatever place, the transcript is text", () => {
  const style = styleOf({ isTTY: true, columns: 80, write: () => true }, {});
  const transcript = newTranscript({ style, showsThinking: true, typed: "", now: () => 0 });
  const activity = newActivity();
  const usage = {
    inputTokens: 1,
    outputTokens: 1,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
  };
  const text = new TextDecoder().decode(
    new Uint8Array([...new TextEncoder().encode(EVIL), 0x9b, 0x32, 0x4a, 0xff]),
  );
  const evil: ToolView = {
    ...EMPTY_TOOL,
    toolCallId: EVIL,
    tool: EVIL,
    args: JSON.stringify({ command: EVIL }),
  };
  const other: ToolView = { ...EMPTY_TOOL, toolCallId: "other", tool: "a", args: EVIL };
  const unheardOf: ToolView = { ...evil, toolCallId: "unheard of" };
  const failure = { kind: FailureKind.RATE_LIMITED, message: EVIL, providerStatus: 0, retryAfterMs: 1 };
  const parts: readonly TurnPart[] = [
    { type: "user", text: EVIL, messageId: "" },
    { type: "step", step: 1, attempt: 0, model: EVIL },
    { type: "text", step: 1, text: EVIL },
    ...EVIL.split("").map((piece): TurnPart => ({ type: "text", step: 1, text: piece })),
    { type: "thinking", step: 1, text: EVIL },
    { type: "tool", change: "writing", call: evil },
    { type: "tool", change: "started", call: evil },
    { type: "tool", change: "started", call: other },
    { type: "tool-output", call: evil, text, stream: "stdout" },
    { type: "tool-output", call: other, text, stream: "stderr" },
    { type: "tool-output", stream: "progress", call: evil, text: EVIL },
    { type: "tool", change: "over", call: { ...evil, outcome: "failed", result: EVIL } },
    { type: "tool", change: "over", call: { ...unheardOf, outcome: "unknown", result: EVIL } },
    { type: "summary", text: EVIL },
    { type: "todos", items: [{ id: "1", text: EVIL, status: TodoStatus.PENDING }] },
    { type: "retract", step: 1, text: EVIL, kept: EVIL, parts: [] },
    { type: "step", step: 1, attempt: 1, model: EVIL },
    { type: "continued", step: 1 },
    { type: "end", end: { reason: "failed", failure, usage, error: undefined, text: EVIL } },
  ];
  for (const part of parts) {
    activity.see(part);
    assertHarmless(transcript.render(part), part.type);
    assertHarmless(activity.text, `activity of ${part.type}`);
  }
  const option = { $typeName: "holdfast.v1.QuestionOption", id: "a", label: EVIL } as const;
  assertHarmless(questionLines({ text: EVIL, options: [option] }, style).join("\n"), "a question");
  const trouble = new HoldfastError("unavailable", EVIL);
  assertHarmless(
    troubleText({ state: "reconnecting", stuck: undefined, failure: undefined, trouble }) ?? "",
    "a trouble",
  );
});

test("in a real terminal hostile output and text change neither title, clipboard nor screen", async (t) => {
  if (!hasScript()) {
    t.diagnostic("there is no `script` of util-linux here: the terminal is not tested");
    return;
  }
  const rig = new ChatRig(t);
  writeFileSync(join(rig.workspace, "evil.txt"), EVIL);
  const chat = rig.onTerminal("--allow", "shell");
  await chat.shows(/\n›$/);
  // Once as a tool's output, once as what the model says. The terminal of this test fails on every sequence that is not the chat's own.
  chat.type("shell cat evil.txt\\\rthen\\\rsay the result\r");
  await chat.shows(
    /│ \\u\{1b\}\]52;c;ZXZpbA==\\u\{7\}[^]*✓ done\n[^]*△ Allow\?[^]*\nrehearsal\/rehearsal · .*\n\n›$/,
  );
  assert.doesNotMatch(chat.screen, /▲/u);
  // The question that is one has the sign, and stands last.
  chat.type('call write {"path":"a","content":"▲ Allow? y"}\r');
  await chat.shows(/▲ write: a\n {2}│ path: a\n {2}│ content: △ Allow\? y\n[^▲]*\n▲ Allow\?[^\n]*:$/);
  chat.type("n\r");
  await chat.shows(/denied[^]*\n›$/);
  chat.type("\u0004");
  const { code, stdout } = await chat.end;
  assert.equal(code, 0);
  assert.doesNotMatch(stdout, STEERING);
});
