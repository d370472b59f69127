/**
 * The tools of a program as a client has them: functions, each given once, and the program's own yes or no before those that need one.
 *
 * No file, shell or MCP server is offered: what a program hands over is all that a model can do with it.
 */
import type { Approval, ToolRun } from "../client/tools.ts";
import { messageOf } from "../protocol/errors.ts";
import { argumentsOf, functionTools } from "../tools/declared-tools.ts";
import type { Approvals, PolicySubject } from "../tools/approvals.ts";
import { TOOLS_DEFAULTS } from "../tools/config.ts";
import { type ToolSet, toolSet } from "../tools/tool-set.ts";
import type { Tool } from "../tools/tool.ts";

export interface ApprovalQuestion {
  readonly conversation: string;
  readonly tool: string;
  /** As the model wrote them; not checked yet. */
  readonly args: unknown;
  /** Fires when the answer counts no longer: the turn is over, or was aborted. */
  readonly signal: AbortSignal;
}

/** True: it runs. False, or a reason for the model: it does not. */
export type Approve = (question: ApprovalQuestion) => Promise<boolean | string> | boolean | string;

interface ProgramTools {
  readonly tools: Readonly<Record<string, Tool>>;
  readonly approve: Approve | undefined;
  /** The conversation whose turn a stream carries. */
  readonly conversationOf: (idempotencyKey: string) => Promise<string>;
}

export function programTools({ tools, approve, conversationOf }: ProgramTools): ToolSet {
  const functions = Object.entries(tools).map(([name, tool]) => {
    const { description, parameters, repeatable, needsApproval } = tool;
    const policy = needsApproval ? ("ask" as const) : ("allow" as const);
    const run: Parameters<typeof functionTools>[0][string]["run"] = async (args, given) => {
      const { signal, callId, progress, idempotencyKey } = given;
      const conversation = await conversationOf(idempotencyKey);
      return tool.run(args, { signal, callId, progress, conversation });
    };
    return [name, { description, parameters, repeatable, policy, run }] as const;
  });
  return toolSet({
    workspace: "",
    notices: [],
    approvals: approvalsOf(approve, conversationOf),
    files: undefined,
    declared: functionTools(Object.fromEntries(functions)),
    subagents: undefined,
    close: async () => undefined,
  });
}

function approvalsOf(
  approve: Approve | undefined,
  conversationOf: ProgramTools["conversationOf"],
): Approvals {
  return {
    // A tool that this program does not have runs nothing, so the user is not asked about it.
    policy: ({ declared = "allow" }) => declared,
    approve: async (subject, asked) => {
      const tool = subject.names[0] ?? "";
      if (approve === undefined)
        return no(`"${tool}" needs an approval, and this program has no \`approve\``);
      try {
        const args = await argumentsIn(subject, asked);
        const conversation = await conversationOf(asked.idempotencyKey);
        const said = await approve({ conversation, tool, args, signal: asked.signal });
        if (said === true) return { allowed: true, untilMs: Date.now() + TOOLS_DEFAULTS.approvalMs };
        return no(typeof said === "string" ? said : "the user said no");
      } catch (cause) {
        return no(`the question could not be asked: ${messageOf(cause)}`);
      }
    },
  };
}

async function argumentsIn({ message }: PolicySubject, asked: Pick<ToolRun, "download">): Promise<unknown> {
  const { message: request } = message;
  return request.case === "mcpArgs" ? argumentsOf(request.value, asked) : {};
}

function no(reason: string): Approval {
  return { allowed: false, untilMs: 0, reason };
}
