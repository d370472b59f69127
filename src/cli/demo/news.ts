/**
 * What the demo's client process tells the demo, one JSON line at a time: what it heard, what it ran, how its stream is.
 *
 * A line that was written is in the pipe, also when its writer is killed a moment later; so this is what a person in
 * front of that client had seen.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import { type AgentServerMessage, ToolOutcome } from "../../protocol/messages.ts";
import { encodeServer, updateOf } from "../../turn/messages.ts";
import { outcomeName } from "../../turn/tool-outcome.ts";

const SAID = z.discriminatedUnion("what", [
  z.object({ what: z.literal("text"), text: z.string() }),
  z.object({ what: z.literal("step_started"), step: z.number() }),
  z.object({ what: z.literal("step_restarted"), step: z.number() }),
  z.object({ what: z.literal("step_completed"), step: z.number() }),
  z.object({
    what: z.literal("tool_completed"),
    tool: z.string(),
    outcome: z.string(),
    execIds: z.array(z.string()),
  }),
  z.object({ what: z.literal("turn_ended") }),
  z.object({ what: z.literal("other") }),
]);

/** The part of an event that the show is about. */
export type Said = z.infer<typeof SAID>;

const NEWS = z.discriminatedUnion("kind", [
  /** It follows the turn now: from which event on, and what of the step under way it remembers. */
  z.object({ kind: z.literal("follows"), cursor: z.number(), stepText: z.string() }),
  z.object({ kind: z.literal("state"), state: z.string(), why: z.string() }),
  z.object({ kind: z.literal("heard"), eventId: z.number(), digest: z.string(), said: SAID }),
  z.object({ kind: z.literal("runs"), execId: z.string(), tool: z.string(), about: z.string() }),
  z.object({ kind: z.literal("ran"), execId: z.string() }),
  /** The turn is over, and everything of it is kept; `texts` is what stands on its screen, by step. */
  z.object({ kind: z.literal("over"), reason: z.string(), texts: z.array(z.string()) }),
]);

export type News = z.infer<typeof NEWS>;

export function readNews(line: string): News {
  return NEWS.parse(JSON.parse(line));
}

/** The same for what a client heard and for what stands in the log, when they are the same. */
export function digestOf(message: AgentServerMessage): string {
  return createHash("sha256").update(encodeServer(message)).digest("hex").slice(0, 16);
}

export function saidOf(message: AgentServerMessage): Said {
  const update = updateOf(message);
  switch (update.case) {
    case "textDelta":
      return { what: "text", text: update.value.text };
    case "stepStarted":
      return { what: "step_started", step: update.value.step };
    case "stepRestarted":
      return { what: "step_restarted", step: update.value.step };
    case "stepCompleted":
      return { what: "step_completed", step: update.value.step };
    case "toolCallCompleted": {
      const { tool = "", outcome = ToolOutcome.UNSPECIFIED, execIds = [] } = update.value.toolCall ?? {};
      return {
        what: "tool_completed",
        tool,
        outcome: outcomeName(outcome) ?? "unknown",
        execIds: [...execIds],
      };
    }
    case "turnEnded":
      return { what: "turn_ended" };
    default:
      return { what: "other" };
  }
}
