/**
 * A turn without the model: the user runs a command, and it becomes part of the conversation.
 *
 * To the log it is a step with one tool call, so the rules for execs, restarts and takeovers are the same.
 */
import { create } from "@bufbuild/protobuf";
import type { ToolCallPart } from "../protocol/chat-message.ts";
import {
  FinishReason,
  type ShellCommandAction,
  type ShellSuccess,
  ShellSuccessSchema,
  type ToolCall,
} from "../protocol/messages.ts";
import { execIdOf } from "./exec-ids.ts";
import type { ExecReply } from "./exec-reply.ts";
import { beginStep, type StepPlace } from "./model-step.ts";
import { shortened } from "./tool-results.ts";
import type { TurnIo } from "./turn-io.ts";

const TOOL_CALL_ID = "command";
const encoder = new TextEncoder();

export function shellCall({ command, workingDirectory }: ShellCommandAction): ToolCallPart {
  const directory = workingDirectory === "" ? {} : { working_directory: workingDirectory };
  const args = JSON.stringify({ command, description: "run by the user", ...directory });
  return { type: "tool-call", toolCallId: TOOL_CALL_ID, tool: "shell", args };
}

export async function announceShell(io: TurnIo, place: StepPlace, call: ToolCallPart): Promise<void> {
  beginStep(io, place, "");
  const argsJson = await io.content(encoder.encode(call.args));
  const execIds = [execIdOf(place.step, place.attempt, 0)];
  const toolCall = { toolCallId: call.toolCallId, tool: call.tool, argsJson, execIds };
  void io.update({ case: "toolCallStarted", value: { toolCall } });
  await io.update({
    case: "stepCompleted",
    value: { step: place.step, finishReason: FinishReason.TOOL_CALLS },
  });
}

/** How it went, for display: with the output, wherever it came from. */
export async function shellOutput(
  io: TurnIo,
  reply: ExecReply | "unknown" | undefined,
  over: ToolCall | undefined,
): Promise<ShellSuccess> {
  const text = new TextDecoder().decode(await io.read(over?.result));
  const stdout = { content: { case: "inline", value: encoder.encode(shortened(text)) } } as const;
  const success = successOf(reply);
  return create(ShellSuccessSchema, {
    exitCode: success?.exitCode ?? -1,
    signal: success?.signal ?? "",
    durationMs: success?.durationMs ?? 0,
    outputTruncated: success?.outputTruncated ?? false,
    stdout,
  });
}

function successOf(reply: ExecReply | "unknown" | undefined): ShellSuccess | undefined {
  if (reply === undefined || reply === "unknown" || reply.kind === "throw") return undefined;
  const { message } = reply.reply;
  const isShell = message.case === "shellResult" || message.case === "shellStreamResult";
  if (!isShell || message.value.result.case !== "success") return undefined;
  return message.value.result.value;
}
