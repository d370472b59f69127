/**
 * A turn as a page shows it, whether it runs, has just ended, or was read from what this browser keeps.
 */
import type { FullConversation, Item } from "../client/agent/full-conversation.ts";
import type { StepBlob, ToolCall } from "../protocol/messages.ts";
import { blobIn, textIn } from "../turn/content.ts";
import { outcomeName } from "../turn/tool-outcome.ts";
import type { Usage } from "../turn/usage.ts";
import type { TurnEnd, TurnView, UserMessageView, ViewPart } from "../turn/view.ts";

export interface ShownTurn {
  /** Stays the same while the page is open. */
  readonly id: string;
  /** What began it; undefined for one that went on without a message, and until its first event came. */
  readonly user: UserMessageView | undefined;
  /** Only what counts. */
  readonly parts: readonly ViewPart[];
  /** Undefined while it runs. `message`: why, in plain words, unless it is completed. */
  readonly end: { readonly reason: TurnEnd["reason"]; readonly message: string } | undefined;
  /** Undefined for turns of an earlier visit. */
  readonly usage: Usage | undefined;
  /** Empty when it is not known. */
  readonly model: string;
}

export function shownView(id: string, view: TurnView, end?: TurnEnd): ShownTurn {
  const { parts, usage, model } = view;
  return { id, user: view.userMessages[0], parts, usage, model, end: end && endOf(end) };
}

function endOf({ reason, failure, error }: TurnEnd): ShownTurn["end"] {
  return { reason, message: failure?.message ?? error?.message ?? WORDS[reason] };
}

const WORDS: Readonly<Record<TurnEnd["reason"], string>> = {
  completed: "",
  aborted: "It was stopped.",
  failed: "It failed.",
  lost: "The server does not know this answer any more: what came of it is kept. Send the message again.",
  left: "This page has let go of this turn. The turn continues at the server: reload the page.",
};

/** The turns of a conversation that are over, oldest first. A turn that is missing here is replaced by a line that says so. */
export function shownTurns({ turns }: FullConversation): readonly ShownTurn[] {
  return turns.map((turn, at): ShownTurn => {
    const rest = { end: { reason: "completed", message: "" }, usage: undefined, model: "" } as const;
    if (turn.kind === "missing") return { ...rest, id: `past-${at}`, user: undefined, parts: [MISSING] };
    if (turn.kind === "shell") {
      const { command } = turn;
      const text = command.kind === "found" ? `$ ${command.value.command}` : MISSING.text;
      return { ...rest, id: `past-${at}`, user: { text, messageId: "", attachments: [] }, parts: [] };
    }
    const user = turn.userMessage?.kind === "found" ? turn.userMessage.value : undefined;
    const id = user === undefined || user.messageId === "" ? `past-${at}` : user.messageId;
    return {
      ...rest,
      id,
      user: user && { text: user.text, messageId: user.messageId, attachments: [] },
      parts: partsOf(turn.steps),
    };
  });
}

const MISSING = { type: "text", step: 0, text: "(This part of the conversation is not kept here.)" } as const;

function partsOf(steps: readonly Item<StepBlob["step"]>[]): readonly ViewPart[] {
  const parts: ViewPart[] = [];
  let step = 0;
  for (const item of steps) {
    // What follows a tool's result was said in another step.
    if (parts.at(-1)?.type === "tool" && (item.kind === "missing" || item.value.case !== "toolCall")) step++;
    if (item.kind === "missing") parts.push({ ...MISSING, step });
    else parts.push(...partOf(item.value, step));
  }
  return parts;
}

function partOf({ case: kind, value }: StepBlob["step"], step: number): readonly ViewPart[] {
  switch (kind) {
    case "assistantMessage":
      return [{ type: "text", step, text: value.text }];
    case "thinkingMessage":
      return [{ type: "thinking", step, text: value.text, durationMs: value.durationMs }];
    case "userMessage":
      return [{ type: "user", text: value.text, messageId: value.messageId }];
    case "toolCall":
      return [toolOf(value, step)];
    case undefined:
      return [];
  }
}

function toolOf(call: ToolCall, step: number): ViewPart {
  const { toolCallId, tool, execIds } = call;
  return {
    type: "tool",
    step,
    toolCallId,
    tool,
    args: textIn(call.argsJson) ?? "",
    argsBlobId: blobIn(call.argsJson),
    state: "over",
    outcome: outcomeName(call.outcome),
    result: textIn(call.result),
    resultBlobId: blobIn(call.result),
    execIds,
    output: "",
    outputOmitted: 0,
    outputRest: "",
    progress: [],
  };
}
