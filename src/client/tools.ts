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
  /** By this client's clock; an approval that ran out is asked for again (C7). `Infinity`: for ever. */
  readonly untilMs: number;
  /** Why not, for the model and people. Only with a denial; a crash before the denial is sent loses it, and the approval is asked for again. */
  readonly reason?: string;
}

/** What a run is given of the stream that asked for it. */
export interface ToolRun {
  /**
   * Fires when the turn or the exec is aborted. The run still answers, with what came out of it. It fires too when this client lets go of
   * the stream, which can be resumed: then its reason is a HoldfastError `unavailable`, and the answer is not sent.
   */
  readonly signal: AbortSignal;
  /** The stream that asked. */
  readonly idempotencyKey: string;
  /** Says a reply that is not terminal, in order, before the result. Resolves once it is on this client's disk. */
  say(body: Uint8Array): Promise<void>;
  /** Puts bytes that are too large for a chunk to the stream's blobs; resolves with the id. */
  upload(bytes: Uint8Array): Promise<string>;
  /** Fetches a blob of the stream; rejects with `not_found`. */
  download(blobId: string): Promise<Uint8Array>;
}

export interface Tools {
  policy(exec: ExecRequest): ToolPolicy;
  /**
   * With what the request names only by a blob's id, so that all of it can be shown. Rejecting is a no. The signal is aborted when
   * the answer counts no longer: the server has taken the exec back, the turn is over or aborted, or this client leaves it.
   */
  approve(
    exec: ExecRequest,
    asked: Pick<ToolRun, "download" | "idempotencyKey" | "signal">,
  ): Promise<Approval>;
  /** Resolves with the encoded result; rejecting is reported as an error of the tool. */
  run(exec: ExecRequest, run: ToolRun): Promise<Uint8Array>;
  /** Stops whatever an earlier run of this exec may have left behind. */
  stopLeftover(exec: ExecRequest): void;
}
