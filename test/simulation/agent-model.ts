/**
 * The model of the simulated turns: it answers by what is in the prompt, keeps nothing, and takes its time by the
 * world's clock.
 *
 * What it was asked is written down outside of every process: a model that was called has been called, whatever
 * became of the caller.
 */
import {
  type Model,
  type ModelCall,
  ModelFailure,
  type ModelPart,
  type Models,
} from "../../src/agent/index.ts";
import { textOf } from "../../src/protocol/chat-message.ts";
import type { SimProcess } from "./world/index.ts";

type Said =
  | string
  | { readonly think: string }
  | { readonly tool: string; readonly args: Readonly<Record<string, unknown>> };

/** What the user says, turn by turn; the model follows the script of that name. */
export const PROMPTS = ["tidy up", "are you done?"] as const;

/** The file that the edit changes. */
export const NOTES = "notes.txt";

/**
 * By prompt, step by step: parallel tools, an edit with its two execs beside a command, a list that asks nothing of the
 * client, an answer; then a turn that needs the conversation before it.
 */
const SCRIPTS: Readonly<Record<string, readonly (readonly Said[])[]>> = {
  [PROMPTS[0]]: [
    [
      { think: "What is there?" },
      "Looking ",
      "around. ",
      { tool: "shell", args: { command: "first" } },
      { tool: "read", args: { path: NOTES } },
    ],
    [
      "Now ",
      { tool: "edit", args: { path: NOTES, edits: [{ old_text: "old", new_text: "new" }] } },
      { tool: "shell", args: { command: "second" } },
    ],
    [{ tool: "todo_write", args: { todos: [{ id: "1", text: "all", status: "completed" }] } }],
    ["It is ", "tidy."],
  ],
  [PROMPTS[1]]: [["Yes, ", "I am."]],
};

const USAGE = {
  inputTokens: 10,
  outputTokens: 5,
  cacheReadTokens: 3,
  cacheWriteTokens: 2,
  reasoningTokens: 1,
};

/** Between two pieces. */
const PACE_MS = 20;

export interface CalledModel {
  /** Every message of the prompt, as JSON text. */
  readonly prompt: readonly string[];
  /** How many answers of its own it was shown. */
  readonly answers: number;
}

/** The models of one life of a server. */
export function simulatedModels(process: SimProcess, onCall: (call: CalledModel) => void): Models {
  const model: Model = {
    id: "simulated/model",
    contextTokensMax: 1_000,
    call: (call) => parts(process, call, onCall),
  };
  return {
    resolve: (name) => {
      if (name === "" || name === model.id) return model;
      throw new ModelFailure("model_not_found", `there is ${model.id}, and no ${name}`);
    },
    list: () => [{ id: model.id, provider: "simulated", isDefault: true, contextTokensMax: 1_000 }],
  };
}

async function* parts(
  process: SimProcess,
  { messages, signal }: ModelCall,
  onCall: (call: CalledModel) => void,
): AsyncGenerator<ModelPart> {
  const answers = messages.filter(({ role }) => role === "assistant").length;
  // A dead process calls nobody.
  if (process.alive) onCall({ prompt: messages.map((message) => JSON.stringify(message)), answers });
  const at = messages.findLastIndex(({ role }) => role === "user");
  const prompt = messages[at];
  const due = messages.slice(at).filter(({ role }) => role === "assistant").length;
  const said = SCRIPTS[prompt === undefined ? "" : textOf(prompt)]?.[due] ?? ["Nothing more."];
  let calls = 0;
  for (const piece of said) {
    await pause(process, PACE_MS);
    signal.throwIfAborted();
    if (typeof piece === "string") yield { kind: "text", text: piece };
    else if ("think" in piece) {
      yield { kind: "thinking", text: piece.think };
      yield { kind: "thinking_end", metadata: { simulated: { signature: `signed ${piece.think}` } } };
    } else {
      // The same ids in every step, as some providers do it.
      const toolCallId = `call_${++calls}`;
      const args = JSON.stringify(piece.args);
      yield { kind: "tool_call_delta", toolCallId, tool: piece.tool, args };
      yield { kind: "tool_call", toolCallId, tool: piece.tool, args };
    }
  }
  yield { kind: "finish", reason: calls > 0 ? "tool_calls" : "stop", usage: USAGE };
}

function pause(process: SimProcess, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    process.env.after(delayMs, resolve);
  });
}
