/**
 * A small turn as the demo's proof gets it: two steps, a command that is done, one that was cut off, and an edit. All is well
 * with it; tests spoil one thing at a time.
 */
import { create, type MessageInitShape } from "../../src/protocol/message.ts";
import type { Evidence } from "../../src/cli/demo/check.ts";
import { bodyOf } from "../../src/cli/demo/news.ts";
import { beginning, commandOf, ending, LETTER_AFTER, type PlayStep } from "../../src/cli/demo/play.ts";
import type { Life } from "../../src/cli/demo/story.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
  type InteractionUpdateSchema,
  ToolOutcome,
  TurnEndReason,
} from "../../src/protocol/messages.ts";

export const QUICK = { label: "quick", seconds: 0 };
export const SLOW = { label: "slow", seconds: 9 };

const PLAY: readonly PlayStep[] = [
  { says: "One two.", deeds: [QUICK, SLOW], edits: true },
  { says: "Three four.", deeds: [], edits: false },
];

type UpdateInit = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;
type ServerInit = NonNullable<MessageInitShape<typeof AgentServerMessageSchema>["message"]>;
type ClientInit = NonNullable<MessageInitShape<typeof AgentClientMessageSchema>["message"]>;

function server(message: ServerInit): AgentServerMessage {
  return create(AgentServerMessageSchema, { message });
}

export function update(message: UpdateInit): AgentServerMessage {
  return server({ case: "interactionUpdate", value: { message } });
}

export function text(words: string): AgentServerMessage {
  return update({ case: "textDelta", value: { text: words } });
}

export function request(execId: string, command: string): AgentServerMessage {
  const message = { case: "shellStreamArgs", value: { command } } as const;
  return server({ case: "execServerMessage", value: { execId, message } });
}

function fileRequest(execId: string, kind: "readArgs" | "writeArgs"): AgentServerMessage {
  const message = { case: kind, value: { path: "letter.txt" } } as const;
  return server({ case: "execServerMessage", value: { execId, message } });
}

export function completed(execIds: string[], outcome: ToolOutcome): AgentServerMessage {
  return update({ case: "toolCallCompleted", value: { toolCall: { tool: "a tool", execIds, outcome } } });
}

function stepOver(step: number): AgentServerMessage {
  return update({ case: "stepCompleted", value: { step } });
}

const MESSAGES: readonly AgentServerMessage[] = [
  update({ case: "stepStarted", value: { step: 0 } }),
  text("One "),
  text("two."),
  stepOver(0),
  request("0.0.0", commandOf(QUICK)),
  request("0.0.1", commandOf(SLOW)),
  fileRequest("0.0.2", "readArgs"),
  fileRequest("0.0.2.write", "writeArgs"),
  completed(["0.0.0"], ToolOutcome.DONE),
  completed(["0.0.2", "0.0.2.write"], ToolOutcome.DONE),
  completed(["0.0.1"], ToolOutcome.UNKNOWN),
  update({ case: "stepStarted", value: { step: 1 } }),
  text("Thr"),
  update({ case: "stepRequested", value: { step: 1, requests: 3 } }),
  text("ee "),
  text("four."),
  stepOver(1),
  update({ case: "turnEnded", value: { reason: TurnEndReason.COMPLETED } }),
];

export function answer(execId: string): ClientInit {
  const result = { case: "error", value: { message: "" } } as const;
  return {
    case: "execClientMessage",
    value: { execId, message: { case: "shellResult", value: { result } } },
  };
}

const CHUNKS: readonly ClientInit[] = [
  { case: "runRequest", value: {} },
  ...["0.0.0", "0.0.2", "0.0.2.write", "0.0.1"].map(answer),
];

export function eventsOf(messages: readonly AgentServerMessage[]): Evidence["events"] {
  return messages.map((message, at) => {
    const mark = at === messages.length - 1 ? "completed" : "plain";
    return { number: at + 1, mark, message };
  });
}

export function chunksOf(messages: readonly ClientInit[]): Evidence["chunks"] {
  return messages.map((message, at) => {
    return { number: at, mark: "plain", message: create(AgentClientMessageSchema, { message }) };
  });
}

export function heardOf(events: Evidence["events"], after: number): Life["heard"] {
  return events.slice(after).map(({ number, message }) => {
    return { eventId: number, body: bodyOf(message) };
  });
}

function run(execId: string, tool: string, about: string, isOver: boolean): Life["runs"][number] {
  return { execId, tool, about, isOver };
}

export function soundEvidence(): Evidence {
  const events = eventsOf(MESSAGES);
  const chunks = chunksOf(CHUNKS);
  const first: Life = {
    pid: 1,
    cursor: 0,
    isKilled: true,
    isCaughtUp: true,
    heard: heardOf(events, 0).slice(0, 8),
    runs: [
      run("0.0.0", "shell_stream", commandOf(QUICK), true),
      run("0.0.1", "shell_stream", commandOf(SLOW), false),
      run("0.0.2", "read", "letter.txt", true),
      run("0.0.2.write", "write", "letter.txt", true),
    ],
  };
  const second: Life = { ...first, pid: 2, cursor: 4, isKilled: false, heard: heardOf(events, 4), runs: [] };
  return {
    idempotencyKey: "a-turn",
    play: PLAY,
    lives: [first, second],
    shown: ["One two.", "Three four."],
    events,
    chunks,
    heads: { nextSeqno: chunks.length, eventHead: events.length },
    deeds: [beginning(QUICK), ending(QUICK), beginning(SLOW)],
    letter: LETTER_AFTER,
  };
}
