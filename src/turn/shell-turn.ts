/**
 * A turn without the model: the user runs a command, and it becomes part of the conversation.
 *
 * To the log it is a step with one tool call, so the rules for execs, restarts and takeovers are the same.
 */
import { create } from "../protocol/message.ts";
import type { ToolCallPart } from "../protocol/chat-message.ts";
import { type ShellCommandAction, type ShellSuccess, ShellSuccessSchema } from "../protocol/messages.ts";
import type { ExecReply } from "./exec-reply.ts";
import { shortened } from "./tool-results.ts";
import { inline } from "./content.ts";

const TOOL_CALL_ID = "command";
const encoder = new TextEncoder();

export function shellCall({ command, workingDirectory }: ShellCommandAction): ToolCallPart {
  const directory = workingDirectory === "" ? {} : { working_directory: workingDirectory };
  const args = JSON.stringify({ command, description: "run by the user", ...directory });
  return { type: "tool-call", toolCallId: TOOL_CALL_ID, tool: "shell", args };
}

/** How it went, for display: with the output, wherever it came from. */
export function shellOutput(reply: ExecReply | "unknown" | undefined, result: string): ShellSuccess {
  const success = successOf(reply);
  return create(ShellSuccessSchema, {
    exitCode: success?.exitCode ?? -1,
    signal: success?.signal ?? "",
    durationMs: success?.durationMs ?? 0,
    outputTruncated: success?.outputTruncated ?? false,
    stdout: inline(encoder.encode(shortened(result))),
  });
}

function successOf(reply: ExecReply | "unknown" | undefined): ShellSuccess | undefined {
  if (reply === undefined || reply === "unknown" || reply.kind === "throw") return undefined;
  const { message } = reply.reply;
  const isShell = message.case === "shellResult" || message.case === "shellStreamResult";
  if (!isShell || message.value.result.case !== "success") return undefined;
  return message.value.result.value;
}
