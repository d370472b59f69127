/**
 * What `resumeAll` found, and did about it.
 *
 * Each journal is named in exactly one of the lists: a stream whose welcome says that it is too old leaves `resumed` for `kept`.
 */
import type { Outcome } from "../core/journal.ts";
import type { Environment } from "../transport/environment.ts";
import type { ClientStream } from "./stream.ts";

export interface ResumeReport {
  readonly resumed: readonly ClientStream[];
  /** Ended, or orphaned: their journals are gone. */
  readonly cleared: readonly string[];
  /** Were generating, and nothing is left to continue from: their status is "aborted". */
  readonly aborted: readonly string[];
  /** Another process or tab writes to them: they can be followed here. */
  readonly elsewhere: readonly { readonly idempotencyKey: string; readonly holder: string }[];
  /** Left as they are, stream and journal: too old to resume by themselves, damaged, fenced, or lost with something in them. */
  readonly kept: readonly { readonly idempotencyKey: string; readonly reason: string }[];
}

export type ResumeReportDraft = {
  readonly [Key in keyof ResumeReport]: ResumeReport[Key][number][];
};

export function beginReport(): ResumeReportDraft {
  return { resumed: [], cleared: [], aborted: [], elsewhere: [], kept: [] };
}

/** Waits until a resumed stream is live, is known not to be, or has had its try; then the next one may begin. */
export async function settled(stream: ClientStream, environment: Environment, tryMs: number): Promise<void> {
  const isSettled = (): boolean => stream.status.state !== "connecting";
  if (isSettled()) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const unwatch = stream.watch(() => {
    if (isSettled()) resolve();
  });
  const cancel = environment.after(tryMs, resolve);
  await promise;
  unwatch();
  cancel();
}

/** Why a journal that has ended is kept, and what can be done about it. */
export function keptReason(outcome: Outcome | undefined): string {
  switch (outcome) {
    case "fenced":
      return "it ended as fenced: another client writes to the stream; takeOver(idempotencyKey) takes it back, forget(idempotencyKey) removes the journal";
    case "lost":
      return "it ended as lost, with something that never reached the server; forget(idempotencyKey) removes the journal";
    default:
      return `it ended as ${outcome}`;
  }
}
