/**
 * How a tool call ended: its names, and the numbers of the contract.
 */
import { ToolOutcome } from "../protocol/messages.ts";

export type ToolOutcomeName = "done" | "failed" | "denied" | "aborted" | "unknown";

export const TOOL_OUTCOMES: Readonly<Record<ToolOutcomeName, ToolOutcome>> = {
  done: ToolOutcome.DONE,
  failed: ToolOutcome.FAILED,
  denied: ToolOutcome.DENIED,
  aborted: ToolOutcome.ABORTED,
  unknown: ToolOutcome.UNKNOWN,
};

const NAMES = ["done", "failed", "denied", "aborted", "unknown"] as const;

/** Undefined for a call that is not over, and for an outcome that a newer server has a name for. */
export function outcomeName(outcome: ToolOutcome): ToolOutcomeName | undefined {
  return NAMES.find((name) => TOOL_OUTCOMES[name] === outcome);
}
