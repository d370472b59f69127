/**
 * What the model is told of each way in which an exec, a question or a message can end.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "../../src/protocol/message.ts";
import {
  ExecClientMessageSchema,
  type InteractionResponseSchema,
  LsEntryKind,
  ShellCommandActionSchema,
  type LsEntrySchema,
  ToolOutcome,
} from "../../src/protocol/messages.ts";
import { type ExecPiece, type ExecReply, isTerminal, piecesOf } from "../../src/turn/exec-reply.ts";
import { shellCall } from "../../src/turn/shell-turn.ts";
import { type CallResult, describeReply, RESULT_CHARS_MAX } from "../../src/turn/tool-results.ts";
import { idOf, TurnOfFacts, wanted } from "./turn-of-facts.ts";

type Message = NonNullable<MessageInitShape<typeof ExecClientMessageSchema>["message"]>;

const inline = (text: string) =>
  ({ content: { case: "inline", value: new TextEncoder().encode(text) } }) as const;
const decoder = new TextDecoder();

function described(message: Message | undefined, pieces: readonly ExecPiece[] = []): CallResult {
  const reply = create(ExecClientMessageSchema, message === undefined ? {} : { message });
  return describeReply({ kind: "reply", reply }, pieces, (content) =>
    content?.content.case === "inline" ? content.content.value : new Uint8Array(),
  );
}

const told = (message: Message, pieces: readonly ExecPiece[] = []): string => {
  const { outcome, text } = described(message, pieces);
  return `${outcome}: ${text}`;
};
const success = <Case extends Message["case"], Value>(kind: Case, value: Value) =>
  ({ case: kind, value: { result: { case: "success", value } } }) as const;

test("an exec without an outcome that anybody knows, with an error, or with nothing", () => {
  const of = (reply: ExecReply | "unknown"): string =>
    describeReply(reply, [], () => new Uint8Array()).outcome;
  assert.equal(of("unknown"), "unknown");
  assert.equal(of({ kind: "throw", error: "no" }), "failed");
  assert.equal(described(undefined).text, "the client answered with nothing");
  assert.equal(described({ case: "readResult", value: {} }).text, "the client answered with nothing");
});

test("every way in which an exec can end without success is told, with what it said until then", () => {
  const pieces: readonly ExecPiece[] = [
    { kind: "stdout", bytes: Buffer.from("so ") },
    { kind: "progress", text: "half" },
    { kind: "stderr", bytes: Buffer.from("far") },
  ];
  const ended = (
    result: NonNullable<Extract<Message, { case: "shellStreamResult" }>["value"]["result"]>,
  ): string => told({ case: "shellStreamResult", value: { result } }, pieces);
  const output = "\nOutput until then:\nso far";
  assert.equal(ended({ case: "error", value: { message: "broken" } }), `failed: broken${output}`);
  assert.equal(
    ended({ case: "rejected", value: { reason: "denied" } }),
    "denied: This was not allowed and did not run",
  );
  assert.match(ended({ case: "rejected", value: { reason: "not here" } }), /did not run: not here$/);
  assert.equal(
    ended({ case: "timeout", value: { timeoutMs: 5, output: inline("x") } }),
    `failed: It took longer than 5 ms and was stopped.\nx${output}`,
  );
  assert.match(ended({ case: "unknown", value: { detail: "it died" } }), /^unknown: .*it died/s);
  assert.match(ended({ case: "aborted", value: { detail: "you" } }), /^aborted: It was stopped: you/);
  const missing = { case: "notFound", value: { message: "no file", path: "a.txt" } } as const;
  assert.equal(told({ case: "readResult", value: { result: missing } }), "failed: no file: a.txt");
  const denied = {
    case: "permissionDenied",
    value: { message: "a.txt is not yours", path: "a.txt" },
  } as const;
  assert.equal(told({ case: "readResult", value: { result: denied } }), "failed: a.txt is not yours");
});

test("a command's output is told with how it ended, when that was not well", () => {
  const shell = (value: object, pieces: readonly ExecPiece[] = []): string =>
    told(success("shellResult", { exitCode: 0, ...value }), pieces);
  assert.equal(shell({ stdout: inline("out") }), "done: out");
  assert.equal(shell({}), "done: (exit code 0)");
  assert.equal(
    shell({ exitCode: 2, stdout: inline("out"), stderr: inline("err"), outputTruncated: true }),
    "done: out\n[stderr]\nerr\n(some of the output was left out)\n(exit code 2)",
  );
  assert.equal(
    shell({ signal: "SIGKILL" }, [{ kind: "stdout", bytes: Buffer.from("x") }]),
    "done: x\n(ended by SIGKILL)",
  );
});

test("files, directories and searches are told as lines", () => {
  assert.equal(told(success("readResult", { sizeBytes: 0 })), "done: (the file is empty)");
  const binary = { sizeBytes: 9, mediaType: "application/zip" };
  assert.equal(told(success("readResult", binary)), "done: A binary file (application/zip, 9 bytes).");
  const part = {
    content: inline("one"),
    sizeBytes: 9,
    totalLines: 3,
    truncated: true,
    mediaType: "text/plain",
  };
  assert.equal(told(success("readResult", part)), "done: one\n(there is more: 3 lines in all)");
  const image = described(
    success("readResult", { content: inline("png"), sizeBytes: 3, mediaType: "image/png" }),
  );
  assert.deepEqual(
    image.images.map(({ mediaType, bytes }) => [mediaType, decoder.decode(bytes)]),
    [["image/png", "png"]],
  );
  assert.equal(told(success("writeResult", { bytesWritten: 3, created: true })), "done: Created: 3 bytes.");
  assert.equal(told(success("deleteResult", {})), "done: Deleted.");
  assert.equal(told(success("globResult", { paths: [] })), "done: No files.");
  assert.equal(
    told(success("globResult", { paths: ["a", "b"], truncated: true })),
    "done: a\nb\n... and more",
  );
  assert.equal(told(success("lsResult", { entries: [] })), "done: (empty)");
  const entries: MessageInitShape<typeof LsEntrySchema>[] = [
    { path: "d", kind: LsEntryKind.DIRECTORY },
    { path: "l", kind: LsEntryKind.SYMLINK },
    { path: "f", kind: LsEntryKind.FILE, sizeBytes: 2n },
  ];
  assert.equal(told(success("lsResult", { entries })), "done: d/\nl (symlink)\nf (2 bytes)");
  assert.equal(told(success("grepResult", { files: [] })), "done: No matches.");
  const files = [
    { path: "a", matchCount: 2 },
    {
      path: "b",
      lines: [
        { lineNumber: 1, text: "x" },
        { lineNumber: 2, text: "y", isContext: true },
      ],
    },
  ];
  assert.equal(
    told(success("grepResult", { files, matchCount: 3, truncated: true })),
    "done: a: 2\nb:1: x\nb:2- y\n(3 matches, not all shown)",
  );
});

test("declared tools and subagents are told by what they gave", () => {
  assert.equal(told(success("subagentResult", { text: inline("I did it") })), "done: I did it");
  assert.equal(told(success("mcpResult", { structuredJson: inline("{}") })), "done: {}");
  const content = [
    { mediaType: "text/plain", content: inline("one") },
    ...Array.from({ length: 101 }, () => ({ mediaType: "image/png", content: inline("png") })),
  ];
  const result = described(success("mcpResult", { content, isError: true }));
  assert.deepEqual(
    [result.outcome, result.text, result.images.length],
    ["failed", "one\n(1 more images were left out)", 100],
  );
});

test("what is too long is cut in the middle", () => {
  const { text } = described(success("subagentResult", { text: inline("x".repeat(RESULT_CHARS_MAX + 7)) }));
  assert.match(text, /\n\.\.\. 7 characters left out \.\.\.\n/);
  const waves = `a${"🌊".repeat(RESULT_CHARS_MAX / 2)}b`;
  const cut = described(success("subagentResult", { text: inline(waves) })).text;
  assert.match(cut, /^a🌊+\n\.\.\. 2 characters left out \.\.\.\n🌊+b$/u);
});

test("pieces of a running exec are cut to what an event can hold; what is no piece says nothing", () => {
  const piece = (message: Message): readonly ExecPiece[] => {
    const reply = create(ExecClientMessageSchema, { message });
    assert.equal(isTerminal(reply), false);
    return piecesOf(reply);
  };
  const output = (value: object) =>
    ({ case: "shellStreamResult", value: { result: { case: "output", value } } }) as const;
  assert.deepEqual(piece(output({})), []);
  assert.equal(
    piece(output({ output: { case: "stdout", value: new Uint8Array(200_000) } })).length > 1,
    true,
  );
  const progress = { result: { case: "progress", value: { text: "half" } } } as const;
  assert.deepEqual(piece({ case: "subagentResult", value: progress }), [{ kind: "progress", text: "half" }]);
  assert.deepEqual(piece({ case: "mcpResult", value: progress }), [{ kind: "progress", text: "half" }]);
  const started = { result: { case: "started", value: {} } } as const;
  assert.deepEqual(piece({ case: "shellStreamResult", value: started }), []);
  const message = success("subagentResult", { text: inline("all of it") });
  assert.deepEqual(piecesOf(create(ExecClientMessageSchema, { message })), [], "a result is no piece");
});

test("a command of the user runs in the directory that it names, or in the client's own", () => {
  const args = (workingDirectory: string): unknown =>
    JSON.parse(shellCall(create(ShellCommandActionSchema, { command: "ls", workingDirectory })).args);
  const asked = { command: "ls", description: "run by the user" };
  assert.deepEqual(args(""), asked);
  assert.deepEqual(args("deep/down"), { ...asked, working_directory: "deep/down" });
});

/** A turn whose only step makes one call. */
function called(tool: string, request: Parameters<typeof TurnOfFacts.asked>[0] = {}): TurnOfFacts {
  const turn = TurnOfFacts.asked(request);
  turn.started();
  turn.planned("c", tool);
  turn.completed();
  return turn;
}

test("a file that was cut, is no text, or could not be read is not edited", () => {
  const read = (message: Message): string => {
    const turn = called("edit");
    turn.issued("c");
    turn.say({ case: "execClientMessage", value: { execId: "c", message } });
    const decision = turn.next();
    return decision.kind === "complete" ? (decision.calls[0]?.result.text ?? "") : decision.kind;
  };
  const file = (value: object) => success("readResult", { sizeBytes: 1, totalLines: 1, ...value });
  assert.match(read(file({ truncated: true })), /too large to be edited/);
  const bytes = { content: { case: "inline", value: new Uint8Array([0xff]) } } as const;
  assert.match(read(file({ content: bytes })), /not UTF-8/);
  assert.match(read(file({ content: inline("nothing of it") })), /old_text is not in the file/);
  assert.equal(read(success("deleteResult", {})), "Deleted.");
  assert.equal(
    read({ case: "readResult", value: { result: { case: "error", value: { message: "no" } } } }),
    "no",
  );
});

test("a write that failed is told as it failed", () => {
  const turn = called("edit");
  turn.issued("c");
  turn.result("c");
  turn.issued("c.write");
  const error = { case: "error", value: { message: "changed meanwhile" } } as const;
  const message = { case: "writeResult", value: { result: error } } as const;
  turn.say({ case: "execClientMessage", value: { execId: "c.write", message } });
  assert.equal(wanted(turn), "complete c failed");
});

test("subagents nest so deep and no deeper", () => {
  const asked = (subagentDepth: number): string => {
    const turn = TurnOfFacts.asked({ subagentDepth });
    turn.started();
    turn.planned("c", "subagent");
    const args = { description: "d", prompt: "p" };
    turn.facts.found.opened = {
      contextTokensMax: 0,
      holdsCalls: false,
      keepsConversation: false,
      plans: { hasBuiltIns: true, plan: () => ({ kind: "subagent", args }) },
    };
    turn.completed();
    return wanted(turn);
  };
  assert.equal(asked(9), "issue c");
  assert.equal(asked(10), "complete c failed");
});

test("a question is asked once; every kind of answer is told, and a client that is gone is not asked", () => {
  const questions = [{ text: "which?" }];
  const asking = (): TurnOfFacts => {
    const turn = called("ask_user");
    const plan = { kind: "ask", questions } as const;
    turn.facts.found.opened = {
      contextTokensMax: 0,
      holdsCalls: false,
      keepsConversation: false,
      plans: { hasBuiltIns: true, plan: () => plan },
    };
    return turn;
  };
  const query = { case: "askQuestion", value: { toolCallId: "c" } } as const;
  const answered = (response: MessageInitShape<typeof InteractionResponseSchema>["response"]): string => {
    const turn = asking();
    assert.equal(wanted(turn), "ask");
    turn.tell({ case: "interactionQuery", value: { id: 1, query } });
    assert.equal(wanted(turn), "wait");
    turn.say({
      case: "interactionResponse",
      value: { id: 1, ...(response === undefined ? {} : { response }) },
    });
    const decision = turn.next();
    assert.ok(decision.kind === "complete");
    return decision.calls.map(({ result }) => `${result.outcome}: ${result.text}`).join();
  };
  const answers = [
    { questionId: "1", optionIds: ["2"], text: "but" },
    { questionId: "2", optionIds: [], text: "so" },
  ];
  assert.equal(answered({ case: "askQuestion", value: { answers } }), "done: 1: option 2; but\n2: so");
  assert.equal(answered({ case: "askQuestion", value: {} }), "done: The user skipped the questions.");
  assert.equal(answered({ case: "approval", value: { approved: true } }), "done: yes");
  assert.equal(answered({ case: "approval", value: { reason: "never" } }), "done: no never");
  assert.equal(answered({ case: "unanswerable", value: {} }), "failed: There is nobody to ask.");
  assert.match(answered(undefined), /does not know/);
  const closed = asking();
  closed.hear({ kind: "close", seqno: 1 });
  assert.equal(wanted(closed), "complete c failed");
  const unknown = asking();
  unknown.tell({ case: "interactionQuery", value: { id: 1 } });
  assert.equal(unknown.facts.queries[0]?.toolCallId, "");
});

test("A8: a client that gives up on an exec, or closes it without a result, has answered it; the first reply counts", () => {
  for (const message of [
    { case: "throw", value: { execId: "c", error: "no idea" } },
    { case: "streamClose", value: { execId: "c" } },
  ] as const) {
    const turn = called("read");
    turn.issued("c");
    turn.say({ case: "execClientControlMessage", value: { message } });
    assert.equal(wanted(turn), "complete c failed");
    turn.result("c");
    assert.equal(wanted(turn), "complete c failed", "the first reply counts");
  }
});

test("a client that says too much is refused", () => {
  const turn = TurnOfFacts.asked();
  turn.facts.heardBytes = 256 * 1024 * 1024;
  turn.hear({ kind: "chunk", seqno: 1, body: new Uint8Array(1) });
  assert.match(wanted(turn), /a client says at most/);
});

test("a heartbeat changes nothing; a summary and an end are facts", () => {
  const turn = TurnOfFacts.asked();
  turn.say({ case: "clientHeartbeat", value: {} });
  turn.update({ case: "summary", value: { text: "short" } });
  turn.update({ case: "turnEnded", value: {} });
  turn.tell({ case: "kvServerMessage", value: { id: 3 } });
  assert.deepEqual([turn.facts.summary, turn.facts.hasEnded, turn.facts.kvIdMax], ["short", true, 3]);
});

test("text files are part of what was said; other files are named, and in the hand of whoever calls the model", () => {
  const png = Buffer.from("png");
  const attachments = [
    { mediaType: "text/plain", fileName: "a.txt", content: inline("text") },
    { mediaType: "application/json", content: inline("{}") },
    {
      mediaType: "image/png",
      fileName: "b.png",
      content: { content: { case: "inline", value: png } } as const,
    },
  ];
  const turn = TurnOfFacts.asked();
  turn.update({ case: "userMessageAppended", value: { userMessage: { attachments } } });
  const decision = turn.next();
  assert.ok(decision.kind === "call_model");
  assert.deepEqual(decision.prompt.messages.at(-1)?.content, [
    { type: "text", text: "The content of a.txt:\ntext" },
    { type: "text", text: "The content of a file:\n{}" },
    { type: "file", mediaType: "image/png", blobId: idOf(png), fileName: "b.png" },
  ]);
  assert.deepEqual([...decision.prompt.files.keys()], [idOf(png)]);
});

test("images of a result are named in the messages, wherever they lie", () => {
  const turn = called("read");
  turn.issued("c");
  turn.result("c");
  const files = [{ mediaType: "image/png", content: inline("png") }];
  const toolCall = {
    toolCallId: "c",
    outcome: ToolOutcome.DONE,
    execIds: ["c"],
    files,
    result: inline("an image"),
  };
  turn.update({ case: "toolCallCompleted", value: { toolCall } });
  const decision = turn.next();
  assert.ok(decision.kind === "call_model");
  assert.deepEqual([...decision.prompt.files.keys()], [idOf(Buffer.from("png"))]);
});
