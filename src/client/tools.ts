/**
 * What a client can carry out for the server, as the stream sees it.
 *
 * The stream decides when: after the tool journal is on disk, at most once. What a tool is and does
 * lies behind this interface.
 */
import type { ExecRequest } from "../protocol/exec-codec.ts";

export interface ToolPolicy {
  /** Running it twice does no more than running it once: only then may it run again after a crash (C2). */
  readonly repeatable: boolean;
  readonly needsApproval: boolean;
}

export interface Approval {
  readonly allowed: boolean;
  /** By this client's clock; an approval that ran out is asked for again (C7). */
  readonly untilMs: number;
}

export interface Tools {
  policy(exec: ExecRequest): ToolPolicy;
  approve(exec: ExecRequest): Promise<Approval>;
  /** Resolves with the encoded result; rejecting is reported as an error of the tool. */
  run(exec: ExecRequest, signal: AbortSignal): Promise<Uint8Array>;
  /** Stops whatever an earlier run of this exec may have left behind. */
  stopLeftover(exec: ExecRequest): void;
}
