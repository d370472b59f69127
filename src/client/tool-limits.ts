/**
 * Limits on what a stream may have carried out, laid before the tools of the client.
 *
 * What the server was offered is a wish; this is the rule. A server that asks for more is answered with a denial, before
 * a person is asked, and nothing runs.
 */
import { type ExecRequest, writeExecRejected } from "../protocol/exec-codec.ts";
import type { Tools } from "./tools.ts";

/** Resolves with the reason why this stream may not have it, or with undefined. */
export type ToolLimit = (exec: ExecRequest, idempotencyKey: string) => Promise<string | undefined>;

/** `limits` may grow later. */
export function limitedTools(tools: Tools, limits: readonly ToolLimit[]): Tools {
  const refusal = async (exec: ExecRequest, idempotencyKey: string): Promise<string | undefined> => {
    for (const limit of limits) {
      const reason = await limit(exec, idempotencyKey);
      if (reason !== undefined) return reason;
    }
    return undefined;
  };
  return {
    policy: (exec) => tools.policy(exec),
    stopLeftover: (exec) => tools.stopLeftover(exec),
    approve: async (exec, asked) => {
      const reason = await refusal(exec, asked.idempotencyKey);
      return reason === undefined ? tools.approve(exec, asked) : { allowed: false, untilMs: 0, reason };
    },
    run: async (exec, run) => {
      const reason = await refusal(exec, run.idempotencyKey);
      return reason === undefined ? tools.run(exec, run) : writeExecRejected(exec, reason);
    },
  };
}
